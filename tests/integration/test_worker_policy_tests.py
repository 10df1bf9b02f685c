"""A test of policies by real runners: 300 earlier plans, and a runner that is killed in the middle."""

import gzip
import hashlib
import json
import signal
from typing import Any

import pytest

from cli.engines.cache import find
from cli.engines.catalog import ENGINES
from tests.integration.worker_bench import Bench, bench
from tests.support.must import unavailable
from tests.support.waiting import wait_until

__all__ = ["bench"]

PLANS = 300
CODE = """
variable "password" {
  default   = "correct-horse-battery"
  sensitive = true
}
resource "terraform_data" "one" { input = { name = "%s", password = var.password } }
"""
RULES = """package main
deny_name contains {"msg": msg, "resource": rc.address, "hint": "Call it prod."} if {
    some rc in input.plan.resource_changes
    startswith(rc.change.after.input.name, "bad")
    msg := sprintf("%s is a bad name", [rc.change.after.input.name])
}
deny_password contains "the password is in the plan" if {
    contains(json.marshal(input), "correct-horse")
}
warn_time contains "no time" if not input.run.now_ns > 0
"""


@pytest.fixture(autouse=True)
def opa() -> None:
    if find(ENGINES["opa"]) is None:
        unavailable("engine", "There is no OPA here: runyard engines ensure opa")


def copy_plan(bench: Bench, job: int, times: int) -> None:
    """Repeat a plan as often as a busy month does: every third one of them has a bad name."""
    named = ("name", "good", "bad")
    with bench.database() as database:
        (kept,) = database.execute(
            "select body from private.artifacts where job_id = %s and name = 'redacted-plan.json.gz'", [job]
        ).fetchall()
        plan = gzip.decompress(kept["body"])
        bodies = {name: gzip.compress(plan.replace(b"first", name.encode())) for name in named[1:]}
        assert all(json.loads(gzip.decompress(body)) for body in bodies.values())
        for place in range(times):
            body = bodies["bad" if place % 3 == 0 else "good"]
            made = database.execute(
                "insert into public.provision_jobs (org_id, type, status, module_id, module_path, group_path, payload,"
                " attempt, result, plan_summary, created_at, finished_at, planned_serial)"
                " select org_id, type, status, module_id, module_path, group_path, payload, 1, result, plan_summary,"
                " created_at, finished_at, planned_serial from public.provision_jobs where id = %s returning id",
                [job],
            ).fetchone()
            assert made is not None
            database.execute(
                "insert into private.artifacts (job_id, attempt, name, body, sha256) values (%s, 1, %s, %s, %s)",
                [made["id"], "redacted-plan.json.gz", body, hashlib.sha256(body).hexdigest()],
            )


def request(bench: Bench, rules: str, **spec: Any) -> dict[str, Any]:
    spec = {"name": "names", "files": {"names.rego": rules}, **spec}
    made: dict[str, Any] = bench.rpc("test_policy", p_org=bench.org, p_path="", p_spec=spec)
    return made


def result_of(bench: Bench, job: int) -> dict[str, Any]:
    found: dict[str, Any] = bench.rpc("policy_test", p_job=job)
    return found


@pytest.mark.slow
def test_300_plans_are_tested_although_a_runner_is_killed(bench: Bench) -> None:
    worker = bench.register()
    first = bench.start_worker(worker)
    plan = bench.finished("PLAN", bench.module(source={"files": {"main.tf": CODE % "first"}}))
    copy_plan(bench, plan["id"], PLANS - 1)
    job = request(bench, RULES)
    wait_until(lambda: result_of(bench, job["id"])["done"] >= 40, timeout_seconds=180, every_seconds=0.1)
    first.signal(signal.SIGKILL)
    first.wait()
    done = result_of(bench, job["id"])["done"]
    assert 40 <= done < PLANS
    bench.start_worker(worker, instance=first.instance, home=first.home)
    ended = bench.wait_job(job["id"])
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 2), bench.log_of(job["id"])
    found = result_of(bench, job["id"])
    counts = {name: found[name] for name in ("total", "done", "passed", "refused", "warned", "applied", "missing")}
    assert counts == {
        "total": PLANS, "done": PLANS, "passed": 200, "refused": 100, "warned": 0, "applied": 0, "missing": 0,
    }  # fmt: skip
    (rule,) = found["rules"]
    assert (rule["rule"], rule["plans"], len(rule["items"])) == ("main.deny_name".removeprefix("main."), 100, 50)
    assert rule["items"][0]["resource"] == "terraform_data.one"
    assert f"of {PLANS} plans" in bench.log_of(job["id"])


def test_rules_that_cannot_be_evaluated_end_the_test(bench: Bench) -> None:
    bench.runner()
    plan = bench.finished("PLAN", bench.module(source={"files": {"main.tf": CODE % "first"}}))
    copy_plan(bench, plan["id"], 5)
    ended = bench.wait_job(request(bench, 'package main\ndenny contains "x" if true')["id"])
    assert (ended["status"], ended["error"]["code"]) == ("FAILED", "policy_error")
    assert "no rule named deny" in ended["error"]["message"]


def test_rules_that_read_a_hidden_value_are_unclear_and_a_command_is_tested_like_rules(bench: Bench) -> None:
    bench.runner()
    bench.finished("PLAN", bench.module(source={"files": {"main.tf": CODE % "first"}}))
    reads = RULES + 'deny_short contains "short" if input.plan.resource_changes[_].change.after.input.password == "x"\n'
    vague, clear = request(bench, reads), request(bench, RULES)
    report = '{"version": "2.1.0", "runs": [{"tool": {"driver": {}}, "results": []}]}'
    script = f"grep -q first {{plan}} && echo '{report}' > {{results}}/x.sarif"
    scan = request(bench, "", files={"command.json": json.dumps({"argv": ["sh", "-c", script]})})
    code = request(bench, "", files={"command.json": '{"argv": ["scan", "{code}"]}'})
    counts = {}
    for job in (vague, clear, scan, code):
        assert bench.wait_job(job["id"])["status"] == "SUCCEEDED", bench.log_of(job["id"])
        found = result_of(bench, job["id"])
        counts[job["id"]] = (found["passed"], found["refused"], found["unclear"])
    assert list(counts.values()) == [(0, 0, 1), (1, 0, 0), (1, 0, 0), (0, 0, 1)]
    (rule,) = result_of(bench, vague["id"])["rules"]
    assert (rule["kind"], rule["items"][0]["resource"]) == ("unclear", "terraform_data.one")
    assert rule["items"][0]["text"] == "The rules read password, which is hidden in this plan."


def test_destroy_plan_and_apply_without_a_saved_plan_are_tested(bench: Bench) -> None:
    bench.runner()
    module = bench.module(source={"files": {"main.tf": CODE % "bad"}})
    bench.finished("APPLY", module)
    bench.finished("PLAN", module, destroy=True)
    bench.finished("DRIFT", module)
    job = request(bench, RULES)
    assert bench.wait_job(job["id"])["status"] == "SUCCEEDED", bench.log_of(job["id"])
    found = result_of(bench, job["id"])
    assert (found["total"], found["passed"], found["refused"], found["applied"]) == (2, 1, 1, 1)
