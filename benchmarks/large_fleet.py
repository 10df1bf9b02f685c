"""A large fleet in a real browser: how soon after the click each page is usable, and what the dashboard holds for it.

5,000 runners, 2,000 modules, 200,000 finished and 20,000 queued jobs in one organisation; `RUNYARD_BENCH_SHARE=0.05`
takes a twentieth of them. Then a change is committed while 1 and 500 tabs are open: when the browser shows it, and when
the last tab has it.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from playwright.async_api import Page

from benchmarks.dashboard import CHANGES, WATCH, p95, shown
from benchmarks.outcome import Outcome
from benchmarks.processes import cpu_seconds, family, memory_mib
from tests.e2e.product import Person, Product
from tests.support.browser import open_page
from tests.support.stack import start_stack

SHARE = float(os.environ.get("RUNYARD_BENCH_SHARE", "1"))
# Never fewer than the names that are searched for below.
RUNNERS, MODULES, FINISHED, QUEUED = (max(60, int(n * SHARE)) for n in (5_000, 2_000, 200_000, 20_000))
TABS = (1, int(os.environ.get("RUNYARD_BENCH_TABS", "500")))
QUIET_SECONDS = 10
CALM_SECONDS = 0.1
AIM_MS = 1000
PARTS = ("postgres", "gateway", "dashboard")

SEED = (
    """insert into public.groups (org_id, path) select %(org)s, 'team-' || n from generate_series(1, 40) as n""",
    """insert into public.modules (org_id, group_id, group_path, name, path)
    select %(org)s, g.id, g.path, 'module-' || n, g.path || '/module-' || n from generate_series(1, %(modules)s) as n
    join public.groups as g on g.org_id = %(org)s and g.path = 'team-' || (1 + n %% 40)""",
    """insert into public.workers (org_id, name, status, status_reason, never_contacted, version, labels, region,
      is_assigned_to_all_modules)
    select %(org)s, 'runner-' || lpad(n::text, 4, '0'), case when n %% 20 = 0 then 'OFFLINE' else 'ONLINE' end::worker_status,
      'Ready', false, case when n %% 16 = 0 then '1.7.4' else '1.8.2' end, array['tier=edge', 'zone=' || n %% 8],
      (array['eu-west-1', 'eu-central-1', 'us-east-1'])[1 + n %% 3], true
    from generate_series(0, %(runners)s - 1) as n""",
    """insert into public.worker_instances (worker_id, org_id, name, status, version, engines, capacity)
    select w.id, w.org_id, 'one', w.status, w.version, '{"tofu": "1.10.5"}', 4 from public.workers as w
    where w.org_id = %(org)s and w.status <> 'OFFLINE'""",
    """insert into private.heartbeats (instance_id, worker_id, session_id, last_seen_at, tick_at)
    select i.id, i.worker_id, gen_random_uuid(), now() + interval '1 day', now() from public.worker_instances as i
    where i.org_id = %(org)s""",
    """with module as (select id, path, group_path, row_number() over (order by path) as n from public.modules
      where org_id = %(org)s)
    insert into public.provision_jobs (org_id, type, status, module_id, module_path, group_path, attempt, queued_at,
      claimed_at, started_at, finished_at)
    select %(org)s, 'PLAN', (case when g %% 25 = 0 then 'FAILED' else 'SUCCEEDED' end)::job_status, m.id, m.path,
      m.group_path, 1, t.at, t.at + interval '3 seconds', t.at + interval '3 seconds', t.at + interval '40 seconds'
    from generate_series(1, %(finished)s) as g join module as m on m.n = 1 + g %% %(modules)s
    cross join lateral (select now() - g * interval '3 seconds' - interval '1 minute' as at) as t""",
    """with module as (select id, path, group_path, row_number() over (order by path) as n from public.modules
      where org_id = %(org)s)
    insert into public.provision_jobs (org_id, type, status, module_id, module_path, group_path, queued_at)
    select %(org)s, 'PLAN', 'QUEUED', m.id, m.path, m.group_path, now()
    from generate_series(1, %(queued)s) as g join module as m on m.n = 1 + g %% %(modules)s""",
    "insert into public.worker_releases (version, notes) values ('1.8.2', 'What it brings')",
)


@dataclass(frozen=True)
class Step:
    """A click, and what must be there for the page to be usable."""

    name: str
    click: Callable[[Page], Any]
    ready: str


# The earlier rows must have left the page, or one that was on it anyway would count as found.
STEPS = (
    Step("jobs", lambda page: page.click("a[href$='/jobs']"), "table.ry-jobs tr[data-row]"),
    Step("jobs: finished", lambda page: page.click("role=radio[name='Finished']"), "tr[data-status=SUCCEEDED]"),
    Step("jobs: next page", lambda page: page.click("role=button[name='Next']"), "text=/^26–50 of/"),
    Step(
        "jobs: search",
        lambda page: page.fill("#job-search", "module-42"),
        "table.ry-jobs:not(:has-text('module-41')) tr[data-row]:has-text('module-42')",
    ),
    Step("a job", lambda page: page.click("tr[data-row] a[data-open]"), "h1 .num"),
    Step("modules", lambda page: page.click("a[href$='/modules']"), ".ry-split [role=treeitem][data-module]"),
    Step(
        "modules: search",
        lambda page: page.fill("#module-search", "module-7"),
        ".ry-split:not(:has([data-module*='module-8'])) [data-module*='module-7']",
    ),
    Step("runners", lambda page: page.click("a[href$='/runners']"), "table.ry-runners tr[data-row]"),
    Step(
        "runners: offline",
        lambda page: page.click("role=radio[name=/OFFLINE/]"),
        "table.ry-runners:not(:has(tr[data-status=ONLINE])) tr[data-status=OFFLINE]",
    ),
    Step("runners: all", lambda page: page.click("role=radio[name=/All/]"), "tr[data-status=ONLINE]"),
    Step(
        "runners: outdated",
        lambda page: page.click("[data-testid=health-outdated]"),
        "table.ry-runners:not(:has-text('runner-0001')) tr[data-row]:has-text('runner-0016')",
    ),
    Step("runners: clear", lambda page: page.click("[data-testid=clear-all]"), "tr[data-row]:has-text('runner-0001')"),
    Step(
        "runners: search",
        lambda page: page.fill("#runner-search", "0042"),
        "table.ry-runners:not(:has-text('runner-0041')) tr[data-row]:has-text('runner-0042')",
    ),
    Step("a runner", lambda page: page.click("tr[data-row] a[data-open]"), "h1:has-text('runner-0042')"),
)


def seed(product: Product, person: Person) -> None:
    """Years of use, written straight into the tables."""
    sizes = {"org": person.org_id, "runners": RUNNERS, "modules": MODULES, "finished": FINISHED, "queued": QUEUED}
    with psycopg.connect(product.stack.db_url, autocommit=True) as connection:
        for statement in SEED:
            connection.execute(statement.encode(), sizes)
        connection.execute(b"vacuum analyze")


async def settle(product: Product) -> None:
    """Wait until Realtime has read the seed, a quarter of a million changes: no fleet's day begins like that."""
    for _ in range(60):
        before = spent(product)["gateway"]
        await asyncio.sleep(2)
        if spent(product)["gateway"] - before < CALM_SECONDS:
            return


