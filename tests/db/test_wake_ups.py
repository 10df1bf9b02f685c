"""The processes that a job wakes: a few processes that would be given it now, and others where these were full."""

import pytest

from tests.db.test_enqueue_many import enqueue_many
from tests.db.world import Organization, Runner, World


def woken(world: World) -> list[str]:
    """The processes that were woken since the last look; the next ring has not to wait for this one."""
    world.owner.connection.execute("delete from private.wake_ups")
    return world.owner.rows("delete from realtime.messages where event = 'wake' returning payload ->> 'instance'")


def fleet(org: Organization, count: int, **options: object) -> list[Runner]:
    return [org.runner(f"r{number}", is_assigned_to_all_modules=True, **options) for number in range(count)]


def test_one_job_rings_one_runner_and_another_in_case_it_is_gone(world: World, org: Organization) -> None:
    everybody = {runner.instance_id for runner in fleet(org, 8)}
    seen = set()
    for number in range(12):
        org.enqueue(f"a/m{number}")
        found = woken(world)
        assert len(set(found)) == len(found) == 2
        seen |= {*found}
    assert seen <= everybody
    # A random place to begin at: not the same two for ever.
    assert len(seen) > 3


def test_many_jobs_ring_as_many_slots_and_one_process_more(world: World, org: Organization) -> None:
    fleet(org, 8, capacity=4)
    enqueue_many(org.owner, org, [org.module(f"a/m{number}") for number in range(10)])
    assert len(woken(world)) == 4


def test_only_those_that_would_be_given_the_job_are_rung(world: World, org: Organization) -> None:
    org.module("a/first")
    full, near, silent, leaving, degraded = (org.runner(name, assignments=["a"]) for name in "abcde")
    org.runner("far", is_assigned_to_all_modules=True)
    org.enqueue("a/first")
    full.claim_one()
    world.silence(silent)
    leaving.heartbeat("DRAINING")
    degraded.heartbeat(p_facts={"degraded": {"reason": "disk full"}})
    woken(world)
    org.enqueue("a/second")
    assert woken(world) == [near.instance_id]


def test_a_shared_runner_is_rung_for_what_it_could_run(fresh_world: World) -> None:
    org = fresh_world.organization()
    shared = fresh_world.connect_runner(fresh_world.shared_worker())
    org.enqueue("a/c", labels=["gpu"])
    assert woken(fresh_world) == []
    org.enqueue("a/b")
    assert woken(fresh_world) == [shared.instance_id]


@pytest.mark.parametrize(("jobs", "expected"), [(1, 0), (2, 1)])
def test_a_runner_that_is_full_rings_on_for_what_is_left(
    world: World, org: Organization, jobs: int, expected: int
) -> None:
    for number in range(jobs):
        org.enqueue(f"a/m{number}")
    first, second = fleet(org, 2)
    woken(world)
    first.claim_one()
    assert woken(world) == [second.instance_id] * expected


def test_a_job_is_not_lost_with_those_that_were_rung(world: World, org: Organization) -> None:
    herd = fleet(org, 5)
    job = org.enqueue("a/b")
    asked = woken(world)
    [other, *_] = [runner for runner in herd if runner.instance_id not in asked]
    # The woken ones have ended, and look alive for a minute: the next heartbeat of anybody finds the job.
    assert other.heartbeat()["has_work"] is True
    assert other.claim_one()["id"] == job
