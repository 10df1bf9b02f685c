"""Policy sets: which ones a job is checked with, what a verdict stops, and who may override it."""

import uuid
from typing import Any

import pytest

from tests.db.git_site import announce, first_reading, merged, open_site
from tests.db.world import Organization, Runner, User, World, refused, this

RULES = {"rules.rego": "package main\ndeny contains msg if { false; msg := 1 }"}
OTHER = {"rules.rego": "package main\nwarn contains msg if { false; msg := 1 }"}
CHANGES = {"has_changes": True, "create": 1}
DENIED = [{"rule": "deny", "kind": "deny", "text": "no cost tag", "resource": "a.b", "hint": ""}]


@pytest.fixture
def org(world: World) -> Organization:
    return world.organization()


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r", is_assigned_to_all_modules=True)


def attach(
    org: Organization, path: str, name: str, level: str = "mandatory", by: Any = None, **spec: Any
) -> dict[str, Any]:
    known = {"name": name, "level": level, "files": RULES, **spec}
    made: dict[str, Any] = (by or org.owner).call("attach_policy", p_org=org.id, p_path=path, p_spec=known)
    return made


def check(runner: Runner, job: dict[str, Any], **verdicts: str) -> dict[str, Any]:
    """Report a verdict of each set that the job names; those that are not named pass."""
    sets = runner.call("worker_policies", **this(job))["sets"]
    checks = [{"id": each["id"], "verdict": verdicts.get(each["name"], "passed"), "messages": DENIED} for each in sets]
    answer: dict[str, Any] = runner.call("worker_record_checks", **this(job), p_checks=checks)
    return answer


def plan(org: Organization, runner: Runner, by: Any = None, **verdicts: str) -> dict[str, Any]:
    """Make a checked plan; its apply waits."""
    if "a/b" not in org.modules:
        org.module("a/b")
    args = {"p_org": org.id, "p_type": "PLAN", "p_module": org.modules["a/b"], "p_options": {"confirm": True}}
    (by or org.owner).call("enqueue_job", **args)
    job = runner.claim_one()
    check(runner, job, **verdicts)
    runner.finish(job, p_plan_summary=CHANGES)
    return job


def apply_of(world: World, job: dict[str, Any]) -> int:
    query = "select id from public.provision_jobs where plan_job_id = %s order by id desc limit 1"
    return int(world.owner.one(query, job["id"]))


def approve(who: Any, job: int) -> dict[str, Any]:
    done: dict[str, Any] = who.call("approve_job", p_job=job, p_decision="approve")
    return done


def override(who: Any, job: int, policy: dict[str, Any], reason: str = "known") -> dict[str, Any]:
    done: dict[str, Any] = who.call("override_check", p_job=job, p_policy=policy["id"], p_reason=reason)
    return done


def test_sets_add_up_along_the_path(org: Organization, runner: Runner) -> None:
    org.module("a/b")
    attach(org, "", "base")
    attach(org, "a", "base", "advisory", files=OTHER)
    attach(org, "a/b", "own")
    org.module("other/b")
    attach(org, "other", "not-here")
    org.enqueue("a/b")
    given = runner.call("worker_policies", **this(job := runner.claim_one()))
    named = [(each["path"], each["name"], each["level"]) for each in given["sets"]]
    assert named == [("", "base", "mandatory"), ("a", "base", "advisory"), ("a/b", "own", "mandatory")]
    assert given["sets"][1]["files"] == OTHER
    assert given["run"]["module"]["path"] == "a/b"
    assert given["run"]["job"] == {
        "id": job["number"], "type": "PLAN", "phase": "plan", "drift": False, "is_destroy": False,
    }  # fmt: skip
    assert given["run"]["now_ns"] > 0


def test_job_keeps_the_sets_of_the_moment_it_was_requested(org: Organization, runner: Runner) -> None:
    org.module("a/b")
    attach(org, "a", "base")
    org.enqueue("a/b")
    org.owner.call("detach_policy", p_policy=attach(org, "a", "base", files=OTHER)["id"])
    given = runner.call("worker_policies", **this(runner.claim_one()))
    assert [each["files"] for each in given["sets"]] == [RULES]


def test_mandatory_set_that_changed_since_the_plan_refuses_its_confirmation(
    world: World, org: Organization, runner: Runner
) -> None:
    attach(org, "", "base")
    job = plan(org, runner)
    attach(org, "", "base", files=OTHER)
    with refused("RY409", 'Policy set "base" has changed'):
        approve(org.owner, apply_of(world, job))
    attach(org, "", "base")
    assert approve(org.owner, apply_of(world, job))["status"] == "QUEUED"