async def walk(product: Product, page: Page, outcome: Outcome) -> None:
    """Click through the pages; one that does not come costs its own figure."""
    outcome.parts["pages"] = found = []
    for step in STEPS:
        with outcome.part(step.name):
            found.append(await take(product, page, step))


async def take(product: Product, page: Page, step: Step) -> dict[str, Any]:
    """The time from the click to when the page can be used, by the clock and in computing: a busy machine changes the first alone."""
    before, began = spent(product), time.perf_counter()
    await step.click(page)
    await page.wait_for_selector(step.ready)
    await page.wait_for_selector("[aria-busy=true]", state="detached")
    ms = round((time.perf_counter() - began) * 1000)
    used = {part: round((seconds - before[part]) * 1000) for part, seconds in spent(product).items()}
    nodes = await page.evaluate("document.querySelectorAll('*').length")
    return {"page": step.name, "ms": ms, **used, "nodes": nodes}


def spent(product: Product) -> dict[str, float]:
    """Seconds of a processor that each part has used so far; the browser is what this process started beside the stack."""
    parts = {name: family(product.stack.part_pid(name)) for name in PARTS}
    stack = family(product.stack.process.pid)
    parts["browser"] = [process for process in family(os.getpid())[1:] if process not in stack]
    return {name: cpu_seconds(processes) for name, processes in parts.items()}


async def changes(product: Product, person: Person, page: Page, others: int, first: int) -> dict[str, Any]:
    """Measure the delay until a change is shown, and until the last of the other tabs has it."""
    found = await shown(product, person, page, push, [product.cookie(person)] * others, first, pause_seconds=0.8)
    last = sorted(max(delays, default=0) for delays in found.arrivals.values())
    return {"tabs": others + 1, **found.figures(), "last_tab_p95_ms": p95(last), "memory_mib": found.memory_mib}


