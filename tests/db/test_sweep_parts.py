"""The sweep in parts: each is a transaction of its own, one that fails stops no other, and a full batch is repeated."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg

from tests.db.bulk import add_finished_jobs, add_modules
from tests.db.test_rows_read import rows_read
from tests.db.world import Organization, World
from tests.support.waiting import wait_until

# A part waits for no lock for longer than 100 ms, but for this one.
STOP = """
create or replace function private.forget_lanes() returns integer language plpgsql set lock_timeout = 0 as $$
begin
  perform pg_advisory_xact_lock(4711);
  return 0;
end;
$$
"""


@contextmanager
def stopped_in_housekeeping(world: World) -> Iterator[None]:
    """A sweep that stops after all its parts but the last two, until the body ends."""
    world.owner.connection.execute(STOP.encode())
    with (
        psycopg.connect(world.database.url, autocommit=True) as gate,
        psycopg.connect(world.database.url, autocommit=True) as sweeper,
        ThreadPoolExecutor(1) as pool,
    ):
        gate.execute("select pg_advisory_lock(4711)")
        swept = pool.submit(sweeper.execute, "call private.sweep_in_parts()")
        try:
            wait_until(world.is_anybody_waiting)
            yield
        finally:
            gate.execute("select pg_advisory_unlock(4711)")
        assert "failed" not in swept.result().fetchone()[0]  # type: ignore[index]


def test_nobody_waits_for_a_part_that_is_over(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    gone, runner = (org.runner(name, is_assigned_to_all_modules=True) for name in ("gone", "here"))
    lost = org.enqueue("a/lost")
    gone.claim_one()
    org.enqueue("a/log")
    job = runner.claim_one()
    world.owner.connection.execute("select private.ensure_log_partition(private.utc_day() - 100)")
    world.up_for_long()
    world.silence(gone)
    for session in (runner, org.owner):
        session.connection.execute("set lock_timeout = '1s'")
    with stopped_in_housekeeping(world):
        assert world.status(lost) == "QUEUED"
        runner.append(job, (1, "a line\n"))
        assert org.owner.rows("select body from public.job_log_chunks") == ["a line\n"]
        org.owner.call("cancel_job", p_job=lost)
    assert world.owner.one("select count(*) from private.log_days() as d where d < private.utc_day()") == 0


def test_old_days_are_dropped_last(fresh_world: World) -> None:
    """The lock on all logs is held for the shortest time even when all parts are one transaction."""
    assert fresh_world.owner.one("select private.begin_sweep()")[-1] == "dropped_log_days"


def test_another_sweep_finds_a_part_in_use_and_skips(fresh_world: World) -> None:
    with stopped_in_housekeeping(fresh_world):
        assert fresh_world.sweep() == {"skipped": "Another sweep is running."}
        assert fresh_world.owner.one("select private.sweep_part('lost', '{}')")["skipped"]


def test_rows_that_cannot_be_removed_keep_no_others(fresh_world: World) -> None:
    world = fresh_world
    runner = world.organization().runner("r1")
    runner.call("worker_close_session")
    owner = world.owner.connection
    owner.execute("update private.sessions set ended_at = now() - interval '8 days'")
    owner.execute("insert into private.rate_limits values ('x', now() - interval '2 days', 1)")
    owner.execute(
        "create function private.refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;"
        "create trigger refuse before delete on private.sessions for each row execute function private.refuse()"
    )
    answer = world.sweep()
    assert (answer["failed"], answer["old_limits"]) == ("old_sessions: no", 1)
    assert world.owner.one("select count(*) from private.sessions") == 1


def test_the_runs_of_the_sweeps_schedule_are_kept_for_a_week(fresh_world: World) -> None:
    owner = fresh_world.owner.connection
    owner.execute(
        "create schema cron; create table cron.job (jobid bigint, jobname text);"
        "create table cron.job_run_details (jobid bigint, runid bigint, start_time timestamptz, end_time timestamptz);"
        "insert into cron.job values (1, 'runyard-sweep'), (2, 'somebody else''s');"
        "insert into cron.job_run_details select j, 10 * j + d, now() - make_interval(days => d), null"
        " from generate_series(1, 2) as j, generate_series(4, 8, 2) as d"
    )
    assert fresh_world.sweep()["old_cron_runs"] == 1
    assert fresh_world.owner.rows("select runid from cron.job_run_details order by 1") == [14, 16, 24, 26, 28]


def test_a_full_batch_is_repeated_by_the_next_sweep(fresh_world: World) -> None:
    org = fresh_world.organization()
    add_modules(fresh_world, org, 1)
    add_finished_jobs(fresh_world, org, 1500)
    fresh_world.owner.connection.execute(
        "update public.provision_jobs set finished_at = now() - interval '401 days' - number * interval '1 second'"
    )
    assert [fresh_world.sweep().get("deleted_jobs") for _ in range(3)] == [1000, 500, None]


def add_log_days(world: World, org: Organization, days: int) -> None:
    """Partitions with a thousand chunks each, of nobody's jobs."""
    world.owner.connection.execute(
        "select private.ensure_log_partition(private.utc_day() - d) from generate_series(1, %s) as d", [days]
    )
    world.owner.connection.execute(
        "insert into public.job_log_chunks (log_day, job_id, attempt, seq, org_id, body, line_count, bytes)"
        " select private.utc_day() - d, 1000000 + n, 1, 1, %s, '', 0, 0"
        " from generate_series(0, %s) as d, generate_series(1, 1000) as n",
        [org.id, days],
    )


