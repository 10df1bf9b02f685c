"""Policy sets with a real engine and OPA: what a plan's rules see, and what becomes of the job."""

import json
import resource
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from cli.engines.cache import find
from cli.engines.catalog import ENGINES
from tests.integration.worker_bench import Bench, Refused
from tests.support.must import unavailable
from worker.engines.policy import policy_input, read_verdict

# The shape of conftest's own example for plans.
BLAST_RADIUS = """package main
import rego.v1
weights := {"terraform_data": {"delete": 100, "create": 10}}
score := sum([n | some rc in input.resource_changes; some action in rc.change.actions; n := weights[rc.type][action]])
deny contains msg if {
    score > 15
    msg := sprintf("blast radius %v", [score])
}
"""
# The shape of repositories that report objects, exempt rules and read the planned values of whole modules.
OBJECTS = """package terraform.naming
violation_name contains {"msg": msg, "details": {"resource": rc.address, "hint": "Call it prod."}} if {
    some rc in input.plan.resource_changes
    rc.change.after.input == "bad"
    msg := "bad name"
}
deny_exempt contains "never" if { true }
exception contains rules if { input.run.module.path; rules := ["exempt"] }
warn contains msg if { rc := input.plan.resource_changes[_]; rc.change.after_unknown.id; msg := "unknown id" }
"""
CODE = 'resource "terraform_data" "one" {\n  input = "%s"\n}\nresource "terraform_data" "two" {\n  input = "y"\n}\n'
LOOP = """package main
deny contains "slow" if { some a in numbers.range(1, 9000); some b in numbers.range(1, 9000); a * b < 0 }
"""


@pytest.fixture
def bench(served: Bench) -> Bench:
    """Use the shared runner, with OPA beside its engine."""
    if find(ENGINES["opa"]) is None:
        unavailable("engine", "There is no OPA here: runyard engines ensure opa")
    return served


def attach(bench: Bench, module: str, level: str, *rules: str) -> list[dict[str, Any]]:
    path = bench.rows("modules", id=module)[0]["path"]
    made = []
    for text in rules:
        spec = {"name": f"s-{uuid.uuid4().hex[:6]}", "level": level, "files": {"rules.rego": text}}
        made.append(bench.rpc("attach_policy", p_org=bench.org, p_path=path, p_spec=spec))
    return made


def module(bench: Bench, value: str = "good") -> str:
    return bench.module(source={"files": {"main.tf": CODE % value}})


def checks(bench: Bench, job: int) -> list[dict[str, Any]]:
    return bench.rows("policy_checks", job_id=job, order="name.asc")


def test_conftest_rules_refuse_a_plan_before_it_is_saved(bench: Bench) -> None:
    made = module(bench)
    attach(bench, made, "mandatory", BLAST_RADIUS)
    job = bench.wait_job(bench.enqueue("PLAN", made))
    assert (job["status"], job["error"]["code"]) == ("FAILED", "policy_refused"), bench.log_of(job["id"])
    assert "refuses this plan: blast radius 20" in job["error"]["message"]
    assert "blast radius 20" in bench.log_of(job["id"])
    assert "save-plan" not in [step["name"] for step in job["steps"] if step["status"] == "SUCCEEDED"]


def test_objects_exceptions_and_unknown_values(bench: Bench) -> None:
    made = module(bench, "bad")
    attach(bench, made, "overridable", OBJECTS)
    job = bench.finished("PLAN", made, confirm=True)
    (check,) = checks(bench, job["id"])
    assert check["verdict"] == "failed"
    denied, *warned = check["messages"]
    assert denied == {
        "rule": "terraform.naming.violation_name", "kind": "deny", "text": "bad name",
        "resource": "terraform_data.one", "hint": "Call it prod.",
    }  # fmt: skip
    assert [each["text"] for each in warned] == ["unknown id"]
    apply = bench.rows("provision_jobs", plan_job_id=job["id"])[0]
    bench.rpc("override_check", p_job=apply["id"], p_policy=check["set_id"], p_reason="known")
    bench.rpc("approve_job", p_job=apply["id"], p_decision="approve")
    assert bench.wait_job(apply["id"])["status"] == "SUCCEEDED"


def test_destroy_plan_is_checked_and_its_values_are_gone(bench: Bench) -> None:
    made = module(bench, "bad")
    bench.finished("APPLY", made)
    attach(bench, made, "mandatory", OBJECTS)
    attach(bench, made, "advisory", BLAST_RADIUS)
    job = bench.finished("PLAN", made, destroy=True)
    assert sorted(each["verdict"] for each in checks(bench, job["id"])) == ["failed", "passed"]


def test_apply_without_a_saved_plan_is_refused_before_it_changes_anything(bench: Bench) -> None:
    made = module(bench)
    attach(bench, made, "overridable", BLAST_RADIUS)
    job = bench.wait_job(bench.enqueue("APPLY", made))
    assert (job["status"], job["error"]["code"]) == ("FAILED", "policy_refused")
    assert bench.rpc("state_info", p_module=made)["serial"] is None


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("package main\ndeny contains msg if {", "cannot be evaluated"),
        ('package main\ndenny contains "x" if { true }', "no rule named deny"),
        ('package main\ndeny contains "x" if { http.send({"method": "get", "url": "http://127.0.0.1"}) }', "http.send"),
        ("package main\ndeny contains x if { x := opa.runtime().env.HOME }", "opa.runtime"),
        ("package main\ndeny contains x if { x := time.now_ns() }", "time.now_ns"),
    ],
)
def test_rules_that_cannot_be_evaluated_refuse_the_plan(bench: Bench, rules: str, words: str) -> None:
    made = module(bench)
    attach(bench, made, "mandatory", rules)
    job = bench.wait_job(bench.enqueue("PLAN", made))
    assert job["error"]["code"] == "policy_refused"
    (check,) = checks(bench, job["id"])
    assert check["verdict"] == "error"
    assert words in check["messages"][0]["text"]


