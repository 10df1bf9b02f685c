"""Plan, review, confirm: an apply waits for a person to confirm its very plan, and never outlives the state it was made for."""

import base64
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused, sha256

CHANGES = {"has_changes": True, "create": 1}


def runner_of(org: Organization) -> Runner:
    return org.runner("r", is_assigned_to_all_modules=True)


def state(serial: int) -> str:
    return json.dumps({"serial": serial, "lineage": "one", "version": 4, "resources": []})


def plan(org: Organization, runner: Runner, summary: dict[str, Any] | None = None, **options: Any) -> int:
    """Make a plan whose apply waits for confirmation, and return its id."""
    if "a/b" not in org.modules:
        org.module("a/b", inputs={"v": 1})
    org.enqueue("a/b", "PLAN", **{"confirm": True, **options})
    job = runner.claim_one()
    runner.finish(job, p_plan_summary=CHANGES if summary is None else summary, p_result={"commit": "c" * 40})
    return int(job["id"])


def apply_of(world: World, plan_job: int) -> dict[str, Any]:
    found = world.owner.rows(
        "select id from public.provision_jobs where plan_job_id = %s order by id desc limit 1", plan_job
    )
    return world.job(found[0]) if found else {}


def apply_something_else(org: Organization, runner: Runner, serial: int) -> None:
    """Another apply of the same module, which writes its state."""
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.call("worker_state_put", p_job=job["id"], p_attempt=job["attempt"], p_body=state(serial), p_lock_id=None)
    runner.finish(job)


def test_an_apply_has_the_digest_and_the_message_of_its_plan(world: World, org: Organization) -> None:
    runner, digest = runner_of(org), sha256("the plan file")
    org.module("a/b")
    org.enqueue("a/b", "PLAN", confirm=True, reason="release 1.4")
    job = runner.claim_one()
    runner.finish(job, p_plan_summary=CHANGES, p_result={"plan_sha256": digest})
    waiting = apply_of(world, job["id"])
    assert (waiting["plan_sha256"], waiting["message"]) == (digest, "release 1.4")
    org.owner.call("approve_job", p_job=waiting["id"], p_decision="approve")
    decided = world.owner.one("select plan_sha256 from public.approvals where job_id = %s", waiting["id"])
    logged = world.owner.one(
        "select detail ->> 'plan_sha256' from public.audit_events where org_id = %s and action = 'job.confirmed'",
        org.id,
    )
    assert (decided, logged, runner.claim_one()["plan_sha256"]) == (digest, digest, digest)


def test_an_invalid_digest_is_not_kept(world: World, org: Organization) -> None:
    runner = runner_of(org)
    org.module("a/b")
    org.enqueue("a/b", "PLAN", confirm=True)
    job = runner.claim_one()
    runner.finish(job, p_plan_summary=CHANGES, p_result={"plan_sha256": "not a digest"})
    assert world.job(job["id"])["plan_sha256"] is None


@pytest.mark.parametrize(("options", "kind"), [({}, "APPLY"), ({"destroy": True}, "DESTROY")])
def test_an_apply_waits_for_a_person_to_confirm_its_plan(
    world: World, org: Organization, options: dict[str, Any], kind: str
) -> None:
    runner = runner_of(org)
    planned = plan(org, runner, **options)
    waiting = apply_of(world, planned)
    assert (waiting["type"], waiting["status"], waiting["needs_confirmation"]) == (kind, "AWAITING_APPROVAL", True)
    assert waiting["approval_deadline_at"] is not None
    assert runner.claim() == [], "nothing is held and nothing runs while people think"
    done = org.owner.call("approve_job", p_job=waiting["id"], p_decision="approve", p_comment="looks right")
    assert done["status"] == "QUEUED", "the requester may confirm where no approval is required"
    assert world.events(waiting["id"])[-1] == "confirmed"
    assert runner.claim_one()["plan_job_id"] == planned


def test_an_apply_uses_the_inputs_and_the_commit_of_its_plan(world: World, org: Organization) -> None:
    module = org.module(
        "a/b", source_kind="git", source={"url": "https://example.com/x.git", "ref": "main"}, inputs={"v": 1}
    )
    planned = plan(org, runner_of(org))
    org.owner.call("update_module", p_module=module, p_spec={"inputs": {"v": 2}})
    waiting = apply_of(world, planned)
    org.owner.call("cancel_job", p_job=waiting["id"])
    for job in (waiting, world.job(org.enqueue("a/b", "APPLY", plan_job_id=planned))):
        assert world.given(job["id"]) == {"v": 1}
        assert job["payload"]["module"]["source"]["commit"] == "c" * 40