def test_removing_an_organisation_reads_nobody_elses_logs(fresh_world: World) -> None:
    world = fresh_world
    staying, leaving = world.organization(), world.organization()
    add_log_days(world, staying, 3)
    runner = leaving.runner("r1", is_assigned_to_all_modules=True)
    leaving.enqueue("a/b")
    job = runner.claim_one()
    runner.append(job, (1, "a line\n"))
    runner.finish(job)
    owner = world.owner.connection
    owner.execute("vacuum analyze")
    owner.execute("update public.organizations set deleted_at = now() where id = %s", [leaving.id])
    read = rows_read(owner, "select private.delete_organizations()", {})
    assert sum(count for name, count in read.items() if name.startswith("job_log_chunks")) == 1, read
    owner.execute("select private.delete_organizations()")
    assert world.owner.one("select count(*) from public.organizations") == 1
    assert world.owner.one("select count(*) from public.job_log_chunks where org_id = %s", leaving.id) == 0


def test_counts_of_deliveries_read_the_newest_ten_thousand(fresh_world: World) -> None:
    org, owner = fresh_world.organization(), fresh_world.owner.connection
    owner.execute(
        "insert into public.deliveries (org_id, rule_id, event, event_id, subject, title, status, finished_at)"
        " select %s, gen_random_uuid(), 'e', n::text, '', '', case when n <= 5 then 'PENDING' else 'DELIVERED' end,"
        " case when n > 5 then now() end from generate_series(1, 15000) as n",
        [org.id],
    )
    owner.execute("vacuum analyze public.deliveries")
    assert fresh_world.service.call("installation_metrics")["deliveries"] == {"PENDING": 5, "DELIVERED": 10000}
    read = rows_read(fresh_world.service.connection, "select public.installation_metrics()", {})
    assert 10_000 <= read["deliveries"] <= 10_100, read
    call = "select public.list_deliveries(%(org)s)"
    read = rows_read(org.owner.connection, call, {"org": org.id})
    assert 10_000 <= read["deliveries"] <= 10_100, read
    assert org.owner.call("list_deliveries", p_org=org.id)["total"] == 10_000


def test_acting_as_a_member_ends_with_the_callers_own_claims(fresh_world: World) -> None:
    org = fresh_world.organization()
    owner = fresh_world.owner.connection
    claims = "select nullif(current_setting('request.jwt.claims', true), '')::jsonb"
    for own in ({"role": "authenticated", "sub": org.owner.id}, {"role": "service_role"}):
        with owner.transaction():
            owner.execute("select set_config('request.jwt.claims', %s, true)", [json.dumps(own)])
            for _ in range(2):
                owner.execute("select private.act_as(%s)", [org.owner.id])
            assert "delegation" in fresh_world.owner.one(claims)
            owner.execute("select private.act_as(null)")
            assert fresh_world.owner.one(claims) == own
            assert fresh_world.owner.one("select count(*) from private.delegations") == 0
