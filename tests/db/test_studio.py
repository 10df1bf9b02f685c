"""SQL from the docs for an operator in Studio's SQL editor runs as it is written there, and returns rows."""

import re
from collections.abc import Iterator

import psycopg
import pytest

from stack.migrations import migrate
from stack.settings import PROJECT
from tests.db.world import World
from tests.support.database import Database, Server

PAGES = ("database.md", "scale-to-zero.md")
QUERIES = [
    query
    for page in PAGES
    for query in re.findall(r"```sql\n(.+?)```", (PROJECT / "docs" / page).read_text(), re.DOTALL)
]
# The job that the queries of the pages name.
NUMBER = "4828"


@pytest.fixture(scope="module")
def studio(postgres_server: Server, module_database: str) -> Iterator[tuple[World, int]]:
    """A project in use, and a job that waits: something of everything that the queries read."""
    database = Database(postgres_server, module_database)
    world = World.open(database)
    org = world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=2)
    org.enqueue("a/failed")
    runner.finish(runner.claim_one(), "FAILED", p_error={"code": "engine_failed", "message": "No."})
    org.enqueue("a/locked", "APPLY")
    job = runner.claim_one()
    runner.call("worker_state_lock", p_job=job["id"], p_attempt=1, p_lock={"ID": "x"})
    world.owner.connection.execute(
        "insert into public.scaling_decisions (org_id, worker_id, from_count, to_count, reason, dry_run)"
        " values (%s, %s, 0, 1, 'A job waits', true)",
        [org.id, runner.worker_id],
    )
    waiting = org.enqueue("a/waiting")
    with psycopg.connect(database.url) as open_one:
        open_one.execute("select 1")
        yield world, waiting
    database.close()


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.splitlines()[0][:60])
def test_a_query_of_the_docs_runs_as_it_is_written(studio: tuple[World, int], query: str) -> None:
    world, job = studio
    assert world.owner.connection.execute(query.replace(NUMBER, str(job)).encode()).fetchall()


def test_the_pages_have_queries() -> None:
    assert len(QUERIES) > 8


def test_the_sweep_is_scheduled_where_pg_cron_is(bare_database: Database) -> None:
    """No pg_cron exists here: a row in the catalogue and a function that records its call replace it."""
    admin = bare_database.connect("supabase_admin")
    admin.execute(
        "create schema cron; grant usage on schema cron to postgres; "
        "create table cron.job (name text primary key, schedule text, command text)"
    )
    admin.execute(
        "create function cron.schedule(text, text, text) returns bigint language sql security definer"
        " as 'insert into cron.job values ($1, $2, $3) on conflict (name) do update set command = excluded.command returning 1::bigint'"
    )
    admin.execute("set allow_system_table_mods = on")
    admin.execute(
        "insert into pg_catalog.pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)"
        " values (99999, 'pg_cron', 10, 'cron'::regnamespace, false, '1.6')"
    )
    migrate(bare_database.url, PROJECT / "supabase")
    assert admin.execute("select * from cron.job").fetchall() == [
        ("runyard-sweep", "10 seconds", "call private.sweep_in_parts()")
    ]
