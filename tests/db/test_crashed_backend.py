"""One killed backend makes PostgreSQL empty its UNLOGGED tables, heartbeats among them: no lease ends because of that."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tests.db.test_executors import begin_change, executor_of
from tests.db.world import Caller, Runner, World, this
from tests.support.database import Database, Server, shared_server
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def own_server(run_folder: Path) -> Server:
    """A server whose backends this file may kill."""
    folder = run_folder / "server-with-crashes"
    folder.mkdir(exist_ok=True)
    return shared_server(folder, os.getpid())


@pytest.fixture
def crashing_world(own_server: Server) -> Iterator[World]:
    name = own_server.create_database(own_server.template())
    database = Database(own_server, name)
    yield World.open(database)
    database.close()
    own_server.drop_database(name)


def crash_one_backend(world: World) -> World:
    """Kill an idle backend, wait until the server is back, and connect to the same database again."""
    started_at = world.owner.one("select pg_postmaster_start_time()")
    idle = world.database.connect("postgres")
    os.kill(idle.info.backend_pid, signal.SIGKILL)
    wait_until(lambda: not can_query(world.owner.connection))
    wait_until(lambda: can_connect(world.database.url))
    again = World.open(Database(world.database.server, world.database.name, opened=world.database.opened))
    assert again.owner.one("select pg_postmaster_start_time()") == started_at, "the server itself was not restarted"
    assert again.owner.one("select count(*) from private.heartbeats") == 0
    return again


def can_query(connection: psycopg.Connection) -> bool:
    try:
        connection.execute("select")
    except psycopg.OperationalError:
        return False
    return True


def can_connect(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def reconnect(world: World, runner: Runner) -> Runner:
    claims = {"sub": runner.worker_id, "sid": runner.session_id}
    return replace(runner, connection=world.database.connect("worker", claims))


def test_leases_survive_a_killed_backend(crashing_world: World) -> None:
    world = crashing_world
    org = world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=2)
    plan, apply = org.enqueue("a/b"), org.enqueue("a/c", "APPLY")
    jobs = {job["id"]: job for job in runner.claim(2)}
    begin_change(executor_of(world, runner, jobs[apply]), jobs[apply])
    world.up_for_long()
    # Both were claimed more than a lease ago; only heartbeats keep them.
    world.owner.connection.execute("update private.live_jobs set lease_until = now() - interval '1 minute'")
    world = crash_one_backend(world)
    answer = world.sweep()
    assert not {"lost", "offline"} & answer.keys()
    assert (world.status(plan), world.status(apply)) == ("CLAIMED", "PROCESSING")
    assert world.worker_row(runner.worker_id)["status"] == "ONLINE"
    assert executor_sees(executor_of(world, runner, jobs[plan]), jobs[plan]) > 0
    for job, seconds in ((plan, range(1, 61)), (apply, [900])):
        given = reconnect(world, runner).call("worker_identities", **this(jobs[job]))
        assert given["seconds"] in seconds, "a token is for as long as the lease, which has the grace"
    running = [{"job": job["id"], "attempt": job["attempt"]} for job in jobs.values()]
    assert reconnect(world, runner).heartbeat(running=running)["lost"] == []
    world.up_for_long()
    assert world.sweep()["lost"] == 0
    assert (world.status(plan), world.status(apply)) == ("CLAIMED", "PROCESSING")


def executor_sees(executor: Caller, job: dict[str, int]) -> int:
    """The seconds of its lease that an executor may rely on."""
    return int(executor.call("worker_job", **this(job, p_has_payload=False))["lease_seconds"])


def test_a_runner_that_died_in_the_crash_loses_its_job_after_the_grace(crashing_world: World) -> None:
    org = crashing_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    runner.claim_one()
    crashing_world.owner.connection.execute("update private.live_jobs set lease_until = now() - interval '1 minute'")
    world = crash_one_backend(crashing_world)
    world.sweep()
    assert world.status(job) == "CLAIMED"
    world.up_for_long()
    assert world.sweep()["lost"] == 1
    assert world.status(job) == "QUEUED"
