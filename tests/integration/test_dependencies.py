"""Modules that take outputs of others, with OpenTofu itself: applied from empty, changed at the root, cascaded, destroyed."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker_bench import Bench, bench
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

__all__ = ["bench"]

ROOT = """
variable "name" { default = "one" }
resource "terraform_data" "net" { input = { name = var.name, zones = ["a", "b"] } }
output "net" { value = terraform_data.net.output }
output "password" {
  value     = "correct-horse-${var.name}"
  sensitive = true
}
"""
MIDDLE = """
variable "net" { type = object({ name = string, zones = list(string) }) }
variable "password" {
  type      = string
  sensitive = true
}
resource "terraform_data" "hashed" { input = sha256(var.password) }
resource "terraform_data" "subnet" { input = "${var.net.name}-${length(var.net.zones)}" }
output "subnet" { value = terraform_data.subnet.output }
"""
LEAF = """
variable "left" { type = string }
variable "right" { type = string }
resource "terraform_data" "site" { input = "${var.left} ${var.right}" }
output "seen" { value = terraform_data.site.output }
"""
DEPENDENCIES = """
[[dependency]]
consumer = "net/left"
producer = "net/root"
cascades = "on_change"
bindings = { net = "net", password = "password" }

[[dependency]]
consumer = "net/right"
producer = "net/root"
cascades = "on_change"
bindings = { net = "net", password = "password" }

[[dependency]]
consumer = "apps/site"
producer = "net/left"
cascades = "on_change"
bindings = { left = "subnet" }

[[dependency]]
consumer = "apps/site"
producer = "net/right"
cascades = "on_change"
bindings = { right = "subnet" }
"""
CODE = {"net/root": ROOT, "net/left": MIDDLE, "net/right": MIDDLE, "apps/site": LEAF}


@pytest.fixture
def terminal(bench: Bench, running_stack: RunningStack, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token})


@pytest.fixture
def modules(bench: Bench, terminal: Terminal, tmp_path: Path) -> dict[str, str]:
    """Four modules in a diamond, and a runner for them."""
    made = {}
    for path, code in CODE.items():
        group, _, name = path.rpartition("/")
        spec = {"source_kind": "inline", "source": {"files": {"main.tf": code}}, "engine": "tofu", "auto_apply": True}
        made[path] = bench.rpc("create_module", p_org=bench.org, p_group_path=group, p_name=name, p_spec=spec)["id"]
    (tmp_path / "order.toml").write_text(DEPENDENCIES)
    done = terminal.run("dependencies", "import", str(tmp_path / "order.toml"), "--yes")
    assert done.stdout == "4 dependencies, 0 before.\n", done.stderr
    bench.runner(options={"capacity": 2})
    return made


def order(bench: Bench, kind: str) -> list[str]:
    """The modules in the order in which their jobs of this type were made."""
    return [row["module_path"] for row in bench.rows("provision_jobs", org_id=bench.org, type=kind, order="id.asc")]


def seen(terminal: Terminal) -> str:
    return terminal.run("modules", "outputs", "apps/site", "seen").stdout.strip()


def log_of_module(bench: Bench, module: str, kind: str) -> str:
    rows = bench.rows("provision_jobs", module_id=module, type=kind, order="id.desc", limit=1)
    return bench.log_of(rows[0]["id"])


@pytest.mark.slow
def test_group_is_applied_changed_cascaded_and_destroyed_in_order(
    bench: Bench, terminal: Terminal, modules: dict[str, str]
) -> None:
    done = terminal.run("groups", "apply", "", "--wait", "--yes")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{log_of_module(bench, modules['net/left'], 'APPLY')}"
    applied = order(bench, "APPLY")
    assert (applied[0], applied[-1], len(applied)) == ("net/root", "apps/site", 4)
    assert seen(terminal) == "one-2 one-2"
    log = log_of_module(bench, modules["net/left"], "APPLY")
    assert "Input password is the output password of another module, sensitive" in log
    assert "correct-horse-one" not in log

    bench.rpc("update_module", p_module=modules["net/root"], p_spec={"inputs": {"name": "two"}})
    bench.finished("APPLY", modules["net/root"])
    wait_until(lambda: seen(terminal) == "two-2 two-2", timeout_seconds=600, every_seconds=1)
    causes = [row["cause_job_id"] for row in terminal.json("groups", "sets") if row["cause_job_id"]]
    assert len(causes) >= 2, "the root's apply and one of the consumers' own"

    wait_until(lambda: is_quiet(bench), timeout_seconds=600, every_seconds=0.5)
    gone = terminal.run("groups", "destroy", "", "--wait", "--yes")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    destroyed = order(bench, "DESTROY")
    assert (destroyed[0], destroyed[-1], len(destroyed)) == ("apps/site", "net/root", 4)


def is_quiet(bench: Bench) -> bool:
    """Whether no job waits or runs, and no set has more to place."""
    with bench.database() as database:
        jobs = "select from private.live_jobs where org_id = %s"
        sets = "select from public.job_sets where org_id = %s and finished_at is null"
        return not database.execute(f"{jobs} union all {sets}", [bench.org, bench.org]).fetchall()


def test_missing_or_renamed_input_is_named_before_the_engine_runs(
    bench: Bench, terminal: Terminal, modules: dict[str, str]
) -> None:
    early = bench.wait_job(bench.enqueue("PLAN", modules["net/left"]))
    words = (
        'The input "net" of "net/left" is the output "net" of "net/root", which has no state yet: it was never applied.'
    )
    assert (early["status"], early["error"]["message"]) == ("FAILED", words)
    renamed = {"source": {"files": {"main.tf": MIDDLE.replace('"net"', '"network"', 1)}}}
    bench.rpc("update_module", p_module=modules["net/left"], p_spec=renamed)
    late: dict[str, Any] = bench.wait_job(bench.enqueue("PLAN", modules["net/left"]))
    assert (
        late["error"]["message"] == 'The code of net/left declares no variable "net", which is bound to the output net.'
    )
    assert "tofu init" not in bench.log_of(late["id"])


def test_commands_show_and_change_the_graph(bench: Bench, terminal: Terminal, modules: dict[str, str]) -> None:
    assert terminal.run("graph").stdout.splitlines() == [
        "net/root",
        "├─ net/left",
        "│  └─ apps/site",
        "└─ net/right",
        "   └─ apps/site",
    ]
    refused = terminal.run("dependencies", "add", "net/root", "apps/site")
    assert "This would be a cycle" in refused.stderr
    assert terminal.run("dependencies", "remove", "apps/site", "net/right").returncode == 0
    done = terminal.run("dependencies", "add", "net/right", "net/left", "--bind", "x=subnet", "--cascade", "always")
    assert done.stdout == "net/right depends on net/left.\n", done.stderr
    rows = {(row["consumer"], row["producer"]): row for row in terminal.json("dependencies", "list", "net/right")}
    assert rows[("net/right", "net/left")]["cascades"] == "always"
    terminal.run("dependencies", "add", "net/right", "net/left", "--unbind", "x")
    assert terminal.json("dependencies", "list", "net/right")[0]["bindings"] == {}
