"""Measures the delay from a commit to a real browser with 1 to 500 tabs open, and the cost of a tab."""

import asyncio
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from playwright.async_api import Page

from app.runners.state.runners import RunnersState
from benchmarks.outcome import Outcome
from benchmarks.processes import cpu_seconds, family, memory_mib
from tests.e2e.product import Person, Product, Tab, deltas, open_tab
from tests.support.browser import open_page
from tests.support.stack import start_stack

SESSIONS = (1, 50, 500)
# Guests who see a group each, and how many tabs each of them has.
GUESTS, TABS = 20, 10
GUEST = (
    "delete from organizations where id = %(own)s",
    "insert into groups (org_id, path) values (%(org)s, %(path)s)",
    (
        "insert into worker_assignments (org_id, worker_id, path)"
        " select org_id, id, %(path)s from workers where org_id = %(org)s and name = 'runner-0000'"
    ),
    (
        "insert into memberships (org_id, user_id, email, role)"
        " select %(org)s, id, email, 'guest' from auth.users where email = %(email)s"
    ),
    (
        "insert into role_bindings (org_id, path, role, user_id)"
        " select org_id, %(path)s, 'viewer', user_id from memberships where org_id = %(org)s and email = %(email)s"
    ),
)
CHANGES = 30
AT_ONCE = 20
SETTLE_SECONDS = 5
RUNNERS = 1000
# As the page writes it: what it says begins with a capital.
CHANGE = re.compile(r"Change-(\d+)")
# Engine.io's ping, and the answer to it as a browser would mask it.
PING, PONG = b"\x81\x012", b"\x81\x81\x00\x00\x00\x003"
STATE = RunnersState.get_full_name()
LOAD = f"{STATE}.load"
# The row's text identifies the change it shows; the browser's clock is this machine's clock.
WATCH = """() => {
  window.seen = {};
  const look = () => {
    const found = document.querySelector('tr[data-row]')?.textContent.match(/Change-(\\d+)/);
    if (found && !(found[1] in window.seen)) window.seen[found[1]] = Date.now();
  };
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""
Push = Callable[[Product, Person, int], None]
TRANSFERRED = "performance.getEntriesByType('resource').reduce((sum, entry) => sum + entry.transferSize, 0)"


def seed(product: Product, person: Person) -> None:
    """A fleet of a thousand, the first of which changes."""
    product.sql(
        "insert into workers (org_id, name, status, status_reason, never_contacted)"
        " select %s, 'runner-' || lpad(n::text, 4, '0'), 'OFFLINE', 'asleep', false from generate_series(0, %s) as n",
        person.org_id,
        RUNNERS - 1,
    )


class Listener(asyncio.Protocol):
    """A tab that only notes what comes and when. Browsers decode on machines of their own: here it is done when all is over."""

    def __init__(self, tab: Tab) -> None:
        self.chunks: list[tuple[float, bytes]] = []
        self._tab = tab
        # The library would take its own pings for unanswered, as it receives nothing any more.
        if tab.socket.keepalive_task is not None:
            tab.socket.keepalive_task.cancel()
        tab.socket.transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        self.chunks.append((time.time() * 1000, data))
        if PING in data:
            self._tab.socket.transport.write(PONG)

    def arrivals(self) -> Iterator[tuple[str, float]]:
        """Yield each change with the time at which the last byte of its frame arrived."""
        held = b""
        for at, data in self.chunks:
            held += data
            while held and len(held) >= (size := frame_size(held)):
                frame, held = held[:size], held[size:]
                if found := CHANGE.search(frame.decode(errors="replace")):
                    yield found[1], at

    def close(self) -> None:
        self._tab.socket.transport.abort()


def frame_size(frame: bytes) -> int:
    """Return the length of a server's websocket frame, by its first bytes; more than there are when they are too few to tell."""
    length = frame[1] & 127 if len(frame) > 1 else 0
    head = {126: 4, 127: 10}.get(length, 2)
    if len(frame) < head:
        return head
    return head + (int.from_bytes(frame[2:head]) if head > 2 else length)


def guests(product: Product, person: Person) -> list[str]:
    """The cookies of people who each see one group, and the first runner, which serves all of these groups."""
    return [guest(product, person, f"team-{number}") for number in range(1, GUESTS + 1)]


def guest(product: Product, person: Person, path: str) -> str:
    """The cookie of somebody who sees this group of the organisation, and belongs to no other."""
    somebody = product.person("guest")
    with psycopg.connect(product.stack.db_url) as connection:
        for statement in GUEST:
            connection.execute(
                statement.encode(),
                {"org": person.org_id, "own": somebody.org_id, "email": somebody.email, "path": path},
            )
    return product.cookie(somebody)


