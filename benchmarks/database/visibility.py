"""Guests who see some groups of a large organisation: what the filter costs each page, and rights at a path each call."""

from statistics import median
from typing import Any

import psycopg

from benchmarks.database import pages
from benchmarks.database.enqueue import MEMBER
from benchmarks.database.figures import Report
from benchmarks.database.server import Bench
from benchmarks.database.sizes import Sizes

GROUPS, MODULES, BOUND = 500, 4, 50
LIMIT_MS = 1000
BIND = """
update public.memberships set role = 'guest' where user_id = %(member)s;
insert into public.role_bindings (org_id, path, role, user_id)
select id, 'team-' || n * 10, 'operator', %(member)s from public.organizations, generate_series(1, %(bound)s) as n;
"""
# Pages of the whole organisation are closed to guests.
CLOSED = ("stats", "figures", "day", "week")
MORE = {
    "a queued job": "select public.job_page(%(org)s, %(number)s)",
    "a module": "select public.module_page(%(org)s, %(module)s)",
    "events": "select public.list_events(%(org)s)",
    "the graph": "select public.list_dependencies(%(org)s)",
    "schedules": "select public.list_schedules(%(org)s)",
    "who has access": "select public.list_access(%(org)s, 'team-10')",
    "modules by REST": "select count(*) from (select * from public.modules limit 1000) as m",
    "jobs by REST": "select count(*) from (select * from public.provision_jobs order by id desc limit 100) as j",
}
NEED = "select count(*) from generate_series(1, 5000) as n, lateral (select private.need('job.plan', %(org)s, %(path)s)) as a"


def measure(bench: Bench, sizes: Sizes, report: Report) -> None:
    """A guest with an operator's role at a tenth of the groups asks for each page that a guest has."""
    database = bench.database()
    size = f"{BOUND} of {GROUPS} groups, {sizes.crowd:,} runners, {sizes.shown + sizes.shown // 10:,} jobs"
    with bench.connect(database) as owner:
        _fill(owner, sizes)
        subject = _subject(owner)
        questions = {
            name: text for name, text in pages.QUESTIONS.items() if not any(word in name for word in CLOSED)
        } | MORE
        with pages.member(bench, database) as person:
            as_member = _needs(owner, subject, person)
            owner.execute(BIND, {"member": MEMBER, "bound": BOUND})
            owner.execute("analyze public.role_bindings, public.memberships")
            for name, question in questions.items():
                spent = median(pages.seconds(person, question, subject) * 1000 for _ in range(pages.TIMES))
                report.add(f"{name} ({size})", spent / LIMIT_MS, most=1, unit="ms", median=spent, limit=LIMIT_MS)
            as_guest = _needs(owner, subject, person)
        report.add("need by a binding, to one by the membership", as_guest / as_member, unit="×", ms=as_guest)
    bench.drop(database)


def _needs(owner: psycopg.Connection, subject: dict[str, Any], person: psycopg.Connection) -> float:
    """Milliseconds of 5,000 checks of a right; as the owner of the functions, with the claims of the person."""
    claims: Any = person.execute("select current_setting('request.jwt.claims')").fetchone()
    owner.execute("select set_config('request.jwt.claims', %s, false)", [claims[0]])
    return median(pages.seconds(owner, NEED, subject) * 1000 for _ in range(pages.TIMES))


def _fill(owner: psycopg.Connection, sizes: Sizes) -> None:
    pages.add_member(owner)
    owner.execute("delete from public.modules; delete from public.groups")
    owner.execute("select bench.add_groups(%s, %s, %s)", [GROUPS, MODULES, sizes.crowd])
    owner.execute("select bench.add_finished(%s)", [sizes.shown])
    owner.execute("select bench.add_ready(%s, 100::smallint, null)", [sizes.shown // 10])
    owner.execute(pages.HISTORY)
    owner.execute("vacuum analyze")


def _subject(owner: psycopg.Connection) -> dict[str, Any]:
    one: Any = owner.execute(
        """select o.id, j.id, j.number, m.id, m.path, array(select w.id::text from public.workers as w limit 50)
        from public.organizations as o, public.modules as m, public.provision_jobs as j
        where m.path like 'team-10/%' and j.module_id = m.id and j.status = 'QUEUED' limit 1"""
    ).fetchone()
    return dict(zip(("org", "job", "number", "module", "path", "runners"), one, strict=True))
