"""`cloud {}` and `tofu login` with the programs themselves."""

import json
import re
import signal
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest

from cli.engines.cache import find
from cli.engines.catalog import ENGINES
from tests.integration.test_cloud_requests import colleague
from tests.integration.worker_bench import Bench, Refused
from tests.support.cloud_terminal import HOST, CloudTerminal, personal_token
from tests.support.stack import RunningStack

CODE = """
variable "who" { default = "world" }
variable "tags" {
  type    = map(string)
  default = {}
}
resource "terraform_data" "greeting" { input = "hello ${var.who} ${length(var.tags)}" }
resource "terraform_data" "other" { input = "other" }
output "greeting" { value = terraform_data.greeting.output }
output "secret" {
  value     = "s3cret"
  sensitive = true
}
"""


def in_one_line(text: str) -> str:
    """The text of a frame that a program printed."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|│", "", text).split())


def slug_of(bench: Bench) -> str:
    return str(bench.rows("organizations", id=bench.org)[0]["slug"])


@pytest.fixture
def terminal(
    served: Bench, running_stack: RunningStack, tmp_path: Path, request: pytest.FixtureRequest
) -> CloudTerminal:
    """A laptop with OpenTofu, or with the engine that the test names."""
    program = find(ENGINES[request.param]) if hasattr(request, "param") else served.tofu
    if program is None:
        pytest.skip(f"{request.param} not found; `make engines` provides it")
    return CloudTerminal(tmp_path / "code", program, running_stack.url, personal_token(served))


def named(terminal: CloudTerminal, bench: Bench, name: str, code: str = CODE) -> None:
    terminal.writes(slug_of(bench), f'name = "{name}"', code)
    terminal.run("init", "-input=false")


def module_named(bench: Bench, path: str) -> dict[str, object]:
    [row] = bench.rows("modules", org_id=bench.org, path=path)
    return row


@pytest.mark.parametrize("terminal", ["tofu", "terraform"], indirect=True)
def test_plan_apply_and_destroy_from_a_terminal(terminal: CloudTerminal, served: Bench) -> None:
    name = f"web-{terminal.program.name}"
    named(terminal, served, f"terminal.{name}")
    assert module_named(served, f"terminal/{name}")["can_apply_uploads"] is True
    planned = terminal.run("plan", "-var", "who=you", "-var", 'tags={"a"="b", c="${"d"}"}')
    assert "hello you 2" in planned
    assert "2 to add" in planned
    applied = terminal.run("apply", typed="yes\n")
    assert "2 added" in applied
    assert terminal.run("output", "-raw", "greeting") == "hello world 0"
    assert terminal.run("output", "-raw", "secret") == "s3cret"
    plan, apply = served.rows(
        "provision_jobs", module_id=module_named(served, f"terminal/{name}")["id"], order="id.desc"
    )[:2]
    assert (plan["type"], apply["type"], plan["number"]) == ("APPLY", "PLAN", apply["number"])
    terminal.run("state", "mv", "terraform_data.other", "terraform_data.moved")
    assert "terraform_data.moved" in terminal.run("state", "list")
    terminal.writes(slug_of(served), f'name = "terminal.{name}"', CODE.replace('"other" {', '"moved" {'))
    assert "No changes" in terminal.run("plan")
    destroyed = terminal.run("apply", "-destroy", "-target=terraform_data.moved", "-auto-approve")
    assert "1 destroyed" in destroyed
    assert "terraform_data.greeting" in terminal.run("state", "list")


def test_a_browser_signs_the_program_in(terminal: CloudTerminal, served: Bench) -> None:
    terminal.token = ""
    login = terminal.start("login", HOST)
    login.types("yes\n")
    address = re.search(r"http://\S+/oauth/authorize\S+", login.says("code_challenge="))
    assert address
    page = httpx.get(address[0], timeout=60)
    code = parse_qs(urlsplit(page.headers["location"]).query)["code"][0]
    told = served.rpc("device_login", p_user_code=code)
    assert (page.status_code, told["program"], told["is_terminal"]) == (302, "tofu login", True)
    decided = served.rpc("decide_device_login", p_user_code=code, p_is_confirmed=True, p_role="planner")
    home = httpx.get(f"{decided['return_to']}&state={quote(decided['state'])}", timeout=60)
    assert home.status_code == 200, home.text
    assert login.ends() == 0, login.output
    [token] = [each for each in served.rpc("my_personal_tokens") if each["name"] == "tofu login"]
    assert token["role"] == "planner"
    slug = slug_of(served)
    terminal.writes(slug, 'name = "terminal.login"', CODE)
    assert "module.write" in in_one_line(terminal.run("init", code=1)), "a planner creates nothing"
    served.rpc("create_module", p_org=served.org, p_group_path="terminal", p_name="login")
    terminal.run("init", "-input=false")
    planned = terminal.run("plan")
    assert "2 to add" in planned
    assert "This plan cannot be applied here." in planned


@pytest.mark.parametrize(
    "change",
    [
        {"redirect_uri": "http://localhost:10011/login"},
        {"redirect_uri": "http://evil.example/login"},
        {"code_challenge_method": "plain"},
        {"client_id": "another"},
        {"code_challenge": "short"},
    ],
)
def test_a_login_returns_to_the_program_alone(running_stack: RunningStack, change: dict[str, str]) -> None:
    asked = {
        "client_id": "terraform-cli", "response_type": "code", "code_challenge_method": "S256", "state": "x",
        "code_challenge": "c" * 43, "redirect_uri": "http://localhost:10003/login",
    }  # fmt: skip
    url = f"{running_stack.url}/functions/v1/terraform/oauth/authorize"
    assert httpx.get(url, params=asked, timeout=60).status_code == 302
    assert httpx.get(url, params=asked | change, timeout=60).status_code == 400


def test_a_group_is_a_tag_and_a_terminal_selects_among_its_workspaces(terminal: CloudTerminal, served: Bench) -> None:
    terminal.writes(slug_of(served), 'tags = ["shops"]', CODE)
    terminal.run("init", typed="shops.north\n")
    terminal.run("workspace", "new", "shops.south")
    listed = terminal.run("workspace", "list")
    assert all(name in listed for name in ("shops.north", "shops.south"))
    terminal.run("workspace", "select", "shops.north")
    assert terminal.run("workspace", "show").strip() == "shops.north"
    assert "is not in: shops" in in_one_line(terminal.run("workspace", "new", "other.place", code=1))
    terminal.run("workspace", "delete", "shops.south")
    assert "shops.south" not in terminal.run("workspace", "list")


def test_an_apply_waits_for_approval_and_says_so(terminal: CloudTerminal, served: Bench, tmp_path: Path) -> None:
    named(terminal, served, "terminal.guarded")
    module = module_named(served, "terminal/guarded")["id"]
    served.rpc("update_module", p_module=module, p_spec={"approvals_required": 1})
    apply = terminal.start("apply")
    apply.says("An apply of this plan needs 1 approval.")
    apply.says("Enter a value:")
    apply.types("yes\n")
    apply.says("Needs 1 more approval: open http")
    [job] = served.rows("provision_jobs", module_id=module, type="APPLY")
    assert job["status"] == "AWAITING_APPROVAL"
    with colleague(served, tmp_path, "operator") as operator:
        operator.rpc("approve_job", p_job=job["id"], p_decision="approve")
    assert apply.ends() == 0, apply.output
    assert "Approved by" in apply.output
    assert "2 added" in apply.output


def test_an_apply_ends_with_an_error_once_somebody_discards_it(terminal: CloudTerminal, served: Bench) -> None:
    named(terminal, served, "terminal.refused")
    module = module_named(served, "terminal/refused")["id"]
    served.rpc("update_module", p_module=module, p_spec={"approvals_required": 1})
    apply = terminal.start("apply", "-auto-approve")
    apply.says("Needs 1 more approval")
    [job] = served.rows("provision_jobs", module_id=module, type="APPLY")
    served.rpc("approve_job", p_job=job["id"], p_decision="reject", p_comment="not today")
    apply.says("The run was discarded.")
    assert apply.ends() == 1, apply.output
    assert "not today" in apply.output


def test_an_interrupted_terminal_cancels_the_run(terminal: CloudTerminal, served: Bench) -> None:
    named(terminal, served, "terminal.slow")
    module = module_named(served, "terminal/slow")["id"]
    served.rpc("update_module", p_module=module, p_spec={"approvals_required": 1})
    apply = terminal.start("apply", "-auto-approve")
    apply.says("Needs 1 more approval")
    apply.process.send_signal(signal.SIGINT)
    apply.says("The remote operation was successfully cancelled.")
    apply.ends()
    [job] = served.rows("provision_jobs", module_id=module, type="APPLY")
    assert job["status"] == "CANCELLED"


def options_of(bench: Bench, path: str) -> dict[str, object]:
    """The options of a module's newest job."""
    module = module_named(bench, path)["id"]
    options: dict[str, object] = bench.rows("provision_jobs", module_id=module, order="id.desc", limit=1)[0]["payload"][
        "options"
    ]
    return options


