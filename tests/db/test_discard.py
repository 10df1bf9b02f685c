"""A plan that somebody discards is never applied: before any apply of it, or with the apply that waits."""

import base64
from typing import Any

import pytest

from tests.db.test_confirmation import CHANGES, apply_of, plan, runner_of
from tests.db.test_policies import CHANGES as CHECKED
from tests.db.test_policies import attach, check, override
from tests.db.test_reading import guest
from tests.db.world import Organization, Runner, World, refused


@pytest.fixture
def runner(org: Organization) -> Runner:
    return runner_of(org)


def discard(who: Any, job: int, comment: str = "not today") -> Any:
    return who.call("approve_job", p_job=job, p_decision="reject", p_comment=comment)


def is_never_applied(org: Organization, planned: int) -> None:
    number = org.world.job(planned)["number"]
    with refused("RY409", f"Plan {number} was discarded."):
        org.enqueue("a/b", "APPLY", plan_job_id=planned)
    seen = org.owner.call("terminal_run", p_run=planned)
    assert (seen["is_discardable"], seen["is_confirmation"]) == (False, False)
    assert seen["discarded_at"] is not None


@pytest.mark.parametrize("approvals", [0, 1])
def test_a_run_that_waits_is_discarded_for_good(
    world: World, org: Organization, runner: Runner, approvals: int
) -> None:
    org.module("a/b", approvals_required=approvals)
    planned = plan(org, runner)
    waiting = apply_of(world, planned)
    assert org.owner.call("terminal_run", p_run=planned)["is_discardable"] is True
    discard(org.owner, waiting["id"])
    is_never_applied(org, planned)
    with refused("RY409", "was discarded."):
        org.owner.call("retry_job", p_job=waiting["id"])
    for decision in ("approve", "reject"):
        with refused("RY409", "The job is CANCELLED; it does not wait for approval."):
            org.owner.call("approve_job", p_job=waiting["id"], p_decision=decision)
    org.enqueue("a/b", "APPLY")
    assert approvals or runner.claim_one()["type"] == "APPLY", "the module is free"


def test_a_plan_is_discarded_before_any_apply(world: World, org: Organization, runner: Runner) -> None:
    planned = plan(org, runner, confirm=False)
    assert org.owner.call("terminal_run", p_run=planned)["discarded_at"] is None
    discard(org.owner, planned)
    is_never_applied(org, planned)
    assert world.events(planned)[-1] == "rejected"
    assert org.owner.rows("select decision, comment from public.approvals where job_id = %s", planned) == [
        ("reject", "not today")
    ]
    number = str(world.job(planned)["number"])
    audited = "select count(*) from public.audit_events where org_id = %s and action = 'job.reject' and target_id = %s"
    assert world.owner.one(audited, org.id, number) == 1
    with refused("RY409", f"Plan {number} was discarded."):
        discard(org.member("operator"), planned)
    org.enqueue("a/b", "APPLY")
    assert runner.claim_one()["type"] == "APPLY"


def test_only_a_plan_that_could_be_applied_is_discarded(world: World, org: Organization, runner: Runner) -> None:
    nothing = plan(org, runner, {"has_changes": False})
    with refused("RY409", "The job is SUCCEEDED; it does not wait for approval."):
        discard(org.owner, nothing)
    queued = org.enqueue("a/b", "PLAN")
    with refused("RY409", "The job is QUEUED; it does not wait for approval.") as early:
        discard(org.owner, queued)
    assert early.value.diag.message_hint == "Cancel it, or let it end."
    runner.finish(runner.claim_one(), p_plan_summary=CHANGES)
    with refused("RY409", "it does not wait for approval."):
        org.owner.call("approve_job", p_job=queued, p_decision="approve")
    apply = org.enqueue("a/b", "APPLY", plan_job_id=queued)
    number = world.job(queued)["number"]
    with refused("RY409", f"Plan {number} is already being applied, or was."):
        discard(org.owner, queued)
    claimed = runner.claim_one()
    with refused("RY409", "The job is CLAIMED; it does not wait for approval."):
        discard(org.owner, apply)
    runner.finish(claimed)
    with refused("RY409", "The job is SUCCEEDED; it does not wait for approval.") as late:
        discard(org.owner, apply)
    assert late.value.diag.message_hint == "It is over."
    assert org.owner.call("terminal_run", p_run=queued)["is_discardable"] is False


def test_discarding_takes_the_right_to_decide(org: Organization, runner: Runner, other_org: Organization) -> None:
    planned = plan(org, runner, confirm=False)
    viewer = org.member("viewer")
    seen = viewer.call("terminal_run", p_run=planned)
    assert (seen["is_discardable"], seen["may_discard"]) == (True, False)
    with refused("RY403", "job.approve"):
        discard(viewer, planned)
    org.group("elsewhere")
    for stranger in (guest(org, "elsewhere"), other_org.owner):
        with refused("RY404", "There is no such job."):
            discard(stranger, planned)
    assert org.member("operator").call("terminal_run", p_run=planned)["may_discard"] is True


def test_a_check_of_a_discarded_plan_is_not_overridden(org: Organization, runner: Runner) -> None:
    org.module("a/b")
    policy = attach(org, "a/b", "cost", "overridable")
    org.enqueue("a/b", "PLAN")
    made = runner.claim_one()
    check(runner, made, cost="failed")
    runner.finish(made, p_plan_summary=CHECKED)
    discard(org.owner, made["id"])
    with refused("RY409", "Nothing of this plan waits any more"):
        override(org.owner, made["id"], policy)


def test_the_log_of_a_discarded_apply_ends_with_an_error(world: World, org: Organization, runner: Runner) -> None:
    org.module("a/b", approvals_required=1)
    planned = plan(org, runner)
    args = {"p_run": planned, "p_is_apply": True, "p_url": "https://runyard.example", "p_limit": 65536}
    discard(org.owner, apply_of(world, planned)["id"])
    said = base64.b64decode(org.owner.call("terminal_log", p_offset=0, **args))
    assert b"Rejected by" in said
    assert not said.endswith(b"\x03"), "it did not end as after a success"
    with refused("RY409", "The run was discarded."):
        org.owner.call("terminal_log", p_offset=len(said), **args)