def test_mandatory_set_that_is_new_refuses_the_confirmation(world: World, org: Organization, runner: Runner) -> None:
    job = plan(org, runner)
    attach(org, "a", "new", "advisory")
    attach(org, "a", "newer")
    with refused("RY409", '"newer" has changed since this plan'):
        approve(org.owner, apply_of(world, job))


@pytest.mark.parametrize("verdict", ["failed", "error"])
def test_failed_mandatory_set_refuses_the_job(org: Organization, runner: Runner, verdict: str) -> None:
    org.module("a/b")
    attach(org, "", "base")
    org.enqueue("a/b")
    answer = check(runner, runner.claim_one(), base=verdict)
    assert answer == {"problem": 'Policy set "base" refuses this plan: no cost tag', "is_refused": True}


def test_failed_mandatory_set_is_never_confirmed_nor_overridden(
    world: World, org: Organization, runner: Runner
) -> None:
    base = attach(org, "", "base")
    job = plan(org, runner, base="failed")
    waiting = apply_of(world, job)
    with refused("RY409", "does not wait for an override."):
        override(org.owner, waiting, base)
    with refused("RY409", '"base" refuses this plan'):
        approve(org.owner, waiting)


def test_plan_without_a_verdict_has_not_passed(world: World, org: Organization, runner: Runner) -> None:
    org.module("a/b", auto_apply=True)
    attach(org, "", "base")
    org.enqueue("a/b", "PLAN")
    job = runner.claim_one()
    runner.finish(job, p_plan_summary=CHANGES)
    waiting = apply_of(world, job)
    assert world.job(waiting)["status"] == "AWAITING_APPROVAL", "auto-apply waits, too"
    with refused("RY409", "has not checked this plan"):
        approve(org.owner, waiting)


def test_no_change_begins_without_the_checks_of_its_own_plan(org: Organization, runner: Runner) -> None:
    org.module("a/b")
    attach(org, "", "base", "overridable")
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    with refused("RY409", "has not checked this plan"):
        runner.report(job, "APPLY")
    assert check(runner, job, base="failed")["is_refused"], "nobody could override before it applies"
    with refused("RY409", "waits for an override"):
        runner.report(job, "APPLY")
    check(runner, job)
    runner.report(job, "APPLY")


def test_failed_advisory_set_stops_nothing(world: World, org: Organization, runner: Runner) -> None:
    attach(org, "", "base", "advisory")
    job = plan(org, runner, base="failed")
    assert approve(org.owner, apply_of(world, job))["status"] == "QUEUED"


def test_override_lets_a_plan_pass_with_a_reason(world: World, org: Organization, runner: Runner) -> None:
    base = attach(org, "", "base", "overridable")
    job = plan(org, runner, base="failed")
    waiting = apply_of(world, job)
    with refused("RY409", "waits for an override: no cost tag"):
        approve(org.owner, waiting)
    with refused("RY422", "An override needs a reason of at most 500"):
        override(org.owner, waiting, base, "  ")
    assert override(org.owner, waiting, base, "release 1.5")["override_reason"] == "release 1.5"
    with refused("RY409", "does not wait for an override."):
        override(org.owner, waiting, base)
    assert approve(org.owner, waiting)["status"] == "QUEUED"
    detail = world.owner.one(
        "select detail ->> 'reason' from public.audit_events where org_id = %s and action = 'policy.overridden'", org.id
    )
    assert detail == "release 1.5"
    assert "check_overridden" in world.events(waiting)


def test_new_evaluation_ends_an_override(world: World, org: Organization, runner: Runner) -> None:
    base = attach(org, "", "base", "overridable")
    job = plan(org, runner, base="failed")
    override(org.owner, apply_of(world, job), base)
    again = plan(org, runner, base="failed")
    with refused("RY409", "waits for an override"):
        approve(org.owner, apply_of(world, again))


def test_override_wants_its_verb(world: World, org: Organization, runner: Runner) -> None:
    base = attach(org, "", "base", "overridable")
    job = plan(org, runner, base="failed")
    with refused("RY403", "policy.override"):
        override(org.member("operator"), apply_of(world, job), base)


@pytest.fixture
def four_eyes(org: Organization) -> Organization:
    org.module("a/b", approvals_required=2)
    return org


def test_requester_does_not_override_where_others_approve(
    world: World, four_eyes: Organization, runner: Runner
) -> None:
    admin = four_eyes.member("admin")
    base = attach(four_eyes, "", "base", "overridable")
    job = plan(four_eyes, runner, by=admin, base="failed")
    with refused("RY403", "You requested this job; somebody else overrides its checks"):
        override(admin, apply_of(world, job), base)
    override(four_eyes.owner, apply_of(world, job), base)


