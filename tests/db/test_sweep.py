"""Effects of time, which are the same if the sweep runs twice at once or an hour late."""

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.db.world import Caller, Organization, World, refused, sha256, this


def test_silence_makes_a_runner_offline_and_a_heartbeat_brings_it_back(world: World, org: Organization) -> None:
    runner = org.runner("r1")
    world.lose(runner)
    row = world.worker_row(runner.worker_id)
    assert (row["status"], row["status_reason"]) == ("OFFLINE", "No heartbeat for 60 s")
    runner.heartbeat()
    assert world.worker_row(runner.worker_id)["status"] == "ONLINE"
    events = org.owner.rows("select event from public.worker_events where worker_id = %s order by id", runner.worker_id)
    assert events == ["registered", "connected", "online", "offline", "online"]


def test_pages_derive_the_same_status_before_the_sweep_comes(world: World, org: Organization) -> None:
    runner = org.runner("r1")
    world.silence(runner)
    overview = org.owner.call("fleet_overview", p_org=org.id)
    assert [worker["status"] for worker in overview["workers"]] == ["OFFLINE"]


def test_nobody_is_dead_right_after_the_server_started(fresh_world: World) -> None:
    org = fresh_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    runner.claim_one()
    fresh_world.silence(runner)
    owner = fresh_world.owner.connection
    owner.execute("truncate private.heartbeats, private.first_sweeps")
    # The server stopped an hour after this sweep, and was started again.
    owner.execute(
        "insert into private.first_sweeps values"
        " (pg_postmaster_start_time() - interval '1 day', now() - interval '1 day')"
    )
    fresh_world.sweep()
    assert fresh_world.worker_row(runner.worker_id)["status"] == "ONLINE"
    assert fresh_world.status(job) == "CLAIMED"
    owner.execute("update private.first_sweeps set swept_at = now() - interval '61 seconds'")
    fresh_world.sweep()
    assert fresh_world.worker_row(runner.worker_id)["status"] == "OFFLINE"
    assert fresh_world.status(job) == "QUEUED"


def test_a_clock_that_was_set_back_does_not_prolong_the_grace(fresh_world: World) -> None:
    fresh_world.sweep()
    fresh_world.owner.connection.execute("update private.first_sweeps set swept_at = now() + interval '10 minutes'")
    fresh_world.sweep()
    assert fresh_world.owner.one("select swept_at <= now() from private.first_sweeps")


def test_an_hour_without_a_sweep_loses_nothing(world: World, org: Organization) -> None:
    org.module("w/apply", approvals_required=1)
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=2)
    lost, applying = org.enqueue("w/a"), org.enqueue("w/b", "APPLY")
    for job in runner.claim(2):
        runner.report(job, "APPLY" if job["id"] == applying else "PLAN")
    unapproved = org.enqueue("w/apply", "APPLY")
    world.owner.connection.execute(
        "update public.provision_jobs set approval_deadline_at = now() - interval '1 hour' where id = %s", [unapproved]
    )
    world.silence(runner, 3600)
    world.up_for_long()
    world.sweep()
    assert [world.status(job) for job in (lost, applying, unapproved)] == ["QUEUED", "NEEDS_ATTENTION", "CANCELLED"]


def test_many_sweeps_at_once_do_it_once(fresh_world: World) -> None:
    world = fresh_world
    org = world.organization()
    jobs, runners = [], []
    for number in range(10):
        runners.append(org.runner(f"r{number}", is_assigned_to_all_modules=True))
        jobs.append(org.enqueue(f"a/m{number}"))
        runners[-1].claim_one()
    for runner in runners:
        world.silence(runner)
    world.up_for_long()
    callers = [Caller(world.database.connect("service_role")) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda caller: caller.call("sweep"), callers))
    assert sum(answer.get("lost", 0) for answer in answers) == 10
    assert sum(answer.get("offline", 0) for answer in answers) == 10
    assert all(world.events(job) == ["enqueued", "claimed", "lost"] for job in jobs)