@pytest.mark.parametrize(
    ("summary", "options"),
    [
        ({"has_changes": False}, {}),
        ({"has_changes": "x"}, {}),
        (CHANGES, {"refresh_only": True}),
        (CHANGES, {"confirm": False}),
    ],
)
def test_nothing_waits_where_there_is_nothing_to_confirm(
    world: World, org: Organization, summary: dict[str, Any], options: dict[str, Any]
) -> None:
    assert apply_of(world, plan(org, runner_of(org), summary, **options)) == {}


def test_a_module_with_auto_apply_needs_no_confirmation(world: World, org: Organization) -> None:
    org.module("a/b", auto_apply=True)
    job = apply_of(world, plan(org, runner_of(org)))
    assert (job["status"], job["needs_confirmation"]) == ("QUEUED", False)


def test_auto_apply_does_not_destroy(world: World, org: Organization) -> None:
    org.module("a/b", auto_apply=True)
    runner = runner_of(org)
    waiting = apply_of(world, plan(org, runner, destroy=True))
    assert (waiting["type"], waiting["status"]) == ("DESTROY", "AWAITING_APPROVAL")
    assert apply_of(world, plan(org, runner, destroy=True, confirm=False)) == {}
    assert apply_of(world, plan(org, runner, destroy=True, auto_apply=True))["status"] == "QUEUED"


def test_approvals_remain_binding_and_replace_the_confirmation(world: World, org: Organization) -> None:
    org.module("a/b", approvals_required=1)
    job = apply_of(world, plan(org, runner_of(org)))
    org.member("viewer")
    colleague = org.member("operator")
    with refused("RY403", "You requested this job"):
        org.owner.call("approve_job", p_job=job["id"], p_decision="approve")
    assert colleague.call("approve_job", p_job=job["id"], p_decision="approve")["status"] == "QUEUED"
    assert world.events(job["id"])[-1] == "approved"


def test_a_confirmation_is_nothing_to_override(world: World, org: Organization) -> None:
    job = apply_of(world, plan(org, runner_of(org)))
    with refused("RY422", "There is nothing to override"):
        org.owner.call("approve_job", p_job=job["id"], p_decision="approve", p_override_reason="in a hurry")
    assert world.status(job["id"]) == "AWAITING_APPROVAL"


def test_discarding_ends_the_apply(world: World, org: Organization) -> None:
    job = apply_of(world, plan(org, runner_of(org)))
    assert org.owner.call("approve_job", p_job=job["id"], p_decision="reject")["status"] == "CANCELLED"


def test_a_runners_list_has_a_run_once_and_a_plan_that_another_runner_applies(world: World, org: Organization) -> None:
    planner = runner_of(org)

    def listed(runner: Runner) -> list[str]:
        answer = org.owner.call("list_jobs", p_org=org.id, p_filters={"worker_id": runner.worker_id})
        return [row["type"] for row in answer["rows"]]

    apply = apply_of(world, plan(org, planner))
    assert listed(planner) == ["PLAN"]
    org.owner.call("approve_job", p_job=apply["id"], p_decision="approve")
    planner.finish(planner.claim_one())
    assert listed(planner) == ["APPLY"]


def test_a_plan_is_refused_when_the_state_has_moved_on(world: World, org: Organization) -> None:
    runner = runner_of(org)
    planned = plan(org, runner, confirm=False)
    assert world.job(planned)["planned_serial"] == -1
    apply_something_else(org, runner, 0)
    number = world.job(planned)["number"]
    with refused(
        "RY409", f"The state has moved on since plan {number}: it was made against no state, and now there is 0."
    ):
        org.enqueue("a/b", "APPLY", plan_job_id=planned)
    again = plan(org, runner)
    assert world.job(again)["planned_serial"] == 0
    waiting = apply_of(world, again)
    world.owner.connection.execute("update private.states set serial = 7 where module_id = %s", [org.modules["a/b"]])
    with refused("RY409", "The state has moved on"):
        org.owner.call("approve_job", p_job=waiting["id"], p_decision="approve")


def test_a_waiting_apply_is_cancelled_once_its_plan_is_out_of_date(world: World, org: Organization) -> None:
    runner = runner_of(org)
    waiting = apply_of(world, plan(org, runner))
    apply_something_else(org, runner, 1)
    assert world.status(waiting["id"]) == "CANCELLED"
    assert world.events(waiting["id"])[-1] == "outdated"


