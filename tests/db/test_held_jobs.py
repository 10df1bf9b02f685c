"""A job inside of apply or destroy belongs to the attempt that holds it, whatever the silence, until a person releases it."""

from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused, this


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True)


@pytest.fixture
def applying(org: Organization, runner: Runner) -> dict[str, Any]:
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.call("worker_state_lock", **this(job, p_lock={"ID": "mine"}))
    runner.report(job, "APPLY")
    return job


@pytest.fixture
def held(world: World, runner: Runner, applying: dict[str, Any]) -> dict[str, Any]:
    world.lose(runner)
    assert world.status(applying["id"]) == "NEEDS_ATTENTION"
    return applying


def test_a_held_job_reports_that_its_runner_is_out_of_contact_and_may_still_apply(
    world: World, held: dict[str, Any]
) -> None:
    error = world.job(held["id"])["error"]
    assert error["code"] == "OUT_OF_CONTACT"
    assert error["message"].startswith("Out of contact since ")
    assert "the apply may still be running on one; its state is kept there." in error["message"]


def come_back(runner: Runner, job: dict[str, Any], how: str) -> None:
    calls: dict[str, Any] = {
        "heartbeat": lambda: runner.heartbeat(running=[{"job": job["id"], "attempt": 1}]),
        "report": lambda: runner.report(job, "APPLY"),
        "state": lambda: runner.call("worker_state_put", **this(job, p_body='{"serial": 1}', p_lock_id="mine")),
        "recover": lambda: runner.call("worker_recover", p_running=[{"job": job["id"], "attempt": 1}]),
    }
    calls[how]()


@pytest.mark.parametrize("how", ["heartbeat", "report", "state", "recover"])
def test_the_attempt_that_holds_a_job_resumes_with_its_first_call(
    world: World, runner: Runner, held: dict[str, Any], how: str
) -> None:
    come_back(runner, held, how)
    row = world.job(held["id"])
    assert (row["status"], row["error"]) == ("PROCESSING", None)
    assert runner.heartbeat(running=[{"job": held["id"], "attempt": 1}])["lost"] == []
    assert world.events(held["id"])[-1] == "resumed"
    assert world.replayed(held["id"]) == "PROCESSING"


def test_a_held_job_accepts_its_end_at_any_time(world: World, runner: Runner, held: dict[str, Any]) -> None:
    assert runner.finish(held)["is_late"] is False
    assert world.status(held["id"]) == "SUCCEEDED"
    assert world.replayed(held["id"]) == "SUCCEEDED"


def test_the_log_of_a_held_job_is_completed_without_a_change_of_its_status(
    world: World, runner: Runner, held: dict[str, Any]
) -> None:
    assert runner.append(held, (1, "a\n"), (2, "b\n"))["last_seq"] == 2
    assert world.status(held["id"]) == "NEEDS_ATTENTION"


@pytest.mark.parametrize("action", ["retry", "mark_failed", "release_lock"])
def test_a_release_by_a_person_is_not_overruled_by_the_runner(
    world: World, org: Organization, runner: Runner, held: dict[str, Any], action: str
) -> None:
    org.owner.call("resolve_attention", p_job=held["id"], p_action=action, p_proof="mine")
    before = world.status(held["id"])
    assert runner.heartbeat(running=[{"job": held["id"], "attempt": 1}])["lost"] == [{"job": held["id"], "attempt": 1}]
    with refused("RY410"):
        come_back(runner, held, "state")
    assert runner.finish(held)["is_late"] is True
    assert world.status(held["id"]) == before


def test_another_instance_does_not_inherit_a_held_job(world: World, org: Organization, held: dict[str, Any]) -> None:
    other = org.runner("r2", is_assigned_to_all_modules=True)
    assert other.heartbeat(running=[{"job": held["id"], "attempt": 1}])["lost"] == [{"job": held["id"], "attempt": 1}]
    with refused("RY410"):
        other.append(held, (1, "x\n"))
    assert world.status(held["id"]) == "NEEDS_ATTENTION"


def test_a_killed_engine_leaves_the_job_to_a_person_with_its_lock(
    world: World, org: Organization, runner: Runner, applying: dict[str, Any]
) -> None:
    error = {"code": "engine_killed", "message": "tofu was killed by signal 9."}
    summary = {"create": 1, "resources": [{"address": "t.a", "action": "create", "status": "RUNNING"}]}
    for _ in range(2):
        answer = runner.finish(applying, "NEEDS_ATTENTION", p_error=error, p_plan_summary=summary)
        assert (answer["status"], answer["is_late"]) == ("NEEDS_ATTENTION", False)
    row = world.job(applying["id"])
    assert (row["status"], row["error"], row["plan_summary"]) == ("NEEDS_ATTENTION", error, summary)
    assert org.owner.call("state_info", p_module=row["module_id"])["lock"]["id"] == "mine"
    assert world.events(applying["id"]).count("engine_killed") == 1
    # It runs no more, so the runner may claim another.
    org.enqueue("a/c")
    assert runner.claim_one()["id"] != applying["id"]