def push(product: Product, person: Person, change: int) -> None:
    """One change of the first runner. The full stop ends its number: the row's text continues with the version."""
    statement = "update workers set status = 'OFFLINE', status_reason = %s where org_id = %s and name = 'runner-0000'"
    product.sql(statement, f"Change-{change}.", person.org_id)


async def measure(product: Product, outcome: Outcome) -> None:
    """All of it, with one browser that stays open."""
    person = product.person("bench")
    dashboard = family(product.stack.part_pid("dashboard"))
    outcome.parts["memory_before_mib"] = memory_mib(dashboard)
    began = time.perf_counter()
    seed(product, person)
    await settle(product)
    print(f"seeded in {time.perf_counter() - began:.0f} s", flush=True)
    async with open_page(product.url) as page:
        await page.goto("/login")
        await page.fill("#email", person.email)
        await page.press("#email", "Enter")
        await page.fill("#password", person.password)
        began = time.perf_counter()
        await page.press("#password", "Enter")
        await page.wait_for_selector("table.ry-runners tr[data-row]")
        outcome.parts["sign_in_ms"] = round((time.perf_counter() - began) * 1000)
        await walk(product, page, outcome)
        await page.goto("/dashboard/runners")
        await page.wait_for_selector("table.ry-runners tr[data-row]")
        with outcome.part("an idle tab"):
            outcome.parts["idle"] = await idle(product)
        await page.evaluate(WATCH)
        outcome.parts["changes"] = rounds = []
        for at, count in enumerate(TABS):
            with outcome.part(f"{count} tabs"):
                rounds.append(await changes(product, person, page, count - 1, at * CHANGES))


async def idle(product: Product) -> dict[str, Any]:
    """Measure the cost of one idle tab: cores of the database and of the dashboard."""
    parts = {name: family(product.stack.part_pid(name)) for name in ("postgres", "dashboard")}
    before = {name: cpu_seconds(processes) for name, processes in parts.items()}
    await asyncio.sleep(QUIET_SECONDS)
    parts = {name: family(product.stack.part_pid(name)) for name in parts}
    used = {name: (cpu_seconds(processes) - before[name]) / QUIET_SECONDS for name, processes in parts.items()}
    memory = memory_mib(parts["dashboard"])
    return {
        "database_cores": round(used["postgres"], 3),
        "dashboard_cores": round(used["dashboard"], 3),
        "memory_mib": memory,
    }


def show(result: dict[str, Any]) -> None:
    """Print the tables."""
    print(
        f"{RUNNERS:,} runners, {MODULES:,} modules, {FINISHED:,} finished and {QUEUED:,} queued jobs; load {os.getloadavg()[0]:.1f}"
    )
    print(f"sign-in to the first runner: {result.get('sign_in_ms', '–')} ms")
    print(f"\n{'page':>22}{'ms':>8}{'CPU ms: postgres':>18}{'gateway':>9}{'dashboard':>11}{'browser':>9}{'nodes':>8}")
    for row in result.get("pages", ()):
        used = f"{row['postgres']:>18}{row['gateway']:>9}{row['dashboard']:>11}{row['browser']:>9}{row['nodes']:>8}"
        print(f"{row['page']:>22}{row['ms']:>8}{used}  {'' if row['ms'] <= AIM_MS else '✗'}")
    print(f"\none open tab: {result.get('idle', '–')}, before the first tab {result.get('memory_before_mib', '–')} MiB")
    print(
        f"\n{'tabs':>6}{'seen':>8}{'reached':>9}{'p50 ms':>8}{'p95 ms':>8}{'last tab p95':>14}{'CPU ms':>8}{'MiB':>6}"
    )
    for row in result.get("changes", ()):
        figures = (
            f"{row['p50_ms']:>8}{row['p95_ms']:>8}{row['last_tab_p95_ms']:>14}{row['cpu_ms']:>8}{row['memory_mib']:>6}"
        )
        print(f"{row['tabs']:>6}{row['seen']:>8}{row['reached']:>9}{figures}")


def main() -> None:
    """Start the product in a folder of its own, measure, write the result."""
    outcome = Outcome("large_fleet")
    with outcome.part("the product"), tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        with start_stack(home, "--no-demo") as stack:
            asyncio.run(measure(Product(stack), outcome))
    outcome.parts["load"] = round(os.getloadavg()[0], 1)
    show(outcome.parts)
    outcome.keep()


if __name__ == "__main__":
    main()