def test_an_automatic_apply_behind_another_one_ends_once_its_plan_is_out_of_date(
    world: World, org: Organization
) -> None:
    runner = runner_of(org)
    org.module("a/b", auto_apply=True)
    # Both are planned before the first apply, so that the second apply is queued behind it.
    for _ in range(2):
        org.enqueue("a/b", "PLAN")
    first, second = (plan_queued(runner) for _ in range(2))
    applies = [apply_of(world, each) for each in (first, second)]
    assert [each["status"] for each in applies] == ["QUEUED", "QUEUED"]
    org.enqueue("a/b", "DRIFT")
    job = runner.claim_one()
    assert job["id"] == applies[0]["id"]
    runner.call("worker_state_put", p_job=job["id"], p_attempt=job["attempt"], p_body=state(1), p_lock_id=None)
    runner.finish(job)
    ended = world.job(applies[1]["id"])
    assert (ended["status"], world.events(ended["id"])[-1]) == ("CANCELLED", "outdated")
    # The state is free for what comes behind them.
    assert runner.claim_one()["type"] == "DRIFT"


def plan_queued(runner: Runner) -> int:
    job = runner.claim_one()
    runner.finish(job, p_plan_summary=CHANGES)
    return int(job["id"])


def test_a_pushed_or_rolled_back_state_ends_the_applies_of_earlier_plans(world: World, org: Organization) -> None:
    runner = runner_of(org)
    org.module("a/b", auto_apply=True)
    apply_something_else(org, runner, 1)
    module = org.modules["a/b"]
    for change, at in (("push_state", {"p_body": state(2)}), ("roll_back_state", {"p_serial": 1})):
        org.enqueue("a/b", "PLAN")
        queued = apply_of(world, plan_queued(runner))
        assert queued["status"] == "QUEUED"
        org.owner.call(change, p_module=module, **at)
        assert (world.status(queued["id"]), world.events(queued["id"])[-1]) == ("CANCELLED", "outdated")


def test_nobody_confirmed_in_time(world: World, org: Organization) -> None:
    waiting = apply_of(world, plan(org, runner_of(org)))
    created, deadline = (datetime.fromisoformat(waiting[name]) for name in ("created_at", "approval_deadline_at"))
    assert deadline - created == timedelta(days=1)
    world.owner.connection.execute(
        "update public.provision_jobs set approval_deadline_at = now() - interval '1 s' where id = %s", [waiting["id"]]
    )
    world.sweep()
    assert world.events(waiting["id"])[-1] == "approval_expired"


def test_members_read_the_changes_of_a_plan_and_strangers_do_not(
    world: World, org: Organization, other_org: Organization
) -> None:
    runner = runner_of(org)
    org.module("a/b")
    org.enqueue("a/b", "PLAN", confirm=True)
    job = runner.claim_one()
    body = json.dumps({"resources": [{"address": "x.a", "attributes": []}, {"address": "x.b", "attributes": []}]})
    runner.call(
        "worker_put_artifact", p_job=job["id"], p_attempt=job["attempt"], p_name="changes.json",
        p_body_base64=base64.b64encode(body.encode()).decode(), p_sha256=sha256(body),
    )  # fmt: skip
    runner.finish(job, p_plan_summary=CHANGES)
    apply = apply_of(world, job["id"])["id"]
    viewer = org.member("viewer")
    for number in (job["id"], apply):
        assert [each["address"] for each in viewer.call("plan_changes", p_job=number)["resources"]] == ["x.a", "x.b"]
    assert viewer.call("plan_changes", p_job=apply, p_address="x.b")["resources"] == [
        {"address": "x.b", "attributes": []}
    ]
    assert viewer.call("plan_changes", p_job=org.enqueue("a/b", "OUTPUT")) == {"resources": []}
    with refused("RY404", "There is no such job."):
        other_org.owner.call("plan_changes", p_job=apply)


def test_members_comment_on_a_job(world: World, org: Organization, other_org: Organization) -> None:
    org.module("a/b")
    job = org.enqueue("a/b", "PLAN")
    viewer = org.member("viewer")
    said = viewer.call("comment_on_job", p_job=job, p_body="  Does the endpoint change?  ")
    assert (said["body"], said["user_label"]) == ("Does the endpoint change?", viewer.email)
    assert org.owner.rows("select body from public.job_comments where job_id = %s", job) == [
        "Does the endpoint change?"
    ]
    assert other_org.owner.rows("select body from public.job_comments where job_id = %s", job) == []
    for bad in ("   ", "x" * 4001, None):
        with refused("RY422", "A comment has 1 to 4,000 characters."):
            viewer.call("comment_on_job", p_job=job, p_body=bad)
    with refused("RY404", "There is no such job."):
        other_org.owner.call("comment_on_job", p_job=job, p_body="hello")
