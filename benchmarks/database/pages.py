"""Measures the queries of pages in a large installation: each answers within a tenth of a second, no matter who polls it."""

import json
import time
from statistics import median
from typing import Any

import psycopg

from benchmarks.database.enqueue import MEMBER
from benchmarks.database.figures import Report
from benchmarks.database.server import Bench
from benchmarks.database.sizes import Sizes

LIMIT_MS = 100
TIMES = 9
HISTORY = """
update public.provision_jobs set finished_at = now() - random() * interval '20 days' where status = 'SUCCEEDED';
update public.provision_jobs set queued_at = finished_at - interval '30 seconds', claimed_at = finished_at - interval '20 seconds'
where status = 'SUCCEEDED';
update public.worker_instances set engines = '{"tofu": "1.10.0"}', facts = '{"os": "linux", "cpus": 4}';
update public.workers set labels = array['zone=' || (random() * 5)::integer];
insert into private.worker_ticks
select h.worker_id, h.instance_id, date_bin('15 minutes', now(), '2000-01-01 00:00+00') - n * interval '15 minutes', 60, 100, 240, 0
from private.heartbeats as h, generate_series(1, 96) as n;
select private.roll_up();
"""
QUESTIONS: dict[str, str] = {
    "why a job waits": "select public.explain_queue(%(job)s)",
    "live numbers of 50 runners": "select public.fleet_overview(%(org)s, %(runners)s::uuid[])",
    "live numbers of 1,000 runners": "select public.fleet_overview(%(org)s)",
    "a day in numbers": "select public.fleet_stats(%(org)s)",
    "figures of a day": "select public.fleet_figures(%(org)s, 24)",
    "figures of a week": "select public.fleet_figures(%(org)s, 168)",
    "a list of runners": "select public.list_runners(%(org)s)",
    "runners by name": "select public.list_runners(%(org)s, 'runner-1')",
    "a list of jobs": "select public.list_jobs(%(org)s)",
    "jobs of one type": 'select public.list_jobs(%(org)s, p_filters => \'{"type": ["PLAN"]}\')',
    "jobs by a module's name": "select public.list_jobs(%(org)s, 'm123')",
    "jobs of a tenth of the modules": "select public.list_jobs(%(org)s, 'm7')",
    "a list of modules": "select public.list_modules(%(org)s)",
    "modules by name": "select public.list_modules(%(org)s, 'm12')",
}


def measure(bench: Bench, sizes: Sizes, report: Report) -> None:
    """One member asks everything several times; the median counts."""
    database = bench.database()
    size = f"{sizes.crowd:,} runners, {sizes.shown + sizes.shown // 10:,} jobs"
    with bench.connect(database) as owner:
        _fill(owner, sizes)
        subject = _subject(owner)
    with member(bench, database) as person:
        for name, question in QUESTIONS.items():
            spent = median(seconds(person, question, subject) * 1000 for _ in range(TIMES))
            report.add(
                f"{name} ({size})", spent / LIMIT_MS, most=1, unit="ms", median=spent, limit=LIMIT_MS
            )  # fmt: skip
    bench.drop(database)


def _fill(owner: psycopg.Connection, sizes: Sizes) -> None:
    add_member(owner)
    owner.execute("select bench.add_runners(%s, 4)", [sizes.crowd])
    owner.execute("select bench.add_finished(%s)", [sizes.shown])
    owner.execute("select bench.add_ready(%s, 100::smallint, null)", [sizes.shown // 10])
    owner.execute(HISTORY)
    owner.execute("vacuum analyze")


def add_member(owner: psycopg.Connection) -> None:
    """An operator of the organisation."""
    owner.execute("insert into auth.users (id, email) values (%s, 'bench@example.org')", [MEMBER])
    owner.execute(
        "insert into public.memberships (org_id, user_id, email, role)"
        " select id, %s, 'bench@example.org', 'operator' from public.organizations",
        [MEMBER],
    )


def _subject(owner: psycopg.Connection) -> dict[str, Any]:
    one: Any = owner.execute(
        "select o.id, (select max(job_id) from private.live_jobs), array(select w.id::text from public.workers as w limit 50)"
        " from public.organizations as o"
    ).fetchone()
    return dict(zip(("org", "job", "runners"), one, strict=True))


def member(bench: Bench, database: str) -> psycopg.Connection:
    """A connection of the person that `add_member` adds, as REST would set it up."""
    person = psycopg.connect(
        bench.url(database, "authenticator"), autocommit=True, options="-c role=authenticated"
    )  # fmt: skip
    claims = json.dumps({"role": "authenticated", "sub": MEMBER, "email": "bench@example.org"})
    person.execute("select set_config('request.jwt.claims', %s, false)", [claims])
    return person


def seconds(person: psycopg.Connection, question: str, subject: dict[str, Any]) -> float:
    """Measure the seconds that one answer takes."""
    began = time.perf_counter()
    person.execute(question, subject).fetchone()
    return time.perf_counter() - began
