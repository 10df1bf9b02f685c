"""Approve, cancel, retry; and that no status changes in a way that is not written down."""

import itertools
from typing import Any

import psycopg
import pytest

from tests.db.world import Organization, Runner, World, refused


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True, capacity=5)


def test_two_of_three_approve(world: World, org: Organization, runner: Runner) -> None:
    org.module("a/b", approvals_required=2)
    job = org.enqueue("a/b", "APPLY")
    people = [org.member("operator") for _ in range(2)]
    assert world.status(job) == "AWAITING_APPROVAL"
    assert runner.claim() == []
    assert (
        people[0].call("approve_job", p_job=job, p_decision="approve", p_comment="looks right")["status"]
        == "AWAITING_APPROVAL"
    )
    with refused("RY409", "You have already decided about this job."):
        people[0].call("approve_job", p_job=job, p_decision="approve")
    assert people[1].call("approve_job", p_job=job, p_decision="approve")["status"] == "QUEUED"
    assert runner.claim_one()["id"] == job
    with refused("RY409", "; it does not wait for approval."):
        org.owner.call("approve_job", p_job=job, p_decision="approve")


def test_one_rejection_cancels_the_job(world: World, org: Organization) -> None:
    org.module("a/b", approvals_required=1)
    job = org.enqueue("a/b", "DESTROY")
    assert org.owner.call("approve_job", p_job=job, p_decision="reject", p_comment="not today")["status"] == "CANCELLED"
    assert org.owner.rows("select decision, comment from public.approvals") == [("reject", "not today")]


def test_plans_need_no_approval_and_a_request_may_require_more_approvals(world: World, org: Organization) -> None:
    org.module("a/b", approvals_required=2)
    assert world.status(org.enqueue("a/b")) == "QUEUED"
    assert world.job(org.enqueue("a/b", "APPLY", approvals_required=1))["approvals_required"] == 2
    assert world.job(org.enqueue("a/b", "APPLY", approvals_required=3))["approvals_required"] == 3


def test_viewers_and_strangers_do_not_approve(org: Organization, other_org: Organization) -> None:
    org.module("a/b", approvals_required=1)
    job = org.enqueue("a/b", "APPLY")
    with refused("RY403"):
        org.member("viewer").call("approve_job", p_job=job, p_decision="approve")
    with refused("RY404"):
        other_org.owner.call("approve_job", p_job=job, p_decision="approve")
    with refused("RY422", 'A decision is "approve" or "reject".'):
        org.owner.call("approve_job", p_job=job, p_decision="maybe")


def test_a_waiting_job_is_cancelled_at_once(world: World, org: Organization, runner: Runner) -> None:
    org.module("a/b", approvals_required=1)
    unapproved, queued, next_one = org.enqueue("a/b", "APPLY"), org.enqueue("a/c"), org.enqueue("a/c")
    for job in (unapproved, queued):
        assert org.owner.call("cancel_job", p_job=job, p_reason="changed my mind")["status"] == "CANCELLED"
    assert runner.claim_one()["id"] == next_one


def test_a_later_cancellation_of_a_running_job_counts_only_if_it_is_stronger(
    world: World, org: Organization, runner: Runner
) -> None:
    job_id = org.enqueue("a/b")
    job = runner.claim_one()
    asked = ("GRACEFUL", "AFTER_STEP", "KILL")
    kinds = [org.owner.call("cancel_job", p_job=job_id, p_kind=kind)["cancel_kind"] for kind in asked]
    assert kinds == ["GRACEFUL", "GRACEFUL", "KILL"]
    assert world.wake_ups(f"worker:{runner.worker_id}", "directive")
    runner.finish(job, "CANCELLED")
    assert world.status(job_id) == "CANCELLED"
    with refused("RY409", "The job is"):
        org.owner.call("cancel_job", p_job=job_id)


def test_a_job_that_finished_before_its_cancellation_arrived_has_succeeded(
    world: World, org: Organization, runner: Runner
) -> None:
    job_id = org.enqueue("a/b")
    job = runner.claim_one()
    org.owner.call("cancel_job", p_job=job_id)
    runner.finish(job, "SUCCEEDED")
    assert world.status(job_id) == "SUCCEEDED"


def test_a_retry_is_a_new_job_with_the_same_payload(world: World, org: Organization, runner: Runner) -> None:
    module = org.module("a/b", inputs={"v": 1})
    job_id = org.enqueue("a/b", labels=[], priority=7)
    runner.finish(runner.claim_one(), "FAILED", p_error={"message": "no"})
    org.owner.call("update_module", p_module=module, p_spec={"inputs": {"v": 2}})
    again = org.owner.call("retry_job", p_job=job_id, p_reason="flaky")
    row = world.job(again["id"])
    assert (row["retry_of"], row["status"], row["priority"], row["attempt"], row["error"]) == (
        job_id,
        "QUEUED",
        7,
        0,
        None,
    )
    assert world.given(row["id"]) == {"v": 1}
    assert world.status(job_id) == "FAILED"


