"""A set of 500 modules in 12 steps: how soon each step follows the one before, what the order costs, and its graph page."""

import asyncio
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from playwright.async_api import Page

from benchmarks.outcome import Outcome
from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.support.browser import open_page
from tests.support.stack import start_stack

MODULES, STEPS = 500, 12
WIDTH = -(-MODULES // STEPS)
AT_ONCE = 4
OPENED = 3
SEED = """insert into public.modules (org_id, group_id, group_path, name, path)
  select g.org_id, g.id, g.path, 'm' || n, g.path || '/m' || n from public.groups as g, generate_series(0, %s - 1) as n
  where g.org_id = %s and g.path = 'large' returning id"""
# From the end of the last dependency to the moment at which the job is in its queue, of each module that has one.
WAITS = """select extract(epoch from j.queued_at - max(b.finished_at))
  from public.job_sets as s join private.set_members as m on m.set_id = s.id
  join public.provision_jobs as j on j.id = m.job_id
  cross join unnest(m.waits_for) as e (before_id)
  join private.set_members as o on o.set_id = s.id and o.module_id = e.before_id
  join public.provision_jobs as b on b.id = o.job_id where s.id = %s group by j.id, j.queued_at"""
GRAPH = ("/dashboard/modules/graph?path=large", f"document.querySelectorAll('.ry-gn').length === {MODULES}")
PLAIN = ("/dashboard/modules?path=large", "document.querySelector('[data-testid=group-modules]') !== null")


def seed(product: Product, person: Person) -> None:
    """The modules; each depends on two of the step before it."""
    product.rpc(person.token, "upsert_group", {"p_org": person.org_id, "p_path": "large"})
    product.sql(SEED, MODULES, person.org_id)


def connect(product: Product, person: Person, *, is_ordered: bool) -> None:
    """Order the modules, or let all of them run at once."""
    ends = [
        (n, step + (n + more) % WIDTH)
        for n in range(WIDTH, MODULES)
        for step in [n - n % WIDTH - WIDTH]
        for more in (0, 1)
    ]
    edges = [{"consumer": f"large/m{after}", "producer": f"large/m{before}"} for after, before in ends]
    sent = {"p_org": person.org_id, "p_path": "large", "p_dependencies": edges if is_ordered else []}
    product.rpc(person.token, "replace_dependencies", sent)


class Slots:
    """A runner that keeps its connections, as a real one does."""

    def __init__(self, product: Product, person: Person) -> None:
        self._client = ScriptedRunner(product, person, "bench-1", capacity=50).client()

    def _call(self, name: str, **arguments: Any) -> Any:
        answer = self._client.post(name, json=arguments)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def claim(self) -> list[dict[str, Any]]:
        """Send a heartbeat, and take what waits."""
        self._call("worker_heartbeat", p_status="ONLINE", p_version="1.8.2", p_running=[])
        return list(self._call("worker_claim", p_request_id=str(uuid.uuid4()), p_slots=50)["jobs"])

    def finish(self, job: dict[str, Any]) -> None:
        """End a job well."""
        self._call("worker_finish", p_job=job["id"], p_attempt=job["attempt"], p_status="SUCCEEDED")


def run_set(product: Product, person: Person, slots: Slots) -> tuple[str, float]:
    """Apply all modules with jobs that take no time; the set, and how long it took."""
    began = time.perf_counter()
    asked = {"p_org": person.org_id, "p_type": "APPLY", "p_path": "large"}
    made = str(product.rpc(person.token, "start_set", asked)["id"])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while product.rpc(person.token, "set_progress", {"p_set": made})["status"] == "RUNNING":
            list(pool.map(slots.finish, slots.claim()))
    return made, time.perf_counter() - began


async def opened(page: Page, address: str, is_there: str) -> float:
    """Measure the seconds until a page shows its content; the median of some."""
    spent = []
    for _ in range(OPENED):
        began = time.perf_counter()
        await page.goto(address)
        await page.wait_for_function(is_there)
        spent.append(time.perf_counter() - began)
    return median(spent)


async def measure_page(product: Product, person: Person) -> dict[str, Any]:
    """The graph of all modules beside the page of their group, in the same browser."""
    name, value = product.cookie(person).split("=", 1)
    async with open_page(product.url) as page:
        await page.context.add_cookies([{"name": name, "value": value, "url": product.url}])
        plain, graph = await opened(page, *PLAIN), await opened(page, *GRAPH)
    return {
        "graph_seconds": round(graph, 2),
        "group_seconds": round(plain, 2),
        "graph_to_group": round(graph / plain, 2),
    }


def measure(product: Product, outcome: Outcome) -> None:
    """The set with its order and without, then the page."""
    person = product.person("bench")
    seed(product, person)
    slots = Slots(product, person)
    with outcome.part("the set"):
        connect(product, person, is_ordered=False)
        _, plain = run_set(product, person, slots)
        connect(product, person, is_ordered=True)
        made, ordered = run_set(product, person, slots)
        waits = [float(row[0]) for row in product.sql(WAITS, made)]
        outcome.parts |= {"next_step_seconds": round(max(waits), 3), "set_seconds": round(ordered, 2)}
        outcome.parts |= {"unordered_seconds": round(plain, 2), "ordered_to_unordered": round(ordered / plain, 2)}
        outcome.ratio("ordered to unordered", ordered / plain, is_less_better=True)
    with outcome.part("the graph page"):
        outcome.parts |= asyncio.run(measure_page(product, person))
        outcome.ratio("graph page to group page", outcome.parts["graph_to_group"], is_less_better=True)


def show(found: dict[str, Any]) -> None:
    """Print the table."""
    rows = (
        ("a step after its last dependency, longest", "next_step_seconds", "s, aim ≤ 1"),
        (f"{MODULES} jobs in {STEPS} steps", "set_seconds", "s"),
        (f"{MODULES} jobs without order", "unordered_seconds", "s"),
        ("with order to without", "ordered_to_unordered", "×"),
        (f"graph page of {MODULES} modules", "graph_seconds", "s, aim ≤ 1"),
        ("page of the same group", "group_seconds", "s"),
        ("graph page to group page", "graph_to_group", "×"),
    )
    for words, key, unit in rows:
        print(f"{words:<44}{found.get(key, '–'):>8} {unit}")


def main() -> None:
    """Start the product in a folder of its own, measure, write the result."""
    outcome = Outcome("order")
    with outcome.part("the product"), tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        with start_stack(home, "--no-demo") as stack:
            measure(Product(stack), outcome)
    show(outcome.parts)
    outcome.keep()


if __name__ == "__main__":
    main()
