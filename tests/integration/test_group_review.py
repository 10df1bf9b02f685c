"""A group is planned, reviewed and applied by the CLI with OpenTofu itself: previews first, real plans after each apply."""

from typing import Any

from tests.integration.test_dependencies import terminal
from tests.integration.worker_bench import Bench, bench
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

__all__ = ["bench", "terminal"]

NET = """
variable "name" { default = "one" }
resource "terraform_data" "net" { input = var.name }
output "name" { value = var.name }
output "id" { value = terraform_data.net.id }
"""
SITE = """
variable "name" { type = string }
resource "terraform_data" "site" { input = "site of ${var.name}" }
output "seen" { value = terraform_data.site.output }
"""
HOST = """
variable "net_id" { type = string }
resource "terraform_data" "host" { input = var.net_id }
"""


def make(bench: Bench, name: str, code: str) -> str:
    spec = {"source_kind": "inline", "source": {"files": {"main.tf": code}}, "engine": "tofu"}
    made = bench.rpc("create_module", p_org=bench.org, p_group_path="all", p_name=name, p_spec=spec)
    return str(made["id"])


def review(terminal: Terminal, made: str) -> dict[str, dict[str, Any]]:
    return {row["module_path"]: row for row in terminal.json("groups", "review", made)}


def test_previews_become_plans_after_the_apply_and_reviewed_plans_are_applied(bench: Bench, terminal: Terminal) -> None:
    net, site, host = make(bench, "net", NET), make(bench, "site", SITE), make(bench, "host", HOST)
    bound = {"p_producer": net, "p_options": {"bindings": {"name": "name"}}}
    bench.rpc("set_dependency", p_consumer=site, **bound)
    bench.rpc("set_dependency", p_consumer=host, **{**bound, "p_options": {"bindings": {"net_id": "id"}}})
    bench.runner(options={"capacity": 2})
    planned = terminal.run("groups", "plan", "all", "--wait")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    made = terminal.json("groups", "sets")[0]["id"]
    rows = review(terminal, made)
    assert rows["all/net"]["decision"] == "apply"
    assert (rows["all/site"]["is_preview"], rows["all/site"]["has_changes"], rows["all/site"]["decision"]) == (
        True, True, None,
    )  # fmt: skip
    assert rows["all/host"]["message"] == "Waits for all/net: `id` is known after apply."
    preview = bench.rows("provision_jobs", number=rows["all/site"]["job_number"], org_id=bench.org)[0]
    assert "This plan is never applied." in bench.log_of(preview["id"])
    refused = terminal.run("groups", "confirm", made, "--module", "all/site", "--yes")
    assert "No chosen plan of this set can be applied." in refused.stderr

    done = terminal.run("groups", "confirm", made, "--wait", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    both = {"all/site", "all/host"}
    wait_until(
        lambda: {path for path, row in review(terminal, made).items() if row["decision"] == "apply"} == both,
        timeout_seconds=300,
    )
    done = terminal.run("groups", "confirm", made, "--wait", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert terminal.run("modules", "outputs", "all/site", "seen").stdout.strip() == "site of one"