def test_only_failed_or_cancelled_jobs_are_retried(org: Organization, runner: Runner) -> None:
    job_id = org.enqueue("a/b")
    with refused("RY409", "; only a failed or cancelled one can be retried."):
        org.owner.call("retry_job", p_job=job_id)
    runner.finish(runner.claim_one())
    with refused("RY409"):
        org.owner.call("retry_job", p_job=job_id)


def test_a_retried_apply_needs_approval_again(world: World, org: Organization, runner: Runner) -> None:
    org.module("a/b", approvals_required=1)
    job = org.enqueue("a/b", "APPLY")
    org.member("operator").call("approve_job", p_job=job, p_decision="approve")
    runner.finish(runner.claim_one(), "FAILED")
    assert org.owner.call("retry_job", p_job=job)["status"] == "AWAITING_APPROVAL"


@pytest.mark.parametrize(
    ("function", "more"), [("cancel_job", {}), ("retry_job", {}), ("resolve_attention", {"p_action": "retry"})]
)
def test_viewers_and_strangers_decide_nothing(
    org: Organization, other_org: Organization, function: str, more: dict[str, Any]
) -> None:
    job = org.enqueue("a/b")
    with refused("RY403"):
        org.member("viewer").call(function, p_job=job, **more)
    with refused("RY404"):
        other_org.owner.call(function, p_job=job, **more)


# ---------------------------------------------------------------------- transitions

STATUSES = [
    "AWAITING_APPROVAL",
    "QUEUED",
    "CLAIMED",
    "PROCESSING",
    "SUCCEEDED",
    "FAILED",
    "CANCELLED",
    "NEEDS_ATTENTION",
]
ALLOWED = {
    ("AWAITING_APPROVAL", "QUEUED"),
    ("AWAITING_APPROVAL", "CANCELLED"),
    ("QUEUED", "CLAIMED"),
    ("QUEUED", "CANCELLED"),
    ("QUEUED", "FAILED"),
    ("CLAIMED", "PROCESSING"),
    ("CLAIMED", "QUEUED"),
    ("CLAIMED", "SUCCEEDED"),
    ("CLAIMED", "FAILED"),
    ("CLAIMED", "CANCELLED"),
    ("PROCESSING", "SUCCEEDED"),
    ("PROCESSING", "FAILED"),
    ("PROCESSING", "CANCELLED"),
    ("PROCESSING", "QUEUED"),
    ("PROCESSING", "NEEDS_ATTENTION"),
    ("NEEDS_ATTENTION", "PROCESSING"),
    ("NEEDS_ATTENTION", "QUEUED"),
    ("NEEDS_ATTENTION", "FAILED"),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(STATUSES, 2)))
def test_every_transition_that_is_not_listed_is_refused_even_to_the_owner(
    world: World, org: Organization, before: str, after: str
) -> None:
    job = org.enqueue("a/b")
    with world.owner.connection.transaction():
        world.owner.connection.execute("alter table public.provision_jobs disable trigger guard")
        world.owner.connection.execute("update public.provision_jobs set status = %s where id = %s", [before, job])
        world.owner.connection.execute("alter table public.provision_jobs enable trigger guard")
    change = "update public.provision_jobs set status = %s where id = %s"
    if (before, after) in ALLOWED:
        world.owner.connection.execute(change, [after, job])
        assert world.status(job) == after
    else:
        with pytest.raises(psycopg.Error) as caught:
            world.owner.connection.execute(change, [after, job])
        assert caught.value.sqlstate == "RY409"
        assert world.status(job) == before


def test_the_database_lists_the_same(world: World) -> None:
    listed = world.owner.rows("select distinct from_status::text, to_status::text from private.job_transitions")
    assert set(listed) == ALLOWED


def test_final_statuses_have_no_way_out() -> None:
    assert {before for before, _ in ALLOWED}.isdisjoint({"SUCCEEDED", "FAILED", "CANCELLED"})


def test_every_event_that_changes_a_status_is_listed(world: World, org: Organization, runner: Runner) -> None:
    org.module("x/y", approvals_required=1)
    org.member("operator").call("approve_job", p_job=org.enqueue("x/y", "APPLY"), p_decision="approve")
    org.enqueue("a/b")
    for job in runner.claim(5):
        runner.report(job, "PLAN")
        runner.finish(job)
    unlisted = world.owner.rows(
        """select distinct e.event from public.job_events as e where e.from_status is not null and not exists (
          select from private.job_transitions as t
          where (t.from_status, t.to_status, t.event) = (e.from_status, e.to_status, e.event))"""
    )
    assert unlisted == []


def test_every_change_of_a_job_is_dated(world: World, org: Organization) -> None:
    job = org.enqueue("a/b")
    update = "update public.provision_jobs set priority = 7, updated_at = %s where id = %s"
    world.owner.connection.execute(update, ["2020-01-01", job])
    assert not world.job(job)["updated_at"].startswith("2020")
