"""A heartbeat must not outlive the end of its session, no matter who comes first."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tests.db.world import Caller, Organization, Runner, World, refused


def revoke(org: Organization, runner: Runner) -> None:
    org.owner.call("revoke_worker_token", p_token=runner.token_id)


def remove(org: Organization, runner: Runner) -> None:
    org.owner.call("remove_worker", p_worker=runner.worker_id)


def take_over(org: Organization, runner: Runner) -> None:
    org.world.service.call(
        "open_worker_session",
        p_worker=runner.worker_id,
        p_instance=runner.instance,
        p_boot_id=runner.boot_id,
        p_token=runner.token_id,
    )


ENDS: dict[str, Callable[[Organization, Runner], None]] = {
    "revoked": revoke,
    "removed": remove,
    "taken over": take_over,
}


def heartbeat_during(change: Callable[[], Any], world: World, by: Caller, runner: Runner, **news: Any) -> Future[Any]:
    """A heartbeat that comes before the change is committed, and waits for that."""
    return world.during(by, change, lambda: runner.heartbeat(**news))


NEWS: dict[str, dict[str, Any]] = {"facts": {"p_facts": {"disk": 1}}, "draining": {"status": "DRAINING"}}


@pytest.mark.parametrize("news", NEWS)
@pytest.mark.parametrize("end", ENDS)
def test_a_heartbeat_that_waited_for_the_end_of_its_session_does_not_revive_it(
    world: World, org: Organization, end: str, news: str
) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    ender = org.world.service if end == "taken over" else org.owner
    heartbeat = heartbeat_during(lambda: ENDS[end](org, runner), world, ender, runner, **NEWS[news])
    with refused("RY401"):
        heartbeat.result()
    for call in (runner.heartbeat, runner.claim):
        with refused("RY401"):
            call()


def test_a_process_that_waited_for_its_successor_does_not_close_the_successors_session(
    world: World, org: Organization
) -> None:
    runner = org.runner("r1")
    closed = world.during(world.service, lambda: take_over(org, runner), lambda: runner.call("worker_close_session"))
    with refused("RY401"):
        closed.result()
    query = "select count(*) from private.sessions where instance_id = %s and ended_at is null"
    assert world.owner.one(query, runner.instance_id) == 1


def forget_heartbeats(world: World) -> None:
    """As after a crash, which empties UNLOGGED tables."""
    world.owner.connection.execute("delete from private.heartbeats")


@pytest.mark.parametrize("end", ["revoked", "removed"])
def test_the_first_heartbeat_after_a_crash_does_not_outlive_the_end_of_its_session(
    fresh_world: World, end: str
) -> None:
    world, org = fresh_world, fresh_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    forget_heartbeats(world)
    heartbeat_during(lambda: ENDS[end](org, runner), world, org.owner, runner)
    for call in (runner.heartbeat, runner.claim):
        with refused("RY401"):
            call()


def test_the_first_heartbeat_after_a_crash_does_not_miss_a_change(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    forget_heartbeats(world)
    heartbeat_during(
        lambda: org.owner.call("set_worker_disabled", p_worker=runner.worker_id, p_disabled=True),
        world, org.owner, runner,
    ).result()  # fmt: skip
    assert runner.claim() == []
    assert runner.heartbeat()["worker"]["is_disabled"]


def test_a_session_that_is_deleted_by_hand_is_over_at_once(world: World, org: Organization) -> None:
    runner = org.runner("r1")
    world.owner.connection.execute("delete from private.sessions where id = %s", [runner.session_id])
    for call in (runner.heartbeat, runner.claim):
        with refused("RY401"):
            call()


def test_an_executor_is_answered_before_its_runner_s_heartbeat_after_a_crash(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    job = runner.claim_one()
    forget_heartbeats(world)
    claims = {"sid": runner.session_id, "job": job["id"], "att": job["attempt"]}
    executor = world.caller("executor", **claims)
    for has_payload in (True, False):
        seen = executor.call("worker_job", p_job=job["id"], p_attempt=job["attempt"], p_has_payload=has_payload)
        assert seen["cancel_kind"] is None
        assert 0 <= seen["lease_seconds"] <= 60
    assert runner.claim() == [], "nobody who has sent no heartbeat gets a job"
    assert runner.finish(job)["status"] == "SUCCEEDED"
