"""An executor's token is bound to one attempt: in the middle of a change it outlives the session that it was made in."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.db.world import Caller, Organization, Runner, World, refused, this

STATE = '{"serial": 1, "lineage": "x"}'


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True)


@pytest.fixture
def job(org: Organization, runner: Runner) -> dict[str, Any]:
    org.enqueue("a/b", "APPLY")
    return runner.claim_one()


@pytest.fixture
def executor(world: World, runner: Runner, job: dict[str, Any]) -> Caller:
    return executor_of(world, runner, job)


def executor_of(world: World, runner: Runner, job: dict[str, Any], role: str = "executor") -> Caller:
    return world.caller(role, sub=runner.worker_id, sid=runner.session_id, job=str(job["id"]), att=str(job["attempt"]))


def begin_change(executor: Caller, job: dict[str, Any]) -> None:
    executor.call("worker_state_lock", **this(job, p_lock={"ID": "mine"}))
    executor.call("worker_report", **this(job, p_phase="APPLY"))


def close(world: World, runner: Runner) -> None:
    runner.call("worker_close_session", p_reason="process exited")


def restart(world: World, runner: Runner) -> Runner:
    return world.connect_runner(runner.worker_id, "one", boot_id=runner.boot_id)


def replace(world: World, runner: Runner) -> Runner:
    """Another machine's process, after the first has been silent."""
    world.silence(runner)
    return world.connect_runner(runner.worker_id, "one", boot_id=str(uuid.uuid4()))


def renew(world: World, runner: Runner, job: dict[str, Any]) -> Any:
    return world.service.call("renew_worker_session", p_session=runner.session_id, **this(job))


@pytest.mark.parametrize("end", [close, restart, replace])
def test_an_executor_in_the_middle_of_a_change_continues_without_its_session(
    world: World, runner: Runner, job: dict[str, Any], executor: Caller, end: Callable[[World, Runner], Any]
) -> None:
    begin_change(executor, job)
    end(world, runner)
    with refused("RY401"):
        runner.heartbeat()
    assert renew(world, runner, job)["session_id"] == runner.session_id
    assert executor.call("worker_job", **this(job))["has_touched"] is True
    executor.call("worker_append_logs", **this(job, p_chunks=[{"seq": 1, "step": "apply", "body": "x\n"}]))
    executor.call("worker_state_put", **this(job, p_body=STATE, p_lock_id="mine"))
    assert executor_of(world, runner, job, "engine").call("worker_state_get", **this(job))["body"] == STATE
    executor.call("worker_finish", **this(job, p_status="SUCCEEDED"))
    assert world.status(job["id"]) == "SUCCEEDED"
    assert world.replayed(job["id"]) == "SUCCEEDED"


def test_an_executor_keeps_its_attempt_while_its_calls_arrive(
    world: World, runner: Runner, job: dict[str, Any], executor: Caller
) -> None:
    begin_change(executor, job)
    close(world, runner)
    world.up_for_long()
    world.silence(runner)
    executor.call("worker_job", **this(job, p_has_payload=False))
    world.sweep()
    assert world.status(job["id"]) == "PROCESSING"


def test_a_silent_executor_is_out_of_contact_until_its_next_call(
    world: World, runner: Runner, job: dict[str, Any], executor: Caller
) -> None:
    begin_change(executor, job)
    close(world, runner)
    world.lose(runner)
    assert world.job(job["id"])["error"]["code"] == "OUT_OF_CONTACT"
    executor.call("worker_job", **this(job, p_has_payload=False))
    row = world.job(job["id"])
    assert (row["status"], row["error"]) == ("PROCESSING", None)


@pytest.mark.parametrize("take_over", [restart, replace])
def test_the_next_process_adopts_the_attempt_and_its_executor_continues(
    world: World, runner: Runner, job: dict[str, Any], executor: Caller, take_over: Callable[[World, Runner], Runner]
) -> None:
    begin_change(executor, job)
    again = take_over(world, runner)
    listed = [{"job": job["id"], "attempt": 1}]
    assert [each["action"] for each in again.call("worker_recover", p_running=listed)["jobs"]] == ["report"]
    assert again.heartbeat(running=listed)["lost"] == []
    executor.call("worker_finish", **this(job, p_status="SUCCEEDED"))
    assert world.status(job["id"]) == "SUCCEEDED"


def test_before_a_change_an_executor_ends_with_its_session(
    world: World, runner: Runner, job: dict[str, Any], executor: Caller
) -> None:
    executor.call("worker_report", **this(job, p_phase="PLAN"))
    close(world, runner)
    for call in (
        lambda: executor.call("worker_job", **this(job)),
        lambda: executor.call("worker_finish", **this(job, p_status="SUCCEEDED")),
        lambda: renew(world, runner, job),
    ):
        with refused("RY401", "This session has ended"):
            call()


def test_before_a_change_the_executor_continues_with_the_next_process_of_its_machine(
    world: World, runner: Runner, job: dict[str, Any], executor: Caller
) -> None:
    executor.call("worker_report", **this(job, p_phase="PLAN"))
    restart(world, runner)
    assert executor.call("worker_job", **this(job))["has_touched"] is False


def revoke(world: World, org: Organization, runner: Runner) -> None:
    org.owner.call("revoke_worker_token", p_token=runner.token_id)


def remove(world: World, org: Organization, runner: Runner) -> None:
    org.owner.call("remove_worker", p_worker=runner.worker_id)


@pytest.mark.parametrize("end", [revoke, remove])
def test_a_revoked_credential_ends_an_executor_even_in_the_middle_of_a_change(
    world: World, org: Organization, runner: Runner, job: dict[str, Any], executor: Caller, end: Callable[..., None]
) -> None:
    begin_change(executor, job)
    end(world, org, runner)
    for call in (
        lambda: executor.call("worker_job", **this(job)),
        lambda: executor.call("worker_state_put", **this(job, p_body=STATE, p_lock_id="mine")),
        lambda: renew(world, runner, job),
    ):
        with refused("RY401", "This session has ended"):
            call()


def test_an_attempt_that_a_person_released_is_fenced_and_can_hand_over_its_state(
    world: World, org: Organization, runner: Runner, job: dict[str, Any], executor: Caller
) -> None:
    begin_change(executor, job)
    close(world, runner)
    world.lose(runner)
    org.owner.call("resolve_attention", p_job=job["id"], p_action="mark_failed", p_proof="mine")
    with refused("RY410"):
        executor.call("worker_state_put", **this(job, p_body=STATE, p_lock_id="mine"))
    kept = executor.call("worker_state_keep", **this(job, p_number=1, p_body=STATE, p_written_at=None, p_reason="late"))
    assert kept == {"is_stored": False}
    assert len(org.owner.call("kept_states", p_job=job["id"])) == 1
    assert world.status(job["id"]) == "FAILED"


@pytest.mark.parametrize(
    ("claims", "code"),
    [({"job": "0"}, "RY403"), ({"att": "2"}, "RY403"), ({"sid": "00000000-0000-4000-8000-000000000000"}, "RY401")],
)
def test_a_token_of_another_job_attempt_or_session_is_refused(
    world: World, runner: Runner, job: dict[str, Any], executor: Caller, claims: dict[str, str], code: str
) -> None:
    begin_change(executor, job)
    close(world, runner)
    own = {"sub": runner.worker_id, "sid": runner.session_id, "job": str(job["id"]), "att": "1"}
    other = world.caller("executor", **(own | claims))
    with refused(code):
        other.call("worker_state_put", **this(job, p_body=STATE, p_lock_id="mine"))
