"""Reads of calls and pages when all tables are large: rows by an index, never a whole table.

The counters of the own transaction are read, not the planner (test_plans.py does that): they see into functions, and count rows read.
`RUNYARD_CROWD=1000000` checks the same with a million queued and a million finished jobs.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.db.bulk import add_finished_jobs, add_modules
from tests.db.world import Caller, Organization, World
from tests.support.database import Database, Server

CROWD_SQL = Path(__file__).parents[2] / "benchmarks" / "database" / "sql" / "crowd.sql"
JOBS = int(os.environ.get("RUNYARD_CROWD", "15000"))
RUNNERS = 500 if JOBS < 100_000 else 5000
MEMBER = "5b0a7a52-0000-4000-8000-000000000001"
# A call has to do with a handful of rows of each table; a whole table is thousands.
FEW = 60
READ = """
select relname, seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_xact_all_tables
where schemaname in ('public', 'private') and seq_tup_read + coalesce(idx_tup_fetch, 0) > 0
union all
-- Rows that an index-only scan reads do not count for the table. (The lists count jobs by status in that way, knowingly.)
select indexrelid::regclass::text, pg_stat_get_xact_tuples_returned(indexrelid) from pg_stat_all_indexes
where schemaname = 'private' and pg_stat_get_xact_tuples_returned(indexrelid) > 0
"""
PAGES = {
    "jobs": "select * from public.provision_jobs where org_id = %(org)s order by id desc limit 50",
    "queued jobs": "select * from public.provision_jobs where org_id = %(org)s and status = 'QUEUED' order by id desc limit 50",
    "jobs that need somebody": (
        "select * from public.provision_jobs where org_id = %(org)s"
        " and status in ('AWAITING_APPROVAL', 'NEEDS_ATTENTION') order by id desc limit 50"
    ),
    "jobs of a module": "select * from public.provision_jobs where module_id = %(module)s order by id desc limit 20",
    "jobs of a runner": "select * from public.provision_jobs where worker_id = %(worker)s order by id desc limit 20",
    "one job": "select * from public.provision_jobs where id = %(job)s",
    "events of a job": "select * from public.job_events where job_id = %(job)s order by id",
    "log from where it was": "select * from public.job_log_chunks where job_id = %(job)s and attempt = 1 and seq > 3 order by seq",
    "events of a runner": "select * from public.worker_events where worker_id = %(worker)s order by id desc limit 20",
}


class Crowd:
    """A full database, one of its runners, one of its members."""

    def __init__(self, world: World) -> None:
        self.world = world
        owner = world.owner.connection
        owner.execute(CROWD_SQL.read_bytes())
        owner.execute("select bench.add_runners(%s, 8), bench.add_modules(200)", [RUNNERS])
        owner.execute("select bench.add_finished(%s), bench.add_ready(%s, 100::smallint, null)", [JOBS, JOBS])
        # Beside the lane where everybody waits, one that is empty.
        owner.execute(
            "insert into private.lanes (org_id, priority, scope, labels) select id, 100, '', '{gpu}' from public.organizations"
        )
        # A history, not an hour of it that is about to be rolled up.
        owner.execute(
            "update public.provision_jobs set finished_at = finished_at - interval '40 days' where finished_at is not null"
        )
        owner.execute("insert into auth.users (id, email) values (%s, 'member@example.org')", [MEMBER])
        owner.execute(
            "insert into public.memberships (org_id, user_id, email, role)"
            " select id, %s, 'member@example.org', 'operator' from public.organizations",
            [MEMBER],
        )
        owner.execute("vacuum analyze")
        sid, self.worker = world.owner.one("select id::text, worker_id::text from private.sessions limit 1")
        self.runner = world.caller("worker", sid=sid, sub=self.worker).connection
        self.member = world.caller("authenticated", sub=MEMBER, email="member@example.org").connection
        answer: Any = self.runner.execute("select public.worker_claim(gen_random_uuid(), 1)").fetchone()
        self.job = answer[0]["jobs"][0]["id"]
        self.values = {
            "org": world.owner.one("select id from public.organizations"),
            "module": world.owner.one("select id from public.modules limit 1"),
            "worker": self.worker,
            "job": self.job,
        }

    def rows_read(self, connection: psycopg.Connection[Any], statement: str) -> Counter[str]:
        return rows_read(connection, statement, self.values)


def rows_read(connection: psycopg.Connection[Any], statement: str, values: dict[str, Any]) -> Counter[str]:
    """Return the number of rows that a statement reads of each table; it is undone afterwards."""
    with connection.transaction(force_rollback=True):
        # The server hands counts on only now and then: those of earlier statements may still be there.
        before = Counter(dict(connection.execute(READ.encode()).fetchall()))
        connection.execute(statement.encode(), values)
        return Counter(dict(connection.execute(READ.encode()).fetchall())) - before


@pytest.fixture(scope="module")
def crowd(postgres_server: Server, module_database: str) -> Iterator[Crowd]:
    database = Database(postgres_server, module_database)
    yield Crowd(World.open(database))
    database.close()


def jobs_of(read: Counter[str]) -> dict[str, int]:
    """Return the rows that were read of jobs, by table and by index."""
    return {name: rows for name, rows in read.items() if "job" in name}


def few(read: Counter[str]) -> bool:
    return max(read.values(), default=0) <= FEW


@pytest.mark.parametrize(
    "call",
    [
        "public.worker_claim(gen_random_uuid(), 5)",
        "public.worker_heartbeat('ONLINE', '1.0.0')",
        "public.worker_report(%(job)s, 1, 'PLAN')",
        """public.worker_append_logs(%(job)s, 1, '[{"seq": 1, "step": "plan", "body": "line"}]')""",
        "public.worker_finish(%(job)s, 1, 'SUCCEEDED')",
    ],
    ids=lambda call: call.split("(")[0].removeprefix("public."),
)
def test_a_runners_call_reads_a_handful_of_rows(crowd: Crowd, call: str) -> None:
    read = crowd.rows_read(crowd.runner, f"select {call}")
    assert read, "the call must have read something, or this shows nothing"
    # A claim that leaves jobs rings forty runners at most.
    assert max(read.values()) <= (3 if "claim" in call else 1) * FEW, read


def test_the_sweep_reads_no_history(crowd: Crowd) -> None:
    """With all of its housekeeping; it may look at every runner, but not at jobs for which nothing is due."""
    crowd.world.up_for_long()
    read = crowd.rows_read(
        crowd.world.owner.connection, "select private.sweep(), private.delete_old_logs(), private.roll_up()"
    )
    assert read["workers"], "the sweep must have looked at runners, or this shows nothing"
    assert max(jobs_of(read).values(), default=0) <= FEW, read


def test_a_runner_is_welcome_beside_a_long_queue(crowd: Crowd) -> None:
    """Its lanes are written down; the jobs that wait are not looked at, because none of them belongs to another lane now."""
    read = crowd.rows_read(crowd.world.owner.connection, "select private.reroute(%(org)s, %(worker)s)")
    assert read["lane_workers"], "the runner's lanes must have been written again, or this shows nothing"
    assert max(jobs_of(read).values(), default=0) <= FEW, read


def test_waking_everybody_reads_one_job_of_each_lane(crowd: Crowd) -> None:
    """When maintenance ends, with a long queue in one lane and none in another."""
    read = crowd.rows_read(crowd.world.owner.connection, "select private.wake_lanes(%(org)s)")
    assert read["lanes"], "lanes must have been read, or this shows nothing"
    assert max(jobs_of(read).values(), default=0) <= FEW, read


@pytest.mark.parametrize("modules", [1, 100])
def test_enqueueing_reads_the_modules_that_it_names(crowd: Crowd, modules: int) -> None:
    """Each job and each module by its number, under plans that are kept: a join with modules reads all of the organisation's.

    Seen red with `join public.modules as m on m.id = p.id`. That `= any (…)` compares each row with each number is not seen here: it reads
    the same rows.
    """
    of_some = f"array(select id from public.modules order by id limit {modules})"
    read = crowd.rows_read(crowd.member, f"select public.enqueue_jobs(%(org)s, 'PLAN', {of_some})")
    assert read["modules"] >= modules, "the modules must have been read, or this shows nothing"
    # The first of its kind makes a lane, which looks at every runner.
    assert max(read["modules"], *jobs_of(read).values()) <= FEW + 10 * modules, read


def test_enqueueing_reads_by_numbers_under_plans_that_were_made_for_empty_tables(fresh_world: World) -> None:
    """A session keeps its plans until the tables are analysed again, which is a minute or a thousand jobs later."""
    org = fresh_world.organization()
    modules = [org.module(f"young/m{number}") for number in range(60)]
    fresh_world.owner.connection.execute("vacuum analyze")
    for module in modules[:8]:
        org.owner.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=module)
    values = {"org": org.id, "modules": modules}
    read = rows_read(
        org.owner.connection, "select public.enqueue_jobs(%(org)s, 'PLAN', %(modules)s::text[]::uuid[])", values
    )
    assert read["provision_jobs"] >= len(modules), "the jobs must have been read, or this shows nothing"
    assert max(jobs_of(read).values()) <= FEW + 10 * len(modules), read


@pytest.mark.parametrize("page", PAGES)
def test_a_page_reads_few_rows(crowd: Crowd, page: str) -> None:
    read = crowd.rows_read(crowd.member, PAGES[page])
    assert few(read), read


@pytest.mark.parametrize("filters", ["{}", '{"kind": ["job"], "since": "2000-01-01"}'])
def test_a_page_of_events_reads_a_page_of_events(crowd: Crowd, filters: str) -> None:
    """However many there are: by the index of their time, and no further than the page."""
    read = crowd.rows_read(crowd.member, f"select public.list_events(%(org)s, null, '{filters}')")
    assert 0 < read["job_events"] <= 2 * FEW, read
    assert read["worker_events"] <= 2 * FEW, read
    assert read["provision_jobs"] <= FEW, read
    assert read["workers"] <= FEW, read


@pytest.mark.parametrize(
    ("call", "table"),
    [
        ("fleet_overview(%(org)s, array[%(worker)s::uuid])", "workers"),
        ("list_runners(%(org)s)", "workers"),
        ("list_jobs(%(org)s)", "provision_jobs"),
        ("""list_jobs(%(org)s, null, '{"status": ["QUEUED"]}', 'newest', 50, 0, 5000)""", "provision_jobs"),
        ("""list_jobs(%(org)s, 'm17', '{"status": ["CLAIMED"]}')""", "provision_jobs"),
        ("list_modules(%(org)s)", "modules"),
    ],
)
def test_a_list_reads_only_its_page_of_large_tables(crowd: Crowd, call: str, table: str) -> None:
    """Counts come from an index; every runner or module may be read to be found, but details only of those shown."""
    crowd.world.owner.connection.execute("vacuum public.provision_jobs")
    read = crowd.rows_read(crowd.member, f"select public.{call}")
    assert read[table], "the call must have read something, or this shows nothing"
    shown = {
        "worker_instances": FEW,
        "heartbeats": FEW,
        "job_events": 0,
        "provision_jobs": 8 * FEW if "'m17'" not in call else JOBS // 2,
    }
    if "fleet_overview" in call:
        # Its counts add up the slots of all processes; that is one row of each, not five.
        shown |= {"worker_instances": 2 * RUNNERS + FEW, "heartbeats": 2 * RUNNERS + FEW}
    if "list_runners" in call:
        # The processes of those shown: for their status, for their faults, and for themselves.
        shown |= {"worker_instances": 4 * FEW, "heartbeats": 4 * FEW}
    assert {name: rows for name, rows in read.items() if rows > shown.get(name, 10 * RUNNERS)} == {}, read


def test_an_explanation_reads_no_other_job(crowd: Crowd) -> None:
    queued = crowd.world.owner.one(
        "select job_id from private.live_jobs where stage = 'READY' order by ready_seq limit 1"
    )
    read = crowd.rows_read(crowd.member, f"select public.explain_queue({queued})")
    assert read["workers"], "the explanation must have looked at runners, or this shows nothing"
    assert read["provision_jobs"] <= FEW, read


def test_statistics_read_closed_hours_not_jobs(crowd: Crowd) -> None:
    read = crowd.rows_read(crowd.member, "select public.fleet_stats(%(org)s, 168)")
    assert read["worker_ticks"] + read["provision_jobs"] <= FEW, read


def test_a_whole_table_would_be_noticed(crowd: Crowd) -> None:
    read = crowd.rows_read(crowd.member, "select count(priority) from public.provision_jobs where priority = 7")
    assert read["provision_jobs"] >= 2 * JOBS


def add_chains(world: World, org: Organization, count: int) -> None:
    """So many modules in chains of ten, of which nothing has statistics but that there were none."""
    world.owner.connection.execute("vacuum analyze")
    add_modules(world, org, count)
    world.owner.connection.execute(
        """insert into public.module_dependencies (consumer_id, producer_id, org_id, created_by_label)
          select c.id, p.id, %(org)s, 'x' from generate_series(1, %(count)s) as i
          join public.modules as c on c.org_id = %(org)s and c.name = 'm' || i
          join public.modules as p on p.org_id = %(org)s and p.name = 'm' || (i - 1) where i %% 10 <> 1""",
        {"org": org.id, "count": count},
    )


def start_other_set(world: World, org: Organization) -> None:
    org.owner.call("start_set", p_org=org.id, p_type="DRIFT", p_path="bulk")


def start_half_a_set(world: World, org: Organization) -> None:
    start_other_set(world, org)
    world.owner.connection.execute("delete from private.set_members where module_id::text < '8'")


def undo_a_set(world: World, org: Organization) -> None:
    """Pages without a row: of whatever is written later, the planner expects one row."""
    with org.owner.connection.transaction(force_rollback=True):
        start_other_set(world, org)


@pytest.mark.parametrize("leave", [None, undo_a_set, start_half_a_set, start_other_set])
def test_an_ordered_set_is_read_once_by_each_call_whatever_statistics_know(
    fresh_world: World, leave: Callable[[World, Organization], None] | None
) -> None:
    """A join by the set alone would read all members for every member, or settle the set for every job that is cancelled."""
    # So many that their tables are more than a few pages: those are read whole.
    org, modules = fresh_world.organization(), 1200
    runner = org.runner("any", is_assigned_to_all_modules=True)
    add_chains(fresh_world, org, modules)
    if leave:
        add_finished_jobs(fresh_world, org, 200)
        leave(fresh_world, org)
        fresh_world.owner.connection.execute("analyze")
    of_all = 30 * modules

    def check(caller: Caller, call: str, limit: int) -> None:
        read = rows_read(caller.connection, f"select {call}", {})
        assert read, "the call must have read something, or this shows nothing"
        assert max(read.values()) <= limit, (call, read)

    start = {"p_org": org.id, "p_type": "PLAN", "p_path": "bulk"}
    check(org.owner, f"public.start_set('{org.id}', 'PLAN', 'bulk')", of_all)
    made = org.owner.call("start_set", **start)["id"]
    check(runner, "public.worker_claim(gen_random_uuid(), 1)", 3 * FEW)
    job = runner.claim_one()
    check(runner, f"public.worker_finish({job['id']}, 1, 'SUCCEEDED')", of_all)
    runner.finish(job)
    for call in ("set_progress", "set_review", "explain_set", "cancel_set"):
        check(org.owner, f"public.{call}('{made}')".replace("set_review(", f"set_review('{org.id}', "), of_all)
    check(fresh_world.owner, "private.sweep_sets()", of_all)


@pytest.fixture
def long_history(fresh_world: World) -> Organization:
    """An organisation with thousands of jobs that vacuum has not seen, most of one status and type."""
    org = fresh_world.organization()
    add_modules(fresh_world, org, 1)
    add_finished_jobs(fresh_world, org, 6000)
    owner = fresh_world.owner.connection
    owner.execute("alter table public.provision_jobs set (autovacuum_enabled = off)")
    owner.execute("update public.provision_jobs set priority = 50 where id % 5 = 0")
    owner.execute("analyze")
    return org


@pytest.mark.parametrize("filters", ["{}", '{"status": ["FAILED"]}'])
def test_the_jobs_page_counts_each_job_once_while_vacuum_is_behind(long_history: Organization, filters: str) -> None:
    """Its counts read each job once; a page of each of 8 statuses × 11 types reads those of that status and type."""
    call = f"select public.list_jobs(%(org)s, null, '{filters}')"
    read = rows_read(long_history.owner.connection, call, {"org": long_history.id})
    assert 6000 <= read["provision_jobs"] <= 10_000, read


def test_the_page_of_an_apply_reads_nothing_of_its_modules_history(long_history: Organization) -> None:
    owner = long_history.world.owner
    owner.connection.execute("update public.provision_jobs set type = 'APPLY' where number % 2 = 0")
    number = owner.one("select number from public.provision_jobs where type = 'APPLY' order by id limit 1")
    call = f"select public.job_page(%(org)s, {number})"
    read = rows_read(long_history.owner.connection, call, {"org": long_history.id})
    assert 0 < read["provision_jobs"] <= FEW, read


def test_when_a_plan_was_discarded_is_read_from_its_own_events(long_history: Organization) -> None:
    owner = long_history.world.owner
    owner.connection.execute(
        "insert into public.job_events (org_id, job_id, event, actor_kind, actor_label)"
        " select org_id, id, 'rejected', 'system', 'system' from public.provision_jobs"
    )
    owner.connection.execute("analyze")
    plan = owner.one("select min(id) from public.provision_jobs")
    read = rows_read(owner.connection, f"select private.discarded_at({plan})", {})
    assert 0 < read["job_events"] <= FEW, read