def test_a_cancellation_of_one_attempt_does_not_apply_to_the_next(
    world: World, org: Organization, runner: Runner, applying: dict[str, Any]
) -> None:
    org.owner.call("cancel_job", p_job=applying["id"], p_kind="KILL")
    runner.finish(applying, "NEEDS_ATTENTION", p_error={"code": "engine_killed", "message": "killed"})
    again = org.owner.call("resolve_attention", p_job=applying["id"], p_action="retry")
    assert (again["cancel_kind"], again["cancel_requested_at"], again["cancel_requested_by"]) == (None, None, None)
    assert runner.claim_one()["id"] == applying["id"]
    asked = org.owner.call("cancel_job", p_job=applying["id"], p_kind="AFTER_STEP")
    assert asked["cancel_kind"] == "AFTER_STEP"


def test_a_process_that_died_is_lost_and_not_out_of_contact(
    world: World, runner: Runner, applying: dict[str, Any]
) -> None:
    last_report = world.job(applying["id"])["updated_at"]
    runner.call("worker_recover", p_running=[{"job": applying["id"], "attempt": 1, "is_dead": True}])
    row = world.job(applying["id"])
    assert (row["status"], row["error"]["code"]) == ("NEEDS_ATTENTION", "RUNNER_LOST")
    assert row["error"]["since"] == last_report


def test_a_process_that_died_out_of_contact_is_reported_as_lost(
    world: World, runner: Runner, held: dict[str, Any]
) -> None:
    lost_since = world.job(held["id"])["error"]["since"]
    again = world.connect_runner(runner.worker_id, "one")
    for is_dead in (False, True):
        again.call("worker_recover", p_running=[{"job": held["id"], "attempt": 1, "is_dead": is_dead}])
    row = world.job(held["id"])
    assert (row["status"], row["error"]["code"]) == ("NEEDS_ATTENTION", "RUNNER_LOST")
    assert row["error"]["since"] == lost_since
    assert world.replayed(held["id"]) == "NEEDS_ATTENTION"


# ---------------------------------------------------------------------------------------------- given back


def give_back(runner: Runner, code: str, words: str) -> str:
    job = runner.claim_one()
    status: str = runner.call("worker_return_job", **this(job, p_reason=words, p_code=code))["status"]
    return status


def test_three_runners_with_the_same_lack_end_the_job_with_their_reasons(world: World, org: Organization) -> None:
    runners = [org.runner(f"r{n}", is_assigned_to_all_modules=True) for n in range(3)]
    job_id = org.enqueue("a/b", max_attempts=1)
    for _ in range(2):
        assert give_back(runners[0], "disk", "first is full") == "QUEUED"
    assert give_back(runners[1], "memory", "something else") == "QUEUED"
    assert give_back(runners[1], "disk", "second is full") == "QUEUED"
    assert give_back(runners[2], "disk", "third is full") == "FAILED"
    error = world.job(job_id)["error"]
    assert error["code"] == "RUNNERS_UNFIT"
    assert all(words in error["message"] for words in ("r0: first is full", "r1: second is full", "r2: third is full"))
    assert world.replayed(job_id) == "FAILED"


def test_a_job_that_was_given_back_has_cost_no_attempt(world: World, org: Organization, runner: Runner) -> None:
    job_id = org.enqueue("a/b", max_attempts=1)
    for _ in range(5):
        assert give_back(runner, "disk", "full") == "QUEUED"
    runner.finish(runner.claim_one())
    assert world.status(job_id) == "SUCCEEDED"


def test_a_change_that_never_began_is_given_back_although_it_was_reported(
    world: World, runner: Runner, applying: dict[str, Any]
) -> None:
    with refused("RY409", "This attempt has begun to change infrastructure; it cannot be given back."):
        runner.call("worker_return_job", **this(applying, p_code="disk"))
    assert runner.call("worker_return_job", **this(applying, p_code="not_begun")) == {"status": "QUEUED"}
    assert world.status(applying["id"]) == "QUEUED"


@pytest.mark.parametrize("action", ["mark_failed", "retry", "release_lock"])
def test_the_log_of_a_released_attempt_is_kept_as_late(
    world: World, org: Organization, runner: Runner, held: dict[str, Any], action: str
) -> None:
    runner_of_another = world.organization().runner("r1")
    org.owner.call("resolve_attention", p_job=held["id"], p_action=action, p_proof="mine")
    if action == "retry":
        # The next attempt has begun, with a log of its own.
        runner.heartbeat()
        second = runner.claim_one()
        runner.append(second, (1, "second attempt\n"))
    before = world.job(held["id"])
    runner.append(held, (1, "made it\n"), (2, "Apply complete!\n"), is_late=True)
    log = "select attempt, body, is_late from public.job_log_chunks where job_id = %s and attempt = 1 order by seq"
    assert org.owner.rows(log, held["id"]) == [(1, "made it\n", True), (1, "Apply complete!\n", True)]
    assert world.job(held["id"]) == before
    assert before["status"] == {"mark_failed": "FAILED", "retry": "CLAIMED", "release_lock": "NEEDS_ATTENTION"}[action]
    with refused("RY410"):
        runner_of_another.append(held, (3, "not mine\n"))


def test_the_log_of_an_attempt_that_nobody_released_is_refused(world: World, org: Organization, runner: Runner) -> None:
    """It was lost before it changed anything, and runs again elsewhere."""
    org.enqueue("a/plan")
    job = runner.claim_one()
    world.lose(runner)
    with refused("RY410"):
        runner.append(job, (1, "too late\n"))