@pytest.mark.slow
def test_rule_without_an_end_is_ended(bench: Bench) -> None:
    made = module(bench)
    attach(bench, made, "mandatory", LOOP)
    job = bench.wait_job(bench.enqueue("PLAN", made))
    assert job["error"]["code"] == "policy_refused"
    assert "did not end within" in json.dumps(checks(bench, job["id"]))


# A scanner and a price list in a few lines: they read the plan's JSON as trivy, checkov and infracost do.
SCAN = """grep -q '"type":"terraform_data"' "$1" || exit 2
printf '%s' '{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "scan", "rules": [{"id": "S-1",
"helpUri": "https://example.org/S-1"}]}}, "results": [{"ruleId": "S-1", "level": "error",
"message": {"text": "terraform_data.two is open"}}]}]}' > "$2/scan.sarif"
exit 1
"""
PRICE = """package main
deny_price contains msg if { input.run.cost.monthly_delta > 10; msg := sprintf("%v more", [input.run.cost.monthly_delta]) }
"""


def command(bench: Bench, module: str, level: str, *argv: str, **files: str) -> dict[str, Any]:
    path = bench.rows("modules", id=module)[0]["path"]
    files = {**files, "command.json": json.dumps({"argv": argv})}
    spec = {"name": f"c-{uuid.uuid4().hex[:6]}", "level": level, "files": files}
    made: dict[str, Any] = bench.rpc("attach_policy", p_org=bench.org, p_path=path, p_spec=spec)
    return made


def test_command_finds_and_prices_before_rules_read_its_cost(bench: Bench) -> None:
    made = module(bench)
    attach(bench, made, "advisory", PRICE)
    scan = command(bench, made, "overridable", "sh", "scan.sh", "{plan}", "{results}", **{"scan.sh": SCAN})
    price = 'printf \'{"monthly_before": "10.00", "monthly_after": 22.5}\' > "$RUNYARD_RESULTS/cost.json"'
    command(bench, made, "mandatory", "sh", "-c", price)
    job = bench.finished("PLAN", made, confirm=True)
    found = {each["bundle_sha256"]: each for each in checks(bench, job["id"])}
    scanned = found.pop(scan["bundle_sha256"])
    assert (scanned["verdict"], scanned["messages"]) == ("failed", [{
        "rule": "S-1", "kind": "deny", "text": "terraform_data.two is open", "resource": "terraform_data.two",
        "hint": "See https://example.org/S-1",
    }])  # fmt: skip
    rules, priced = sorted(found.values(), key=lambda each: each["level"])
    assert (priced["verdict"], priced["cost"]["monthly_delta"]) == ("passed", 12.5)
    assert (rules["verdict"], rules["messages"][0]["text"]) == ("failed", "12.5 more")
    assert "10.00 → 22.50 a month (+12.50)" in bench.log_of(job["id"])
    apply = bench.rows("provision_jobs", plan_job_id=job["id"])[0]
    with pytest.raises(Refused, match="waits for an override"):
        bench.rpc("approve_job", p_job=apply["id"], p_decision="approve")


def test_command_that_leaves_nothing_and_rules_without_a_cost_refuse_the_plan(bench: Bench) -> None:
    made = module(bench)
    command(bench, made, "mandatory", "no-such-scanner")
    attach(bench, made, "advisory", PRICE)
    job = bench.wait_job(bench.enqueue("PLAN", made))
    assert job["error"]["code"] == "policy_refused"
    said = {each["level"]: (each["verdict"], each["messages"][0]["text"]) for each in checks(bench, job["id"])}
    assert said == {
        "mandatory": ("error", "no-such-scanner cannot be started: No such file or directory."),
        "advisory": ("error", "The rules read run.cost, and no command left the cost of this plan."),
    }


def test_plan_of_10_mb_is_checked_in_a_second(tmp_path: Path) -> None:
    """The shape that most sets have: every change, one look each."""
    opa = find(ENGINES["opa"])
    if opa is None:
        unavailable("engine", "There is no OPA here: runyard engines ensure opa")
    tags = {f"k{place}": f"value {place}" * 3 for place in range(60)}
    change = {"actions": ["create"], "before": None, "after": {"input": "good", "tags": tags}, "after_unknown": {}}
    rows = [
        {"address": f"terraform_data.x[{place}]", "type": "terraform_data", "change": change} for place in range(4600)
    ]
    plan = json.dumps({"resource_changes": rows}).encode()
    assert len(plan) > 10_000_000
    (tmp_path / "rules.rego").write_text(OBJECTS)
    (tmp_path / "input.json").write_bytes(policy_input(plan, {"module": {"path": "a/b"}}, {"rules.rego": OBJECTS}))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [opa, "eval", "--format=json", f"--input={tmp_path}/input.json", f"--data={tmp_path}/rules.rego", "data"]
    answer = subprocess.run(command, check=True, capture_output=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert read_verdict(answer, {"rules.rego": OBJECTS}, [], str)["verdict"] == "passed"
    cost = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert cost < 3, "usually 0.5 s of one processor"
