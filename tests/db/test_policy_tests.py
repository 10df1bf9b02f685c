"""Tests of policies over earlier plans: which plans they have, who sees the result, and what a lost runner leaves."""

import base64
import hashlib
from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused, this

RULES = {"rules.rego": "package main\ndeny contains msg if { false; msg := 1 }"}
CHANGES = {"has_changes": True, "create": 1}
FOUND = [{"rule": "main.deny", "kind": "deny", "text": "no cost tag", "resource": "a.b", "hint": ""}]


@pytest.fixture
def org(world: World) -> Organization:
    return world.organization()


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r", is_assigned_to_all_modules=True)


def planned(
    org: Organization, runner: Runner, module: str, kind: str = "PLAN", *, is_kept: bool = True, **options: Any
) -> dict[str, Any]:
    """Finish a job with a plan, and keep the plan as its runner does."""
    org.enqueue(module, kind, **options)
    job = runner.claim_one()
    if is_kept:
        body = f"plan {job['id']}".encode()
        kept = {"p_body_base64": base64.b64encode(body).decode(), "p_sha256": hashlib.sha256(body).hexdigest()}
        runner.call("worker_put_artifact", **this(job), p_name="redacted-plan.json.gz", **kept)
    runner.finish(job, p_plan_summary=CHANGES)
    return job


def request(org: Organization, path: str = "", by: Any = None, **spec: Any) -> dict[str, Any]:
    given = {"name": "tags", "files": RULES, **spec}
    made: dict[str, Any] = (by or org.owner).call("test_policy", p_org=org.id, p_path=path, p_spec=given)
    return made