def test_the_options_of_a_run_reach_the_engine(terminal: CloudTerminal, served: Bench) -> None:
    named(terminal, served, "terminal.options")
    (terminal.folder / "parts").mkdir()
    (terminal.folder / "parts" / "linked.tf").write_text('output "linked" { value = "by a link" }\n')
    (terminal.folder / "linked.tf").symlink_to("parts/linked.tf")
    assert "has no refresh here" in in_one_line(terminal.run("plan", "-refresh=false", code=1))
    terminal.run("apply", "-auto-approve")
    assert terminal.run("output", "-raw", "linked") == "by a link"
    terminal.run("plan", "-refresh-only")
    assert options_of(served, "terminal/options")["refresh_only"] is True
    assert "1 added, 0 changed, 1 destroyed" in terminal.run("apply", "-replace=terraform_data.other", "-auto-approve")
    terminal.run("plan", "-var", "who=you", "-out=saved")
    assert "1 changed" in terminal.run("apply", "saved")
    assert terminal.run("output", "-raw", "greeting") == "hello you 0"
    assert "saved plan" in in_one_line(terminal.run("apply", "saved", code=1)).lower()
    terminal.run("plan", "-var", "who=me", "-out=refused")
    run = json.loads((terminal.folder / "refused").read_text())["run_id"]
    served.rpc("approve_job", p_job=run.removeprefix("run-"), p_decision="reject")
    assert "Saved plan is discarded" in in_one_line(terminal.run("apply", "refused", code=1))
    assert "discarded" in in_one_line(terminal.run("apply", typed="no\n", code=1))
    last = served.rows("provision_jobs", module_id=module_named(served, "terminal/options")["id"], order="id.desc")[0]
    with pytest.raises(Refused, match="was discarded"):
        served.enqueue("APPLY", last["module_id"], plan_job_id=last["id"])
    assert "2 destroyed" in terminal.run("destroy", typed="yes\n")
    assert terminal.run("state", "list") == ""