def test_approval_that_was_given_before_an_override_ends(world: World, four_eyes: Organization, runner: Runner) -> None:
    first: User = four_eyes.member("operator")
    base = attach(four_eyes, "", "base", "overridable")
    job = plan(four_eyes, runner, by=four_eyes.member("operator"), base="failed")
    waiting = apply_of(world, job)
    assert approve(first, waiting)["approvals_received"] == 1
    with refused("RY409", "waits for an override"):
        approve(four_eyes.member("operator"), waiting)
    override(four_eyes.owner, waiting, base)
    assert world.job(waiting)["approvals_received"] == 0
    assert approve(first, waiting)["approvals_received"] == 1, "the same member looks again"
    assert approve(four_eyes.member("operator"), waiting)["status"] == "QUEUED"


def test_plan_that_was_replaced_is_not_overridden(world: World, org: Organization, runner: Runner) -> None:
    base = attach(org, "", "base", "overridable")
    job = plan(org, runner, base="failed")
    org.owner.call("approve_job", p_job=apply_of(world, job), p_decision="reject")
    with refused("RY409", "Nothing of this plan waits any more"):
        override(org.owner, job["id"], base)


def test_plan_of_an_older_commit_of_a_pull_request_is_not_overridden(world: World, org: Organization) -> None:
    base = attach(org, "", "base", "overridable")
    site = open_site(world, org)
    first_reading(site)
    announce(site, 5)
    (old,) = merged(site, 5, dns="d1", vpc="v2")
    check(site[2], old, base="failed")
    site[2].finish(old, p_plan_summary=CHANGES)
    announce(site, 6)
    with refused("RY409", "Nothing of this plan waits any more"):
        override(org.owner, old["id"], base)
    (new,) = merged(site, 6, dns="d1", vpc="v3")
    check(site[2], new, base="failed")
    site[2].finish(new, p_plan_summary=CHANGES)
    assert override(org.owner, new["id"], base)["override_reason"] == "known"


def test_retry_is_checked_with_the_sets_of_now(org: Organization, runner: Runner) -> None:
    org.module("a/b")
    attach(org, "", "base")
    org.enqueue("a/b")
    runner.finish(job := runner.claim_one(), "FAILED")
    attach(org, "", "base", files=OTHER)
    org.owner.call("retry_job", p_job=job["id"])
    given = runner.call("worker_policies", **this(runner.claim_one()))
    assert [each["files"] for each in given["sets"]] == [OTHER]


def test_set_of_a_removed_group_is_not_inherited(world: World, org: Organization) -> None:
    group = org.group("a")
    attach(org, "a", "base")
    org.owner.call("delete_group", p_group=group["id"])
    assert world.owner.one("select count(*) from public.policy_sets where org_id = %s", org.id) == 0


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"files": {}}, "A policy set is an object of file names and texts, with at least one .rego file"),
        (
            {"files": {"a_test.rego": ""}},
            "A policy set is an object of file names and texts, with at least one .rego file",
        ),
        ({"files": {"../a.rego": ""}}, "A policy set is an object of file names and texts"),
        ({"files": {"/a.rego": ""}}, "A policy set is an object of file names and texts"),
        ({"files": {"a.rego": 1}}, "A policy set is an object of file names and texts"),
        ({"files": "package main"}, "A policy set is an object of file names and texts"),
        ({"files": {"a.rego": "x" * 1_048_577}}, "A policy set is an object of file names and texts"),
        (
            {"files": {**RULES, "command.json": '{"argv": ["true"]}'}},
            "with at least one .rego file or a command.json",
        ),
        ({"files": {"run.sh": "", "rules.rego": ""}}, "A policy set is an object of file names and texts"),
        ({"files": {"command.json": "{"}}, "command.json does not name a command"),
        ({"files": {"command.json": "[]"}}, "command.json does not name a command"),
        ({"files": {"command.json": '{"argv": []}'}}, "command.json does not name a command"),
        ({"files": {"command.json": '{"argv": "true"}'}}, "command.json does not name a command"),
        ({"files": {"command.json": '{"argv": [""]}'}}, "command.json does not name a command"),
        ({"files": {"command.json": '{"argv": ["true", 1]}'}}, "command.json does not name a command"),
        ({"files": {"command.json": '{"argv": ["true"], "network": "yes"}'}}, "command.json does not name a command"),
        ({"files": {"command.json": '{"argv": ["true"], "shell": true}'}}, "command.json does not name a command"),
        ({"files": {"command.json": '{"argv": ["\\u0000"]}'}}, "command.json does not name a command"),
        ({"level": "soft"}, "A policy set needs a name, a level and its files"),
        ({"name": "Base!"}, "A policy set needs a name, a level and its files"),
        ({"kind": "x"}, "Unknown option"),
    ],
)
def test_bad_set_is_refused(org: Organization, spec: dict[str, Any], words: str) -> None:
    with refused("RY422", words):
        attach(org, "", **{"name": "base", **spec})