def step(runner: Runner, job: dict[str, Any], *found: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = runner.call("worker_policy_test", **this(job), p_found=list(found))
    return answer


def fails(plan: dict[str, Any]) -> dict[str, Any]:
    return {"plan": plan["plan"], "verdict": "failed", "messages": FOUND}


def passes(plan: dict[str, Any]) -> dict[str, Any]:
    return {"plan": plan["plan"], "verdict": "passed", "messages": []}


def result(who: Any, job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = who.call("policy_test", p_job=job["id"])
    return found


def test_runner_gets_the_redacted_plans_with_their_runs(org: Organization, runner: Runner) -> None:
    first, second = (planned(org, runner, name) for name in ("a/b", "a/c"))
    made = request(org, source="policies@8c41f2e")
    job = runner.claim_one()
    assert (job["id"], job["type"], job["module_path"]) == (made["id"], "POLICY_TEST", None)
    given = step(runner, job)
    assert (given["total"], given["done"], given["files"]) == (2, 0, RULES)
    assert [each["plan"] for each in given["plans"]] == [second["id"], first["id"]], "the newest first"
    assert base64.b64decode(given["plans"][1]["body_base64"]) == f"plan {first['id']}".encode()
    run = given["plans"][1]["run"]
    assert (run["module"]["path"], run["job"]["id"]) == ("a/b", first["number"])
    assert run["now_ns"] > 0
    answer = step(runner, job, fails(given["plans"][0]), passes(given["plans"][1]))
    assert answer == {"total": 2, "done": 2, "plans": [], "files": None}
    runner.finish(job)
    found = result(org.owner, made)
    counts = {name: found[name] for name in ("status", "total", "done", "passed", "refused", "applied", "missing")}
    assert counts == {
        "status": "SUCCEEDED", "total": 2, "done": 2, "passed": 1, "refused": 1, "applied": 0, "missing": 0,
    }  # fmt: skip
    (rule,) = found["rules"]
    assert (rule["kind"], rule["rule"], rule["plans"], rule["modules"]) == ("deny", "main.deny", 1, 1)
    (item,) = rule["items"]
    assert (item["number"], item["module_path"], item["resource"]) == (second["number"], "a/c", "a.b")


def test_only_plans_that_somebody_could_have_applied_are_listed(org: Organization, runner: Runner) -> None:
    wanted = [
        planned(org, runner, "a/b"),
        planned(org, runner, "a/c", "APPLY"),
        planned(org, runner, "a/d", is_kept=False),
    ]
    planned(org, runner, "a/b", refresh_only=True)
    planned(org, runner, "a/b", "DRIFT")
    planned(org, runner, "other/b")
    made = request(org, "a")
    given = step(runner, job := runner.claim_one())
    assert [each["plan"] for each in given["plans"]] == [wanted[1]["id"], wanted[0]["id"]]
    assert (given["total"], given["done"]) == (3, 1), "one whose redacted plan is not kept"
    step(runner, job, *map(fails, given["plans"]))
    found = result(org.owner, made)
    assert (found["refused"], found["applied"], found["missing"]) == (2, 1, 1)


def test_plan_that_cannot_be_judged_has_neither_passed_nor_been_refused(org: Organization, runner: Runner) -> None:
    for _ in range(3):
        planned(org, runner, "a/b")
    made = request(org)
    first, second, third = step(runner, job := runner.claim_one())["plans"]
    vague = [{"rule": "", "kind": "unclear", "text": "The rules read password.", "resource": "a.b", "hint": ""}]
    unclear = {"plan": first["plan"], "verdict": "unclear", "messages": vague}
    step(runner, job, unclear, {**fails(second), "verdict": "error"}, passes(third))
    found = result(org.owner, made)
    counts = {name: found[name] for name in ("total", "done", "passed", "refused", "unclear", "missing")}
    assert counts == {"total": 3, "done": 3, "passed": 1, "refused": 0, "unclear": 2, "missing": 0}
    assert {(rule["kind"], rule["plans"]) for rule in found["rules"]} == {("unclear", 1), ("deny", 1)}


def test_plan_that_was_applied_is_listed_once(org: Organization, runner: Runner) -> None:
    plan = planned(org, runner, "a/b")
    planned(org, runner, "a/b", "APPLY", plan_job_id=plan["id"])
    made = request(org)
    given = step(runner, job := runner.claim_one())
    assert [each["plan"] for each in given["plans"]] == [plan["id"]]
    step(runner, job, *map(fails, given["plans"]))
    assert result(org.owner, made)["applied"] == 1


def test_rules_that_another_organisation_tested_are_not_attached(world: World, org: Organization) -> None:
    other = world.organization()
    world.owner.connection.execute(
        "insert into public.memberships (org_id, user_id, email, role) values (%s, %s, 'both@example.org', 'owner')",
        [other.id, org.owner.id],
    )
    made = request(other, by=org.owner)
    spec = {"name": "tags", "level": "advisory", "test": made["id"]}
    with refused("RY409", "has no rules to attach."):
        org.owner.call("attach_policy", p_org=org.id, p_path="", p_spec=spec)


def test_plans_of_fewer_days(world: World, org: Organization, runner: Runner) -> None:
    old, new = planned(org, runner, "a/b"), planned(org, runner, "a/b")
    world.owner.connection.execute(
        "update public.provision_jobs set finished_at = now() - interval '8 days' where id = %s", [old["id"]]
    )
    request(org, days=7)
    assert [each["plan"] for each in step(runner, runner.claim_one())["plans"]] == [new["id"]]


def test_redacted_plan_is_swept_after_30_days(world: World, org: Organization, runner: Runner) -> None:
    job = planned(org, runner, "a/b")
    age = "update private.artifacts set expires_at = now() - interval '1 day' where job_id = %s"
    world.owner.connection.execute(age, [job["id"]])
    world.owner.connection.execute("select private.remove_old_rows('old_artifacts')")
    made = request(org)
    step(runner, runner.claim_one())
    assert result(org.owner, made)["missing"] == 1


def test_next_attempt_does_what_the_lost_one_left(world: World, org: Organization, runner: Runner) -> None:
    for _ in range(25):
        planned(org, runner, "a/b")
    made = request(org)
    first = runner.claim_one()
    given = step(runner, first)
    assert len(given["plans"]) == 20
    step(runner, first, *map(fails, given["plans"][:7]))
    runner.call("worker_recover", p_running=[{"job": first["id"], "attempt": 1, "is_dead": True}])
    world.owner.connection.execute(
        "update private.live_jobs set not_before_at = now() - interval '1 second' where job_id = %s", [first["id"]]
    )
    world.sweep()
    second = runner.claim_one()
    assert (second["id"], second["attempt"]) == (first["id"], 2)
    with refused("RY410"):
        step(runner, first, *map(passes, given["plans"]))
    left = step(runner, second)
    assert (left["total"], left["done"], left["files"]) == (25, 7, RULES)
    assert not {each["plan"] for each in left["plans"]} & {each["plan"] for each in given["plans"][:7]}
    step(runner, second, *map(passes, left["plans"]))
    assert (result(org.owner, made)["refused"], result(org.owner, made)["passed"]) == (7, 18)


def test_verdict_that_was_reported_stays(org: Organization, runner: Runner) -> None:
    planned(org, runner, "a/b")
    made = request(org)
    (plan,) = step(runner, job := runner.claim_one())["plans"]
    step(runner, job, fails(plan))
    step(runner, job, passes(plan))
    assert result(org.owner, made)["refused"] == 1


def test_only_those_who_see_the_plans_read_the_result(org: Organization, runner: Runner) -> None:
    planned(org, runner, "a/b")
    planned(org, runner, "c/d")
    guest = org.member("guest")
    org.owner.call("grant_role", p_org=org.id, p_path="a", p_role="admin", p_kind="member", p_subject=guest.id)
    everywhere, theirs = request(org), request(org, "a", by=guest)
    for _ in range(2):
        given = step(runner, job := runner.claim_one())
        step(runner, job, *map(fails, given["plans"]))
        runner.finish(job)
    with refused("RY404", "There is no such job"):
        result(guest, everywhere)
    seen = guest.call("job_page", p_org=org.id, p_number=everywhere["number"])
    assert seen is None
    found = result(guest, theirs)
    assert [each["module_path"] for each in found["rules"][0]["items"]] == ["a/b"]
    with refused("RY404"):
        request(org, "c", by=guest)
    with refused("RY403", "policy.write"):
        request(org, by=guest)
    with refused("RY403", "policy.write"):
        request(org, "a", by=org.member("operator"))


def test_foreign_runner_gets_no_plans(org: Organization, runner: Runner) -> None:
    planned(org, runner, "a/b")
    request(org, "a")
    job = runner.claim_one()
    other = org.runner("other")
    with refused("RY410", "is not this runner's"):
        step(other, job)


def test_tested_rules_are_attached(org: Organization, runner: Runner) -> None:
    org.module("a/b")
    made = request(org, "a", source="policies@8c41f2e")
    spec = {"name": "tags", "level": "overridable", "test": made["id"]}
    policy = org.owner.call("attach_policy", p_org=org.id, p_path="a", p_spec=spec)
    assert (policy["source"], policy["level"]) == ("policies@8c41f2e", "overridable")
    assert org.owner.call("policy_files", p_policy=policy["id"]) == RULES
    other = {"id": org.enqueue("a/b")}
    with refused("RY409", "has no rules to attach."):
        org.owner.call("attach_policy", p_org=org.id, p_path="a", p_spec={**spec, "test": other["id"]})
    with refused("RY404", "has tested no policies."):
        result(org.owner, other)
    for value in ("x", "9" * 30):
        with refused("RY422", "needs a name, a level and its files"):
            org.owner.call("attach_policy", p_org=org.id, p_path="a", p_spec={**spec, "test": value})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"days": 0}, "Rules are tested over the plans of 1 to 30 days"),
        ({"days": 31}, "Rules are tested over the plans of 1 to 30 days"),
        ({"days": "x"}, "Rules are tested over the plans of 1 to 30 days"),
        ({"name": "x" * 64}, "A test needs the files of a policy set"),
        ({"files": {}}, "at least one .rego file"),
        ({"files": None}, "object of file names"),
        ({"level": "advisory"}, "Unknown option"),
    ],
)
def test_bad_request_is_refused(org: Organization, spec: dict[str, Any], words: str) -> None:
    with refused("RY422", words):
        request(org, **spec)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([{"messages": 1}], "A test of policies reports a list of at most 16 MiB"),
        ([{"verdict": "fine", "messages": []}], "A verdict is passed, warned"),
        ([{"plan": "x", "messages": []}], "A verdict is passed, warned"),
    ],
)
def test_bad_report_is_refused(org: Organization, runner: Runner, found: list[dict[str, Any]], words: str) -> None:
    plan = planned(org, runner, "a/b")
    request(org)
    with refused("RY422", words):
        step(runner, runner.claim_one(), *({"plan": plan["id"], **each} for each in found))


def test_job_of_another_type_tests_nothing(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b")
    with refused("RY422", "reports a list"):
        step(runner, runner.claim_one())
