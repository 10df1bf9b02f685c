"""The embedded stack's stand-in for pg_cron: time passes without any heartbeat."""

import io
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from cli.launcher.journal import Journal
from cli.launcher.sweeper import Sweeper
from tests.db.world import World
from tests.support.waiting import wait_until

SESSION = """
  select max(pid) from pg_stat_activity where query like '%%private.sweep_in_parts()%%' and pid <> pg_backend_pid()
    and datname = current_database()
"""


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, io.StringIO())


def lose_all(world: World) -> int:
    """A job whose only runner died long ago."""
    org = world.organization()
    runner = org.runner("only", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    runner.claim_one()
    world.up_for_long()
    world.silence(runner)
    return job


def test_a_job_is_requeued_without_any_heartbeat(fresh_world: World, journal: Journal) -> None:
    job = lose_all(fresh_world)
    with closing(Sweeper(fresh_world.database.url, journal)) as sweeper:
        sweeper.poll()
    assert fresh_world.status(job) == "QUEUED"
    assert fresh_world.events(job)[-1] == "lost"
    assert journal.tail("sweep") == ""


def test_a_failing_sweep_is_written_down_once_and_tried_again(fresh_world: World, journal: Journal) -> None:
    job = lose_all(fresh_world)
    owner = fresh_world.owner.connection
    body = owner.execute("select pg_get_functiondef('private.sweep_leases()'::regprocedure)").fetchone()
    assert body is not None
    owner.execute(
        "create or replace function private.sweep_leases() returns integer language plpgsql as 'begin return 1/0; end'"
    )
    with closing(Sweeper(fresh_world.database.url, journal)) as sweeper:
        for _ in range(2):
            sweeper.poll()
        assert journal.tail("sweep").count("division by zero") == 1
        assert fresh_world.service.call("installation_health")["swept_seconds_ago"] is None, "begun is not done"
        owner.execute(body[0])
        sweeper.poll()
    assert fresh_world.status(job) == "QUEUED"
    assert fresh_world.service.call("installation_health")["swept_seconds_ago"] in range(60)


def test_a_database_that_is_away_is_not_fatal(journal: Journal) -> None:
    Sweeper("postgresql://postgres@127.0.0.1:1/postgres", journal).poll()
    assert "trying again" in journal.tail("sweep")


def test_the_sweeper_stays_connected_and_reconnects_when_the_database_ends_its_session(
    fresh_world: World, journal: Journal
) -> None:
    job = lose_all(fresh_world)
    owner = fresh_world.owner
    with closing(Sweeper(fresh_world.database.url, journal)) as sweeper:
        sweeper.poll()
        first = owner.one(SESSION)
        sweeper.poll()
        assert owner.one(SESSION) == first is not None
        owner.connection.execute("select pg_terminate_backend(%s)", [first])
        wait_until(lambda: owner.one(SESSION) is None)
        sweeper.poll()
        assert journal.tail("sweep").count("trying again") == 1
        sweeper.poll()
        assert owner.one(SESSION) not in (None, first)
    assert fresh_world.status(job) == "QUEUED"


def test_another_projects_database_is_left_alone(fresh_world: World, journal: Journal) -> None:
    elsewhere = psycopg.conninfo.make_conninfo(fresh_world.database.url, dbname="postgres")
    with closing(Sweeper(elsewhere, journal)) as sweeper:
        sweeper.poll()
    assert journal.tail("sweep") == ""
