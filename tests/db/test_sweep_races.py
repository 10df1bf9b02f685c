"""Changes between the sweep's reading and its acting: here it is stopped in between, and the change is made."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from tests.db.world import Caller, Organization, Runner, World
from tests.support.waiting import wait_until

GATE = 4711
WAITING = "select count(*) from pg_locks where locktype = 'advisory' and objid = %s and not granted"


@pytest.fixture
def site(fresh_world: World) -> tuple[World, Organization, list[Runner]]:
    """Two runners with a job each, and one that is free."""
    fresh_world.up_for_long()
    org = fresh_world.organization()
    runners = [org.runner(f"r{number}", is_assigned_to_all_modules=True) for number in range(3)]
    for runner, module in zip(runners, ("a/one", "a/two"), strict=False):
        org.enqueue(module, pinned_worker_id=runner.worker_id)
        runner.claim_one()
    return fresh_world, org, runners


@contextmanager
def stopped_sweep(world: World, part: str, at: str) -> Iterator[Callable[[], int]]:
    """A part of the sweep that stops when it has done with its first job, until the body requests its count.

    The function that it calls then is given a gate which only the sweeping connection waits at.
    """
    name, arguments = at.split(":")
    given = ", ".join(f"${number}" for number, _ in enumerate(arguments.split(", "), 1))
    owner = world.owner.connection
    owner.execute(f"alter function private.{name}({arguments}) rename to {name}_as_it_is")  # type: ignore[arg-type]
    returns = world.owner.one("select prorettype::regtype::text from pg_proc where proname = %s", f"{name}_as_it_is")
    owner.execute(
        f"create function private.{name}({arguments}) returns {returns} language plpgsql set search_path = '' as $$ begin"  # type: ignore[arg-type]
        f" if current_setting('test.stops', true) = 'on' then perform pg_advisory_xact_lock({GATE}); end if;"
        f" {'perform' if returns == 'void' else 'return'} private.{name}_as_it_is({given}); end $$"
    )
    with (
        psycopg.connect(world.database.url) as gate,
        psycopg.connect(world.database.url, autocommit=True) as sweeper,
        ThreadPoolExecutor(1) as pool,
    ):
        gate.execute("select pg_advisory_lock(%s)", [GATE])
        sweeper.execute("set test.stops = 'on'")
        swept = pool.submit(lambda: Caller(sweeper).one(f"select private.{part}()"))

        def go_on() -> int:
            gate.execute("select pg_advisory_unlock(%s)", [GATE])
            return int(swept.result())

        try:
            wait_until(lambda: world.owner.one(WAITING, GATE) == 1)
            yield go_on
        finally:
            gate.execute("select pg_advisory_unlock_all()")


def test_a_job_whose_pause_ended_stays_waiting_if_an_urgent_one_has_its_place(
    site: tuple[World, Organization, list[Runner]],
) -> None:
    world, org, runners = site
    for runner in runners[:2]:
        world.silence(runner)
    world.sweep()
    world.owner.connection.execute("update private.live_jobs set not_before_at = now() - interval '1 s' / job_id")
    first, second = world.owner.rows("select job_id from private.live_jobs order by not_before_at")
    with stopped_sweep(world, "sweep_backoff", "wake_lane:integer, integer") as go_on:
        urgent = org.enqueue("a/two", priority=1)
        assert go_on() == 1
    stages = dict(world.owner.rows("select job_id, stage::text from private.live_jobs"))
    assert stages == {first: "READY", second: "WAITING", urgent: "READY"}


def test_an_attempt_is_not_lost_that_another_runner_has_begun(site: tuple[World, Organization, list[Runner]]) -> None:
    """The first of two silent runners loses its job; the second returns its own meanwhile, and somebody else claims that."""
    world, _, runners = site
    world.owner.connection.execute("update public.provision_jobs set pinned_worker_id = null")
    for runner in runners[:2]:
        world.silence(runner)
    with stopped_sweep(world, "sweep_leases", "end_lost:private.live_jobs, text") as go_on:
        rows = world.owner.rows("select job_id, session_id::text from private.live_jobs order by state_key")
        (_, (job, session)) = rows
        giver = next(runner for runner in runners if runner.session_id == session)
        giver.call("worker_return_job", p_job=job, p_attempt=1)
        assert runners[2].claim_one()["id"] == job
        assert go_on() == 1
    assert (world.status(job), world.job(job)["attempt"]) == ("CLAIMED", 2)
    assert world.events(job) == ["enqueued", "claimed", "returned", "claimed"]
