"""Years of use: what pages ask and what retention does among millions of finished jobs (5 million with `--full`)."""

from statistics import median
from typing import Any

import psutil
import psycopg

from benchmarks.database.figures import Report
from benchmarks.database.pages import add_member, member, seconds
from benchmarks.database.server import Bench
from benchmarks.database.sizes import Sizes
from benchmarks.processes import cpu_seconds

LIMIT_MS = 1000
TIMES = 5
MODULES = """
insert into public.modules (org_id, group_id, group_path, name, path, source_kind, source, engine)
select g.org_id, g.id, g.path, 'n' || n, g.path || '/n' || n, 'inline', '{"files": {}}', 'tofu'
from public.groups as g, generate_series(1, 4000) as n
"""
# 410 days: ten of them are past their time. Older than 90 days, a job has lost its payload, but for the last hours.
JOBS = """
with module as materialized (select id, path, org_id, row_number() over (order by id) as n from public.modules),
  runner as materialized (select id, name, row_number() over (order by id) as n from public.workers)
insert into public.provision_jobs (org_id, number, type, status, module_id, module_path, group_path, attempt, worker_id,
  worker_name, created_at, queued_at, claimed_at, started_at, finished_at, payload, plan_summary, slimmed_at)
select m.org_id, g, (case when g %% 20 = 0 then 'DRIFT' when g %% 10 = 0 then 'APPLY' else 'PLAN' end)::public.job_type,
  (case when g %% 25 = 0 then 'FAILED' else 'SUCCEEDED' end)::public.job_status, m.id, m.path, 'bench', 1, w.id, w.name,
  t.at, t.at, t.at, t.at, t.at + interval '40 s', case when t.is_slim then '{}' else t.payload end,
  case when not t.is_slim then '{"has_changes": true, "create": 3, "update": 1}'::jsonb end,
  case when t.is_slim then t.at end
from generate_series(1, %(jobs)s) as g
join module as m on m.n = 1 + g %% (select count(*) from module) join runner as w on w.n = 1 + g %% (select count(*) from runner)
cross join lateral (select a.at, a.at < now() - interval '91 days' as is_slim, jsonb_build_object('module', jsonb_build_object(
    'engine', 'tofu', 'inputs', jsonb_build_object('region', 'eu-central-1', 'text', repeat('x', 300)))) as payload
  from (select now() - interval '410 days' + g * (interval '410 days' / %(jobs)s) as at) as a) as t
"""
EVENTS = """
insert into public.job_events (org_id, job_id, attempt, at, actor_kind, actor_label, event, from_status, to_status)
select j.org_id, j.id, 1, j.finished_at, 'worker', 'runner', 'succeeded', 'CLAIMED', j.status from public.provision_jobs as j
"""
QUESTIONS: dict[str, str] = {
    "the list of jobs with its counts": "select public.list_jobs(%(org)s)",
    "the counts alone": "select private.job_counts(%(org)s, enum_range(null::public.job_type))",
    "failed jobs": 'select public.list_jobs(%(org)s, p_filters => \'{"status": ["FAILED"]}\')',
    "jobs of a type that most are": 'select public.list_jobs(%(org)s, p_filters => \'{"type": ["PLAN"]}\')',
    "jobs of a type that none is": 'select public.list_jobs(%(org)s, p_filters => \'{"type": ["DESTROY"]}\')',
    "jobs by a module's name": "select public.list_jobs(%(org)s, 'm123')",
    "jobs of a tenth of the modules": "select public.list_jobs(%(org)s, 'm7')",
    "a page of a job": "select public.job_page(%(org)s, %(number)s)",
    "a page of a module": "select public.module_page(%(org)s, %(module)s)",
    "a page of a runner": "select public.runner_page(%(org)s, %(runner)s)",
    "a list of modules": "select public.list_modules(%(org)s)",
    "figures of a day": "select public.fleet_figures(%(org)s, 24)",
    "figures of a week": "select public.fleet_figures(%(org)s, 168)",
}
SWEEPS = {
    "retention: 1,000 jobs lose their payload": "select private.slim_old_jobs()",
    "retention: 1,000 jobs are deleted": "select private.delete_old_jobs()",
    "retention: artifacts": "select private.remove_old_rows('old_artifacts')",
    "hours are rolled up": "select private.roll_up()",
}


def measure(bench: Bench, sizes: Sizes, report: Report) -> None:
    """Each answer several times; the median by the clock counts, and the server's CPU is beside it."""
    database = bench.database()
    with bench.connect(database) as owner:
        subject = _fill(owner, sizes.history)
    people, housekeeping = member(bench, database), bench.connect(database)
    with people, housekeeping:
        for name, question in QUESTIONS.items():
            # The counts alone are a helper of the list.
            _ask(report, housekeeping if "private." in question else people, name, question, subject, sizes.history)
        for name, question in SWEEPS.items():
            _ask(report, housekeeping, name, question, subject, sizes.history)
    bench.drop(database)


def _ask(
    report: Report, connection: psycopg.Connection, name: str, question: str, subject: dict[str, Any], jobs: int
) -> None:
    process = psutil.Process(connection.info.backend_pid)
    before = cpu_seconds([process])
    spent = median(seconds(connection, question, subject) * 1000 for _ in range(TIMES))
    cpu = (cpu_seconds([process]) - before) * 1000 / TIMES
    report.add(f"{name} ({jobs:,} jobs)", spent / LIMIT_MS, most=1, unit="ms", median=spent, cpu=cpu, limit=LIMIT_MS)


def _fill(owner: psycopg.Connection, jobs: int) -> dict[str, Any]:
    add_member(owner)
    owner.execute("select bench.add_runners(500, 4)")
    owner.execute(MODULES)
    # Without triggers: nobody is to be notified of these jobs.
    owner.execute("set session_replication_role = replica; set maintenance_work_mem = '256MB'")
    owner.execute(JOBS, {"jobs": jobs})
    owner.execute(EVENTS)
    owner.execute("reset session_replication_role")
    owner.execute("insert into private.slimmed_history select id, now() - interval '91 days' from public.organizations")
    owner.execute("vacuum analyze")
    one: Any = owner.execute(
        "select j.org_id, j.number, j.module_id, j.worker_id from public.provision_jobs as j order by j.id desc limit 1"
    ).fetchone()
    return dict(zip(("org", "number", "module", "runner"), one, strict=True))