def test_a_heartbeat_does_no_work_of_others(world: World, org: Organization) -> None:
    """Its transaction writes its own row and locks nothing else, however long nobody has swept."""
    world.up_for_long()
    gone, alive = org.runner("r1"), org.runner("r2")
    world.silence(gone)
    world.owner.connection.execute("delete from private.clocks")
    with alive.connection.transaction():
        alive.heartbeat()
        assert written(world, alive) == ["heartbeats"]
    assert world.worker_row(gone.worker_id)["status"] == "ONLINE"
    world.sweep()
    assert world.worker_row(gone.worker_id)["status"] == "OFFLINE"


def written(world: World, caller: Caller) -> list[str]:
    """The tables that a connection's open transaction has written to."""
    query = (
        "select c.relname from pg_locks as l join pg_class as c on c.oid = l.relation"
        " where l.pid = %s and c.relkind in ('r', 'p') and l.mode not in ('AccessShareLock', 'RowShareLock')"
    )
    return world.owner.rows(query, caller.connection.info.backend_pid)


def test_members_see_how_long_nobody_has_swept(fresh_world: World) -> None:
    org = fresh_world.organization()
    assert org.owner.call("fleet_overview", p_org=org.id)["swept_seconds_ago"] is None
    fresh_world.sweep()
    fresh_world.owner.connection.execute("update private.clocks set ran_at = ran_at - interval '1 hour'")
    assert org.owner.call("fleet_overview", p_org=org.id)["swept_seconds_ago"] >= 3600


@pytest.mark.parametrize("error", ["55P03", "57014"])
@pytest.mark.parametrize("part", ["delete_old_jobs() returns integer", "sweep_schedules() returns integer"])
def test_a_part_that_cannot_run_or_takes_too_long_undoes_nothing(fresh_world: World, part: str, error: str) -> None:
    world, org = fresh_world, fresh_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    runner.claim_one()
    world.owner.connection.execute(
        f"create or replace function private.{part} language plpgsql as "  # type: ignore[arg-type]
        f"'begin raise exception sqlstate ''{error}''; end';"
        "delete from private.clocks"
    )
    answer = world.lose(runner)
    assert (answer["lost"], answer["placed"], world.status(job)) == (1, 0, "QUEUED")
    assert {"deleted_jobs", "swept"} <= set(world.owner.rows("select name from private.clocks"))


@pytest.mark.parametrize("part", ["sweep_removals", "sweep_sessions", "sweep_approvals", "sweep_backoff"])
def test_a_part_that_takes_too_long_stops_no_other_and_is_reported(fresh_world: World, part: str) -> None:
    world, org = fresh_world, fresh_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    runner.claim_one()
    org.owner.call("create_schedule", p_org=org.id, p_spec={"path": "a/b", "type": "PLAN", "cron": "0 4 * * *"})
    world.owner.connection.execute("update public.schedules set next_at = now() - interval '1 hour'")
    world.owner.connection.execute(
        f"create or replace function private.{part}() returns integer language sql as 'select 1 from pg_sleep(600)'"
    )
    world.owner.connection.execute("delete from private.clocks")
    world.service.connection.execute("set statement_timeout = '1s'")
    answer = world.lose(runner)
    assert (answer["lost"], answer["scheduled"], world.status(job)) == (1, 1, "QUEUED")
    assert "canceling statement due to statement timeout" in answer["failed"]
    assert world.service.call("installation_health")["swept_seconds_ago"] is None


