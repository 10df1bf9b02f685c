"""Floors: claims step over what a held snapshot keeps from being removed, and never over a job that lives."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.db.world import Organization, Runner, World
from tests.support.waiting import wait_until


def raise_floors(world: World, runner: Runner) -> int:
    """What one claim in fifty does; twice, because the first time only leaves a mark."""
    for _ in range(2):
        world.owner.connection.execute(
            "select private.raise_floors(%s, private.open_lanes(%s, %s))",
            [runner.instance_id, runner.worker_id, runner.instance],
        )
    return int(world.owner.one("select coalesce(max(floor), 0) from private.lane_floors"))


def work_off(runner: Runner, count: int) -> None:
    """Claim and finish so many jobs, or as many as there are."""
    for _ in range(count):
        for job in runner.claim():
            runner.finish(job)


@pytest.fixture
def site(fresh_world: World) -> tuple[World, Organization, Runner]:
    org = fresh_world.organization()
    for number in range(10):
        org.module(f"a/m{number}")
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=5)
    org.enqueue("a/m0")
    work_off(runner, 1)
    return fresh_world, org, runner


def test_a_floor_is_raised_over_the_dead_while_a_snapshot_is_held(site: tuple[World, Organization, Runner]) -> None:
    world, org, runner = site
    with psycopg.connect(world.database.url) as idle:
        idle.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        idle.execute("select count(*) from private.live_jobs")
        for number in range(200):
            org.enqueue(f"a/m{number % 10}")
        work_off(runner, 190)
        # A transaction of another test's database may hold the horizon back for a while.
        wait_until(lambda: raise_floors(world, runner) > 100)
        lane, floor = world.owner.one("select lane_id, max(floor) from private.lane_floors group by 1")
        first = world.owner.one("select min(ready_seq) from private.live_jobs where lane_id = %s", lane)
        assert 100 < floor < first
        assert world.owner.one("select max(floor) from private.instance_floors") > 100
        work_off(runner, 20)
        assert world.owner.one("select count(*) from public.provision_jobs where status <> 'SUCCEEDED'") == 0


def test_a_floor_waits_for_a_writer_that_took_an_earlier_number(site: tuple[World, Organization, Runner]) -> None:
    """A job whose transaction commits late has a number below many that are gone: it must still be found."""
    world, org, runner = site
    slow = world.database.connect("authenticated", {"sub": org.owner.id, "email": org.owner.email})
    slow.autocommit = False
    slow.execute("select public.enqueue_job(%s, 'PLAN', %s)", [org.id, org.modules["a/m0"]])
    for number in range(150):
        org.enqueue(f"a/m{1 + number % 9}")
        runner.finish(runner.claim_one())
    org.enqueue("a/m1")
    raise_floors(world, runner)
    slow.commit()
    raise_floors(world, runner)
    assert len(runner.claim(5)) == 2


def test_a_job_that_changes_lanes_is_found_below_the_floor_of_the_next(
    site: tuple[World, Organization, Runner],
) -> None:
    """It keeps its place in the order, and that may be far below a floor that was raised without it."""
    world, org, runner = site
    nearer = org.runner("nearer")
    org.module("z/late")
    org.owner.call("assign_worker", p_worker=nearer.worker_id, p_path="z")
    job = org.enqueue("z/late")
    place = world.owner.one("select ready_seq from private.live_jobs where job_id = %s", job)
    for number in range(120):
        org.enqueue(f"a/m{number % 10}")
    work_off(runner, 115)
    wait_until(lambda: raise_floors(world, runner) > place)
    org.owner.call("unassign_worker", p_worker=nearer.worker_id, p_path="z")
    work_off(runner, 20)
    assert world.status(job) == "SUCCEEDED"


def test_no_floor_is_raised_while_jobs_change_lanes(site: tuple[World, Organization, Runner]) -> None:
    world, org, runner = site
    for number in range(120):
        org.enqueue(f"a/m{number % 10}")
    work_off(runner, 115)
    wait_until(lambda: raise_floors(world, runner) > 0)
    world.owner.connection.execute("delete from private.lane_floors")
    mover = world.database.connect("postgres")
    with mover.transaction(force_rollback=True):
        mover.execute("select private.lock_routing(%s, true)", [org.id])
        assert raise_floors(world, runner) == 0
    wait_until(lambda: raise_floors(world, runner) > 0)


def test_floors_raised_beside_many_writers_lose_no_job(site: tuple[World, Organization, Runner]) -> None:
    world, org, runner = site
    people = [org.member("operator") for _ in range(4)]
    is_done = threading.Event()

    def write(number: int) -> None:
        for turn in range(60):
            module = org.modules[f"a/m{(number * 60 + turn) % 10}"]
            people[number].call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=module)

    def lift() -> None:
        while not is_done.is_set():
            raise_floors(world, runner)

    def drain() -> None:
        while not is_done.is_set():
            work_off(runner, 20)

    with ThreadPoolExecutor(6) as pool:
        others = [pool.submit(lift), pool.submit(drain)]
        for writer in [pool.submit(write, number) for number in range(4)]:
            writer.result()
        is_done.set()
        for other in others:
            other.result()
    raise_floors(world, runner)
    work_off(runner, 300)
    assert world.owner.rows("select status::text, count(*) from public.provision_jobs group by 1") == [
        ("SUCCEEDED", 241)
    ]


def test_who_raises_floors_never_waits_for_another(site: tuple[World, Organization, Runner]) -> None:
    """Two that raise the floors of several lanes in the same moment would wait for each other for ever."""
    world, org, runner = site
    for number in range(70):
        org.enqueue(f"a/m{number % 10}")
    work_off(runner, 60)
    lift = "select private.raise_floors(%s, private.open_lanes(%s, %s))"
    who = [runner.instance_id, runner.worker_id, runner.instance]
    world.owner.connection.execute(lift, who)

    def has_raised(connection: psycopg.Connection) -> bool:
        connection.rollback()
        connection.execute(lift, who)
        return connection.execute("select count(*) from private.lane_floors").fetchone() != (0,)

    with psycopg.connect(world.database.url) as first, psycopg.connect(world.database.url) as second:
        wait_until(lambda: has_raised(first))
        second.execute("set lock_timeout = '1s'")
        second.execute(lift, who)


def test_old_floors_are_swept_away(site: tuple[World, Organization, Runner]) -> None:
    world, _, _ = site
    world.owner.connection.execute("insert into private.lane_floors select 1, n from generate_series(1, 5) as n")
    world.owner.connection.execute("delete from private.clocks")
    world.sweep()
    assert world.owner.rows("select floor from private.lane_floors where lane_id = 1") == [5]
