"""Scheduled jobs and jobs of sets, which let people's jobs pass, do not wait for ever while people keep the runners busy."""

import pytest

from tests.db.world import Organization, Runner, World


@pytest.fixture
def org(fresh_world: World) -> Organization:
    return fresh_world.organization()


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True)


def wait_for(world: World, minutes: int) -> None:
    """As if every queued job had waited so much longer."""
    world.owner.connection.execute(
        "update public.provision_jobs set queued_at = queued_at - make_interval(mins => %s) where status = 'QUEUED'",
        [minutes],
    )
    world.sweep()


def next_job(runner: Runner) -> int:
    job = runner.claim_one()
    runner.finish(job)
    return int(job["id"])


def test_a_job_of_low_priority_has_its_turn_after_ten_minutes(
    fresh_world: World, org: Organization, runner: Runner
) -> None:
    scheduled = org.enqueue("a/scheduled", priority=200)
    people = [org.enqueue(f"a/m{number}") for number in range(4)]
    wait_for(fresh_world, 9)
    assert next_job(runner) == people[0], "people's jobs pass it at first"
    wait_for(fresh_world, 2)
    assert next_job(runner) == scheduled, "it is older than the jobs that wait now"
    assert next_job(runner) == people[1]
    assert fresh_world.job(scheduled)["priority"] == 200, "its row keeps the requested priority"


def test_people_wait_behind_one_old_job_and_not_behind_all(
    fresh_world: World, org: Organization, runner: Runner
) -> None:
    scheduled = [org.enqueue(f"a/s{number}", priority=200) for number in range(5)]
    wait_for(fresh_world, 11)
    urgent = [org.enqueue(f"a/m{number}") for number in range(3)]
    wait_for(fresh_world, 0)
    assert [next_job(runner), next_job(runner)] == [scheduled[0], urgent[0]]
    wait_for(fresh_world, 0)
    assert [next_job(runner), next_job(runner)] == [scheduled[1], urgent[1]]


def test_an_old_job_that_no_runner_can_run_does_not_delay_others(
    fresh_world: World, org: Organization, runner: Runner
) -> None:
    org.enqueue("a/nobody", priority=200, labels=["gpu"])
    scheduled = org.enqueue("a/scheduled", priority=200)
    people = org.enqueue("a/m")
    wait_for(fresh_world, 11)
    assert [next_job(runner), next_job(runner)] == [scheduled, people]