def test_a_reader_of_logs_delays_only_the_removal_of_old_days(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    runner.claim_one()
    world.owner.connection.execute("select private.ensure_log_partition(private.utc_day() - 100)")
    with psycopg.connect(world.database.url) as reader:
        reader.execute("lock table public.job_log_chunks in access share mode")
        world.service.connection.execute("set statement_timeout = '20s'")
        world.owner.connection.execute("delete from private.clocks")
        answer = world.lose(runner)
        assert (answer["lost"], answer["dropped_log_days"], world.status(job)) == (1, 0, "QUEUED")
    world.owner.connection.execute("delete from private.clocks")
    assert world.sweep()["dropped_log_days"] == 1


def test_one_old_day_that_cannot_be_dropped_keeps_no_other(fresh_world: World) -> None:
    world = fresh_world
    owner = world.owner.connection
    owner.execute("select private.ensure_log_partition(private.utc_day() - 100 - d) from generate_series(0, 9) as d")
    oldest = world.owner.one("select 'private.' || private.log_partition_name(private.utc_day() - 109)")
    owner.execute(f"create view private.depending as select * from {oldest}")
    for dropped in (7, 2, 0):
        owner.execute("delete from private.clocks")
        assert world.sweep()["dropped_log_days"] == dropped
    owner.execute("drop view private.depending; delete from private.clocks")
    assert world.sweep()["dropped_log_days"] == 1


def test_old_artifacts_are_removed_in_batches(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    world.owner.connection.execute(
        "insert into private.artifacts (job_id, attempt, name, body, sha256, expires_at) "
        "select %s, 1, 'a' || n, '', '', now() - n * interval '1 hour' from generate_series(1, 201) as n",
        [org.enqueue("a/b")],
    )
    for left in (["a1"], []):
        world.owner.connection.execute("delete from private.clocks")
        world.sweep()
        assert world.owner.rows("select name from private.artifacts") == left


@pytest.mark.parametrize(("status", "days"), [("SUCCEEDED", 1), ("FAILED", 30)])
def test_a_saved_plan_ends_one_day_after_its_apply(world: World, org: Organization, status: str, days: int) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b", "PLAN")
    plan = runner.claim_one()
    for name in ("plan.tfplan", "changes.json"):
        body = base64.b64encode(name.encode()).decode()
        runner.call("worker_put_artifact", **this(plan), p_name=name, p_body_base64=body, p_sha256=sha256(name))
    runner.finish(plan, p_plan_summary={"has_changes": True, "create": 1})
    org.enqueue("a/b", "APPLY", plan_job_id=plan["id"])
    runner.finish(runner.claim_one(), status)
    found = world.owner.rows(
        "select name || ' ' || round(extract(epoch from expires_at - now()) / 86400) from private.artifacts"
        " where job_id = %s order by name", plan["id"],
    )  # fmt: skip
    assert found == ["changes.json 30", f"plan.tfplan {days}"]


def test_old_things_are_removed_and_new_partitions_made(fresh_world: World) -> None:
    world = fresh_world
    org = world.organization()
    runner = org.runner("r1")
    runner.call("worker_close_session")
    org.owner.call("update_organization", p_org=org.id, p_log_retention_days=3)
    world.owner.connection.execute("update private.sessions set ended_at = now() - interval '8 days'")
    world.owner.connection.execute("select private.ensure_log_partition(private.utc_day() - 10)")
    world.owner.connection.execute("delete from private.clocks")
    answer = world.sweep()
    assert answer["dropped_log_days"] == 1
    assert world.owner.one("select count(*) from private.sessions") == 0
    days = world.owner.rows("select d - private.utc_day() from private.log_days() as d")
    assert days == [0, 1, 2]


def test_retention_is_each_organisations_own(fresh_world: World) -> None:
    world = fresh_world
    brief, long = world.organization(), world.organization()
    brief.owner.call("update_organization", p_org=brief.id, p_log_retention_days=2)
    for org in (brief, long):
        runner = org.runner("r1", is_assigned_to_all_modules=True)
        org.enqueue("a/b")
        job = runner.claim_one()
        world.owner.connection.execute(
            "update private.live_jobs set log_day = private.utc_day() - 5 where job_id = %s", [job["id"]]
        )
        runner.append(job, (1, "old\n"))
    world.owner.connection.execute("delete from private.clocks")
    world.sweep()
    assert brief.owner.rows("select body from public.job_log_chunks") == []
    assert long.owner.rows("select body from public.job_log_chunks") == ["old\n"]


def test_no_day_of_old_logs_is_searched_twice(fresh_world: World) -> None:
    world = fresh_world
    brief, _ = world.organization(), world.organization()
    brief.owner.call("update_organization", p_org=brief.id, p_log_retention_days=2)
    runner = brief.runner("r1", is_assigned_to_all_modules=True)

    def log_of(days: int) -> None:
        brief.enqueue("a/b")
        job = runner.claim_one()
        world.owner.connection.execute("update private.live_jobs set log_day = private.utc_day() - %s", [days])
        runner.append(job, (1, f"{days}\n"))
        runner.finish(job)

    def left() -> list[str]:
        world.owner.connection.execute("select private.delete_old_logs()")
        return brief.owner.rows("select body from public.job_log_chunks order by 1")

    for days in (1, 3, 5):
        log_of(days)
    assert left() == ["1\n"]
    assert world.owner.one("select private.utc_day() - kept_from from private.log_retention") == 2
    brief.owner.call("update_organization", p_org=brief.id, p_log_retention_days=20)
    log_of(2)
    assert left() == ["1\n", "2\n"], "who keeps logs for longer from now on loses none that are still there"
    brief.owner.call("update_organization", p_org=brief.id, p_log_retention_days=1)
    assert left() == ["1\n"]


def test_processes_that_were_silent_for_a_week_are_forgotten(fresh_world: World) -> None:
    """All but the runner's last one, and the sessions of all that never closed theirs."""
    world, org = fresh_world, fresh_world.organization()
    worker = org.worker("r1", allow_multiple_instances=True)
    runners = [world.connect_runner(worker, f"pod-{number}") for number in range(3)]
    owner = world.owner.connection
    weeks_ago = "update {} set {} = now() - interval '15 days'"
    owner.execute(weeks_ago.format("private.heartbeats", "last_seen_at"))
    owner.execute(weeks_ago.format("private.sessions", "renewed_at"))
    runners[0].heartbeat()
    for _ in range(2):
        owner.execute("delete from private.clocks")
        world.sweep()
        owner.execute(weeks_ago.format("public.worker_instances", "disconnected_at") + " where status = 'OFFLINE'")
    names = org.owner.rows("select name from public.worker_instances order by name")
    assert names == ["pod-0", "pod-2"]
    assert runners[0].heartbeat()["lost"] == []
    with refused("RY401", "it was silent for a week"):
        runners[2].heartbeat()


def test_lanes_without_jobs_are_forgotten_and_made_again(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=5)
    for priority in range(5):
        org.enqueue("a/done", priority=priority)
        runner.finish(runner.claim_one())
    waiting = org.enqueue("a/waiting", priority=9)
    owner = world.owner.connection
    for age, left in (("1 hour", 6), ("2 days", 1)):
        owner.execute("update private.lanes set created_at = now() - %s::interval", [age])
        owner.execute("delete from private.clocks")
        world.sweep()
        assert world.owner.one("select count(*) from private.lanes") == left
    again = org.enqueue("a/done", priority=3)
    assert [job["id"] for job in runner.claim(5)] == [again, waiting]


@pytest.fixture
def neighbours(fresh_world: World) -> tuple[World, Organization, Organization]:
    """Two organisations with a module and a runner each; faults in the first must not affect the second."""
    fresh_world.up_for_long()
    first, second = fresh_world.organization(), fresh_world.organization()
    for org in (first, second):
        org.module("a/b")
    return fresh_world, first, second


def test_a_runner_whose_record_cannot_be_read_costs_nobody_else(
    neighbours: tuple[World, Organization, Organization],
) -> None:
    world, first, second = neighbours
    broken, other = (org.runner("r1", is_assigned_to_all_modules=True) for org in (first, second))
    job = second.enqueue("a/b")
    other.claim_one()
    poison = 'update public.workers set cloud = \'{"starting_at": "x"}\', desired_count = 1 where id = %s'
    world.owner.connection.execute(poison, [broken.worker_id])
    for runner in (broken, other):
        world.silence(runner)
    answer = world.sweep()
    assert (answer["lost"], answer["offline"]) == (1, 1)
    assert (world.status(job), world.worker_row(other.worker_id)["status"]) == ("QUEUED", "OFFLINE")
    assert world.worker_row(broken.worker_id)["status"] == "ONLINE"


def test_a_lease_or_a_pause_that_cannot_end_costs_no_other(
    neighbours: tuple[World, Organization, Organization],
) -> None:
    world, first, second = neighbours
    jobs, runners = [], []
    for org in (first, second):
        runners.append(org.runner("r1", is_assigned_to_all_modules=True))
        jobs.append(org.enqueue("a/b"))
        runners[-1].claim_one()
    for runner in runners:
        world.silence(runner)
    refuse = (
        "create function private.refuse() returns trigger language plpgsql as "
        "$$ begin if new.job_id = {} then raise exception 'no'; end if; return new; end $$;"
        "create trigger refuse before update on private.live_jobs for each row execute function private.refuse()"
    )
    world.owner.connection.execute(refuse.format(jobs[0]))
    assert world.sweep()["lost"] == 1
    assert [world.status(job) for job in jobs] == ["CLAIMED", "QUEUED"]
    world.owner.connection.execute(
        "alter table private.live_jobs disable trigger refuse;"
        "update private.live_jobs set stage = 'BACKOFF', instance_id = null, session_id = null, not_before_at = now();"
        "alter table private.live_jobs enable trigger refuse"
    )
    assert world.sweep()["ready"] == 1


def start_set(org: Organization) -> Any:
    return org.owner.call("start_set", p_org=org.id, p_type="PLAN", p_path="a", p_options={})["id"]


def test_a_set_that_cannot_be_placed_costs_no_other(neighbours: tuple[World, Organization, Organization]) -> None:
    world, first, second = neighbours
    sets = [start_set(org) for org in (first, second)]
    world.owner.connection.execute("update private.set_members set job_id = null; delete from public.provision_jobs")
    world.owner.connection.execute(
        'update public.job_sets set options = \'{"priority": "x"}\' where id = %s', [sets[0]]
    )
    answer = world.sweep()
    assert (answer["scheduled"], answer["placed"], answer["woken"]) == (0, 1, False)
    assert world.owner.rows("select org_id::text from public.provision_jobs") == [second.id]


def test_a_schedule_that_cannot_run_costs_no_other_and_is_tried_again_later(
    neighbours: tuple[World, Organization, Organization],
) -> None:
    world, first, second = neighbours
    for org in (first, second):
        org.owner.call("create_schedule", p_org=org.id, p_spec={"path": "a/b", "type": "PLAN", "cron": "0 4 * * *"})
    world.owner.connection.execute("update public.schedules set next_at = now() - interval '1 hour'")
    world.owner.connection.execute("update public.schedules set zone = 'Nowhere' where org_id = %s", [first.id])
    answer = world.sweep()
    assert (answer["scheduled"], answer["placed"]) == (1, 1)
    assert world.owner.rows("select org_id::text from public.provision_jobs") == [second.id]
    seen = "select last_run_at is null, last_note is not null, next_at > now() from public.schedules"
    assert first.owner.one(seen) == (True, True, True)
    assert world.sweep()["scheduled"] == 0


def test_a_failed_start_of_schedules_does_not_stop_the_placing_of_sets(
    neighbours: tuple[World, Organization, Organization],
) -> None:
    world, first, _ = neighbours
    start_set(first)
    world.owner.connection.execute("update private.set_members set job_id = null; delete from public.provision_jobs")
    world.owner.connection.execute(
        "create or replace function private.sweep_schedules() returns integer language plpgsql as "
        "'begin raise exception ''no''; end'"
    )
    answer = world.sweep()
    assert ("scheduled" in answer, answer["failed"], answer["placed"]) == (False, "scheduled: no", 1)