def test_a_lock_of_somebody_else_stops_a_change_of_state(terminal: CloudTerminal, served: Bench) -> None:
    named(terminal, served, "terminal.locked")
    terminal.run("apply", "-auto-approve")
    served.rpc("lock_module", p_module=module_named(served, "terminal/locked")["id"], p_reason="mine")
    assert "locked" in in_one_line(terminal.run("state", "rm", "terraform_data.other", code=1))
    terminal.run("force-unlock", "-force", f"{slug_of(served)}/terminal.locked")
    assert "Removed" in terminal.run("state", "rm", "terraform_data.other")


SLOW = """
resource "terraform_data" "slow" {
  provisioner "local-exec" { command = "echo the provisioner runs; sleep 600" }
}
"""


def test_an_apply_is_cancelled_in_the_middle_of_its_log(terminal: CloudTerminal, served: Bench) -> None:
    named(terminal, served, "terminal.middle", SLOW)
    apply = terminal.start("apply")
    apply.says("Enter a value:")
    apply.types("yes\n")
    apply.says("the provisioner runs")
    module = module_named(served, "terminal/middle")["id"]
    [job] = served.rows("provision_jobs", module_id=module, type="APPLY")
    assert job["status"] == "PROCESSING", "the log comes while the job runs"
    apply.process.send_signal(signal.SIGINT)
    apply.says("Do you want to cancel the remote operation?")
    apply.types("yes\n")
    apply.says("The remote operation was successfully cancelled.")
    apply.ends()
    assert served.wait_job(int(job["id"]))["status"] == "CANCELLED"


RULE = """package main
import rego.v1
deny contains "two at once" if { count(input.resource_changes) > 1 }
"""


def test_a_policy_check_waits_for_its_override_on_the_page(terminal: CloudTerminal, served: Bench) -> None:
    if find(ENGINES["opa"]) is None:
        pytest.skip("opa not found; `make engines` provides it")
    named(terminal, served, "terminal.checked")
    spec = {"name": "pairs", "level": "overridable", "files": {"rules.rego": RULE}}
    policy = served.rpc("attach_policy", p_org=served.org, p_path="terminal/checked", p_spec=spec)["id"]
    planned = in_one_line(terminal.run("plan", code=1))
    assert "pairs: two at once Needs an override with a reason: open http" in planned
    assert "soft failed" in planned
    refused = in_one_line(terminal.run("apply", typed="override\n", code=1))
    assert "An override needs a reason." in refused
    apply = terminal.start("apply")
    apply.says("Do you want to override the soft failed policy check?")
    module = module_named(served, "terminal/checked")["id"]
    [plan, *_] = served.rows("provision_jobs", module_id=module, order="id.desc")
    served.rpc("override_check", p_job=plan["id"], p_policy=policy, p_reason="known")
    apply.says("Do you want to perform these actions")
    apply.types("yes\n")
    assert apply.ends() == 0, apply.output
    assert "2 added" in apply.output


def test_an_apply_without_questions_waits_for_an_override(terminal: CloudTerminal, served: Bench) -> None:
    if find(ENGINES["opa"]) is None:
        pytest.skip("opa not found; `make engines` provides it")
    named(terminal, served, "terminal.held")
    spec = {"name": "pairs", "level": "overridable", "files": {"rules.rego": RULE}}
    policy = served.rpc("attach_policy", p_org=served.org, p_path="terminal/held", p_spec=spec)["id"]
    apply = terminal.start("apply", "-auto-approve")
    apply.says("Needs an override of a policy check: open http")
    module = module_named(served, "terminal/held")["id"]
    [job] = served.rows("provision_jobs", module_id=module, type="APPLY")
    served.rpc("override_check", p_job=job["id"], p_policy=policy, p_reason="known")
    served.rpc("approve_job", p_job=job["id"], p_decision="approve")
    assert apply.ends() == 0, apply.output
    assert all(words in apply.output for words in ("Overridden by", "known", "Approved by", "2 added"))