def test_command_is_a_set_with_files_of_any_kind(org: Organization, runner: Runner) -> None:
    command = {"command.json": '{"argv": ["sh", "check.sh"], "network": true}', "check.sh": "true", "data/x.csv": "1"}
    org.module("a/b")
    made = attach(org, "a", "scan", "overridable", files=command)
    assert org.owner.call("policy_files", p_policy=made["id"]) == command
    org.enqueue("a/b")
    (given,) = runner.call("worker_policies", **this(runner.claim_one()))["sets"]
    assert (given["level"], given["files"]) == ("overridable", command)


def test_cost_of_a_plan_is_kept_with_its_check_and_given_to_later_tests(
    world: World, org: Organization, runner: Runner
) -> None:
    cost = {"monthly_before": 10, "monthly_after": 22.5, "monthly_delta": 12.5}
    org.module("a/b")
    made = attach(org, "", "cost", files={"command.json": '{"argv": ["true"]}'})
    lower = attach(org, "a", "a-cost", files={"command.json": '{"argv": ["true"]}'})
    org.enqueue("a/b")
    job = runner.claim_one()
    assert "cost" not in runner.call("worker_policies", **this(job))["run"]
    checks = [
        {"id": made["id"], "verdict": "passed", "messages": [], "cost": cost},
        {"id": lower["id"], "verdict": "passed", "messages": [], "cost": {**cost, "monthly_delta": 0}},
    ]
    runner.call("worker_record_checks", **this(job), p_checks=checks)
    page = org.owner.call("job_page", p_org=org.id, p_number=job["number"])
    assert page["checks"][0]["cost"] == cost
    run = world.owner.one(
        "select private.policy_input(j) -> 'cost' from public.provision_jobs as j where id = %s", job["id"]
    )
    assert run == cost, "the one of the higher path"


def test_set_without_files_keeps_its_rules(org: Organization) -> None:
    with refused("RY422", "A policy set needs a name, a level and its files"):
        org.owner.call("attach_policy", p_org=org.id, p_path="", p_spec={"name": "base", "level": "advisory"})
    made = attach(org, "", "base", source="policies@8c41f2e")
    spec = {"name": "base", "level": "advisory"}
    changed = org.owner.call("attach_policy", p_org=org.id, p_path="", p_spec=spec)
    kept = ("bundle_sha256", "source")
    assert [changed[key] for key in kept] == [made[key] for key in kept]
    assert org.owner.call("policy_files", p_policy=made["id"]) == RULES


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        ({}, "Checks are a list of at most 1 MiB"),
        ([{"messages": 1}], "Checks are a list of at most 1 MiB"),
        ([{"id": "x", "verdict": "passed"}], "A check has the id of its set and a verdict"),
        ([{"verdict": "fine"}], "A check has the id of its set and a verdict"),
        ([{"verdict": "passed", "cost": {"monthly_delta": 1}}], "A check has the id of its set and a verdict"),
    ],
)
def test_bad_report_of_checks_is_refused(org: Organization, runner: Runner, checks: Any, words: str) -> None:
    org.module("a/b")
    made = attach(org, "", "base")
    org.enqueue("a/b")
    checks = [{"id": made["id"], **each} for each in checks] if isinstance(checks, list) else checks
    with refused("RY422", words):
        runner.call("worker_record_checks", **this(runner.claim_one()), p_checks=checks)


def test_rules_of_a_group_are_its_admins(org: Organization) -> None:
    org.group("a")
    with refused("RY403"):
        attach(org, "a", "base", by=org.member("operator"))
    with refused("RY404"):
        attach(org, "nowhere", "base")


def test_set_and_check_that_do_not_exist(world: World, org: Organization, runner: Runner) -> None:
    base = attach(org, "", "base", "overridable")
    job = plan(org, runner, base="failed")
    org.owner.call("detach_policy", p_policy=base["id"])
    with refused("RY404", "There is no such policy set"):
        org.owner.call("detach_policy", p_policy=base["id"])
    with refused("RY404", "This plan has no such check"):
        override(org.owner, apply_of(world, job), {"id": str(uuid.uuid4())})