async def open_tabs(product: Product, cookies: Sequence[str]) -> list[Listener]:
    """Open a tab for each cookie that looks at the runners, and listens; a few at a time, or five hundred would take minutes."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(cookie: str) -> Listener:
        async with gate:
            tab = await open_tab(product, cookie)
            await tab.send(LOAD, path="/dashboard/runners")
            # A tab that is not there yet would be missing among those that a change has to reach.
            await tab.until(lambda found: deltas(found).get(STATE, {}).get("rows_rx_state_"))
            # At once: the first tab would be given up by the server before the last is open.
            return Listener(tab)

    return await asyncio.gather(*map(one, cookies))


@dataclass
class Shown:
    """Changes that were committed one by one: when the browser showed each, and when each other tab had it."""

    delays: list[float]
    arrivals: dict[str, list[float]]
    memory_mib: int
    cpu_ms: int

    def figures(self) -> dict[str, Any]:
        """Return the number of changes that the browser showed, their delays, and the fewest other tabs that one of them reached."""
        middle = round(median(self.delays)) if self.delays else 0
        shown = f"{len(self.delays)}/{CHANGES}"
        reached = min(map(len, self.arrivals.values()), default=0)
        return {"seen": shown, "reached": reached, "p50_ms": middle, "p95_ms": p95(self.delays), "cpu_ms": self.cpu_ms}


async def shown(
    product: Product, person: Person, page: Page, push: Push, others: Sequence[str], first: int, pause_seconds: float
) -> Shown:
    """Commit changes while other tabs are open, one for each cookie."""
    tabs = await open_tabs(product, others)
    await asyncio.sleep(SETTLE_SECONDS)
    committed = {}
    dashboard = family(product.stack.part_pid("dashboard"))
    before = cpu_seconds(dashboard)
    for change in range(first, first + CHANGES):
        await asyncio.to_thread(push, product, person, change)
        committed[str(change)] = time.time() * 1000
        await asyncio.sleep(pause_seconds)
    cpu_ms = round((cpu_seconds(dashboard) - before) * 1000 / CHANGES)
    seen = await page.evaluate("window.seen")
    if committed.keys().isdisjoint(seen):
        raise RuntimeError("the browser showed none of the changes")
    memory = memory_mib(dashboard)
    arrivals = [arrival for tab in tabs for arrival in tab.arrivals()]
    for tab in tabs:
        tab.close()
    return Shown(
        sorted(seen[change] - at for change, at in committed.items() if change in seen),
        {change: [came - at for which, came in arrivals if which == change] for change, at in committed.items()},
        memory,
        cpu_ms,
    )


async def measure_at(product: Product, person: Person, page: Page, others: Sequence[str], first: int) -> dict[str, Any]:
    """Measure the delay until changes are shown beside these other tabs."""
    found = await shown(product, person, page, push, others, first, pause_seconds=0.6)
    tabs = sorted(delay for delays in found.arrivals.values() for delay in delays)
    sights = len(set(others)) or 1
    return {
        "sessions": len(others) + 1,
        "sights": sights,
        **found.figures(),
        "tabs_p95_ms": p95(tabs),
        "memory_mib": found.memory_mib,
    }


def p95(delays: list[float]) -> int:
    """The delay that 95 of 100 do not exceed, of sorted ones."""
    return round(delays[int(len(delays) * 0.95) - 1]) if delays else 0


def push(product: Product, person: Person, change: int) -> None:
    """One change of one row of the thousand."""
    statement = "update workers set status_reason = %s where org_id = %s and name = 'runner-0000'"
    product.sql(statement, f"Change-{change}", person.org_id)


async def bytes_per_change(product: Product, person: Person) -> int:
    """Measure the bytes that one changed row of a thousand sends to a tab, heartbeats aside."""
    tab = await open_tab(product, product.cookie(person))
    await tab.send(LOAD, path="/dashboard/runners")
    await tab.answers(6.0)
    tab.frames.clear()
    await asyncio.to_thread(push, product, person, 9999)
    await tab.answers(2.0)
    return max((len(frame) for frame in tab.frames if "Change-9999" in frame), default=0)


async def measure(product: Product, outcome: Outcome) -> None:
    """All of it, with one browser that stays open."""
    person = product.person("bench")
    seed(product, person)
    outcome.parts["rounds"] = rounds = []
    async with open_page(product.url) as page:
        await page.goto("/login")
        await page.fill("#email", person.email)
        await page.press("#email", "Enter")
        await page.fill("#password", person.password)
        await page.press("#password", "Enter")
        await page.wait_for_selector("tr[data-row]")
        paint = await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
        weight = await page.evaluate(TRANSFERRED)
        outcome.parts |= {"first_paint_ms": round(paint or 0), "page_kib": round(weight / 1024)}
        await page.evaluate(WATCH)
        cookie = product.cookie(person)
        for at, count in enumerate(SESSIONS):
            with outcome.part(f"{count} sessions"):
                rounds.append(await measure_at(product, person, page, [cookie] * (count - 1), at * CHANGES))
        with outcome.part(f"{GUESTS} guests"):
            others = guests(product, person) * TABS
            rounds.append(await measure_at(product, person, page, others, len(SESSIONS) * CHANGES))
    with outcome.part("bytes of a changed row"):
        outcome.parts["bytes_per_changed_row"] = await bytes_per_change(product, person)


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    print(
        f"{'sessions':>10}{'sights':>8}{'seen':>8}{'reached':>9}{'p50 ms':>10}{'p95 ms':>10}{'tabs p95':>10}{'CPU ms':>8}{'MiB':>8}"
    )
    for row in result.get("rounds", ()):
        figures = (
            f"{row['p50_ms']:>10}{row['p95_ms']:>10}{row['tabs_p95_ms']:>10}{row['cpu_ms']:>8}{row['memory_mib']:>8}"
        )
        print(f"{row['sessions']:>10}{row['sights']:>8}{row['seen']:>8}{row['reached']:>9}{figures}")
    print(f"\nbytes for one changed row of {RUNNERS}: {result.get('bytes_per_changed_row', '–')}")
    print(f"first paint {result.get('first_paint_ms', '–')} ms, page {result.get('page_kib', '–')} KiB over the wire")


def main() -> None:
    """Start the product in a folder of its own, measure, write the result."""
    outcome = Outcome("dashboard")
    with outcome.part("the product"), tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        with start_stack(home, "--no-demo") as stack:
            asyncio.run(measure(Product(stack), outcome))
    show(outcome.parts)
    outcome.keep()


if __name__ == "__main__":
    main()
