"""EXPLAIN guards: with large tables every hot statement uses its index, also where it was planned when they were empty.

Tables have 30,000 queued and 30,000 finished jobs here, enough for the planner to prefer an index and for a wrong plan to show
(the last test proves that one would); `RUNYARD_PLAN_SCALE=1` uses a million of each and 5,000 runners, as `benchmarks/database` does
with `--full`. The rows that statements read, and not their plans, are checked in test_rows_read.py.
"""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.db.bulk import add_finished_jobs, add_modules, add_queued_jobs, add_workers, analyze
from tests.db.world import Caller, Organization, Runner, World
from tests.support.database import Database, Server

SCALE = float(os.environ.get("RUNYARD_PLAN_SCALE", "0.03"))
QUEUED = FINISHED = int(1_000_000 * SCALE)
WORKERS = int(5_000 * SCALE)

BIG = (
    "provision_jobs",
    "live_jobs",
    "workers",
    "modules",
    "job_log_chunks",
    "job_events",
    "lane_workers",
    "audit_events",
)


@pytest.fixture(scope="module")
def big(postgres_server: Server, module_database: str) -> Iterator[tuple[World, Organization, Runner]]:
    """An organisation with a long history, a long queue and many runners; one runner connected before all that."""
    database = Database(postgres_server, module_database)
    world = World.open(database)
    org = world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=50)
    org.enqueue("bulk/first")
    runner.finish(runner.claim_one())
    for _ in range(6):
        runner.claim()
    add_modules(world, org, max(1000, QUEUED // 10))
    add_finished_jobs(world, org, FINISHED)
    lane = add_queued_jobs(world, org, QUEUED)
    add_workers(world, org, WORKERS)
    analyze(world)
    assert lane
    runner.heartbeat()  # All that took minutes at full size, and a runner that sends no heartbeat gets no job.
    yield world, org, runner
    database.close()


def explain_on(caller: Caller) -> list[dict[str, Any]]:
    """Let this connection report the plan of every statement that its calls run."""
    plans: list[dict[str, Any]] = []

    def keep(notice: Any) -> None:
        found = re.search(r"plan:\s*(\{.*\})", str(notice.message_primary), re.DOTALL)
        if found:
            plans.append(json.loads(found.group(1)))

    caller.connection.add_notice_handler(keep)
    return plans


def nodes(plan: Any) -> Iterator[dict[str, Any]]:
    if isinstance(plan, dict):
        if "Node Type" in plan:
            yield plan
        for value in plan.values():
            yield from nodes(value)
    elif isinstance(plan, list):
        for value in plan:
            yield from nodes(value)


def scans(plans: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Sequential scans of large tables, with the statement."""
    return [
        (node["Relation Name"], plan["Query Text"][:120])
        for plan in plans
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan"
        and (node["Relation Name"] in BIG or node["Relation Name"].startswith("job_log_chunks"))
    ]


@pytest.fixture
def watcher(big: tuple[World, Organization, Runner]) -> Iterator[Any]:
    """Connections of this test report their plans."""
    world, _, _ = big
    admin = world.database.connect("supabase_admin")
    settings = {
        "session_preload_libraries": "auto_explain",
        "auto_explain.log_min_duration": "0",
        "auto_explain.log_nested_statements": "on",
        "auto_explain.log_analyze": "on",
        "auto_explain.log_format": "json",
        "client_min_messages": "log",
    }
    database = world.database.name
    for name, value in settings.items():
        admin.execute(f"alter role authenticator in database {database} set {name} = '{value}'")
    yield explain_on
    for name in settings:
        admin.execute(f"alter role authenticator in database {database} reset {name}")


def worker_caller(world: World, runner: Runner) -> Runner:
    connection = world.database.connect("worker", {"sub": runner.worker_id, "sid": runner.session_id})
    return Runner(
        connection,
        runner.worker_id,
        runner.session_id,
        runner.instance_id,
        runner.boot_id,
        runner.token_id,
        runner.instance,
    )


def test_calls_of_runners_use_indexes(big: tuple[World, Organization, Runner], watcher: Any) -> None:
    world, _, runner = big
    caller = worker_caller(world, runner)
    plans = watcher(caller)
    jobs = caller.claim(3)
    assert len(jobs) == 3
    caller.heartbeat(running=[{"job": job["id"], "attempt": job["attempt"]} for job in jobs])
    caller.report(jobs[0], "PLAN")
    caller.append(jobs[0], (1, "x\n"))
    for job in jobs:
        caller.finish(job)
    caller.claim(2)
    assert len(plans) > 20, "the plans were not told"
    assert scans(plans) == []
    ready = [node for plan in plans for node in nodes(plan) if node.get("Index Name") == "live_jobs_ready_idx"]
    assert ready, "the claim does not use its index"
    # The rows that were sorted, not those that the planner expected: for an unknown limit it assumes a tenth of the lane.
    assert [
        node
        for plan in plans
        for node in nodes(plan)
        if node["Node Type"] == "Sort" and node.get("Actual Rows", 0) > 1000
    ] == []


def test_a_connection_that_planned_with_an_empty_table_claims_as_quickly(
    big: tuple[World, Organization, Runner],
) -> None:
    """Its plans are generic and forbid the sequential scan that was cheapest then; what it reads must not grow with the table."""
    _, _, runner = big
    # Of the own transaction: the server's sums come late, and have the reading of everybody else at the table in them.
    rows = (
        "select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) from pg_stat_xact_all_tables"
        " where relname in ('live_jobs', 'provision_jobs')"
    )
    runner.heartbeat()
    with runner.connection.transaction():
        before = runner.one(rows)
        for _ in range(5):
            for job in runner.claim(1):
                runner.finish(job)
        read = runner.one(rows) - before
    assert 0 < read < 500


def test_queries_of_pages_use_indexes(big: tuple[World, Organization, Runner], watcher: Any) -> None:
    world, org, _ = big
    person = Caller(world.database.connect("authenticated", {"sub": org.owner.id, "email": org.owner.email}))
    plans = watcher(person)
    module = org.owner.one("select id from public.modules where path = 'bulk/m1'")
    pages: list[tuple[str, list[Any]]] = [
        ("select * from public.provision_jobs where org_id = %s order by id desc limit 50", [org.id]),
        (
            "select * from public.provision_jobs where org_id = %s and status = any (%s) order by id desc limit 50",
            [org.id, ["NEEDS_ATTENTION", "AWAITING_APPROVAL"]],
        ),
        ("select * from public.provision_jobs where module_id = %s order by id desc limit 20", [module]),
        ("select * from public.provision_jobs where id = %s", [1]),
        (
            "select * from public.job_log_chunks where job_id = %s and attempt = 1 and seq > 10 order by seq limit 100",
            [1],
        ),
        ("select * from public.job_events where job_id = %s order by id", [1]),
        ("select * from public.audit_events where org_id = %s order by id desc limit 50", [org.id]),
    ]
    for query, values in pages:
        person.connection.execute(query, values)
    assert len(plans) >= len(pages)
    assert scans(plans) == []


def test_enqueueing_uses_indexes(big: tuple[World, Organization, Runner], watcher: Any) -> None:
    world, org, _ = big
    person = Caller(world.database.connect("authenticated", {"sub": org.owner.id, "email": org.owner.email}))
    plans = watcher(person)
    module = org.owner.one("select id from public.modules where path = 'bulk/m2'")
    job = person.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=module, p_options={"idempotency_key": "k"})
    person.call("cancel_job", p_job=job["id"])
    some = org.owner.rows("select id::text from public.modules where path like 'bulk/m1%%' order by path limit 20")
    many = {"p_org": org.id, "p_type": "PLAN", "p_modules": f"{{{','.join(some)}}}"}
    assert len(person.call("enqueue_jobs", **many, p_options={"idempotency_key": "many"})) == 20
    assert scans(plans) == []


def job_scans(plans: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Scans of the history of jobs. Other tables are small here, where a scan is the best plan."""
    return [found for found in scans(plans) if found[0] in ("provision_jobs", "job_events")]


def test_removing_a_runner_uses_indexes(big: tuple[World, Organization, Runner], watcher: Any) -> None:
    world, org, _ = big
    org.group("doomed")
    doomed = org.runner("doomed", assignments=["doomed"])
    jobs = [org.enqueue(f"doomed/{name}", pinned_worker_id=doomed.worker_id) for name in ("running", "waiting")]
    assert doomed.claim_one()["id"] == jobs[0]
    person = Caller(world.database.connect("authenticated", {"sub": org.owner.id, "email": org.owner.email}))
    plans = watcher(person)
    person.call("remove_worker", p_worker=doomed.worker_id)
    assert [world.status(job) for job in jobs] == ["FAILED", "FAILED"]
    assert len(plans) > 20, "the plans were not told"
    assert job_scans(plans) == []


def test_the_sweep_uses_indexes(big: tuple[World, Organization, Runner], watcher: Any) -> None:
    world, _, _ = big
    world.up_for_long()
    service = Caller(world.database.connect("service_role"))
    plans = watcher(service)
    world.owner.connection.execute("delete from private.clocks")
    assert "failed" not in service.call("sweep")
    assert len(plans) > 20, "the plans were not told"
    assert job_scans(plans) == []


def test_a_wrong_plan_would_be_noticed(big: tuple[World, Organization, Runner], watcher: Any) -> None:
    world, org, _ = big
    person = Caller(world.database.connect("authenticated", {"sub": org.owner.id, "email": org.owner.email}))
    plans = watcher(person)
    person.connection.execute("select count(*) from public.provision_jobs where created_by_label = 'nobody'")
    assert [table for table, _ in scans(plans)] == ["provision_jobs"]
