"""Keeps what is known of one organisation true while somebody views it.

Subscribe, wait until the stream is live, run every query on screen, apply
what arrived meanwhile, then live. On anything strange: build it all again. Without
Realtime the same is polled every few seconds, so everything works, slower.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable

import structlog

from app.project.asker import Asker, Member, Turns
from app.project.authorized_client import AuthorizedClient
from app.project.errors import AppError, SignedOut
from app.project.models import BrowserSession, Row
from app.project.realtime_client import ChannelBroken, Event, Joined, RealtimeClient
from app.project.shapes import shaped
from app.project.snapshot import WAKE_UPS, bindings_of, read_row, read_snapshot, slim
from app.project.store import AGAIN, WHOLE_TABLES, Link, OrgStore, version_of

POLL_SECONDS = 10.0
OVERVIEW_SECONDS = 5.0
# After a change the counts follow sooner than that, but not with every one of a storm.
HURRY_SECONDS = 1.0
FACETS_SECONDS = 5.0
FIGURES_SECONDS = 15.0
TICK_SECONDS = 2.0
PING_EVERY_SECONDS = 15.0
RECONCILE_SECONDS = 45.0
# A change is on its way for a moment after it was written; only older ones were missed.
IN_FLIGHT_SECONDS = 5.0
HANDOVER_SECONDS = 120.0
MAX_BACKOFF_SECONDS = 10.0
LATEST_REPEAT_SECONDS = 5.0
# After a missed change: this many quiet comparisons, or one change that arrives, restore trust.
DOUBTS = 3

log = structlog.get_logger(__name__)

Wanted = Callable[[str], bool]


class OrgFeed:
    """The supervisor of one organisation's channel."""

    def __init__(
        self, store: OrgStore, authorized: AuthorizedClient, realtime: RealtimeClient, member: Member,
        is_wanted: Wanted, turns: Turns,
    ) -> None:  # fmt: skip
        """Watch on behalf of whichever signed-in member `member` names; `is_wanted` returns whether a topic has viewers."""
        self.store = store
        self._authorized = authorized
        self._realtime = realtime
        self._member = member
        self._is_wanted = is_wanted
        self._turns = turns
        self.asker = Asker(store, authorized, member, turns)
        self._needed = COLUMNS_NEEDED
        self._doubts = 0
        self._nudged = asyncio.Event()
        self._is_joined = False
        self._repeats: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._figures_at = float("-inf")
        self._figures_lock = asyncio.Lock()
        self._facets_at = float("-inf")

    def nudge(self) -> None:
        """Try again now."""
        self._nudged.set()

    def show_contact(self) -> None:
        """Show that the project does not answer, or that it answers again."""
        if self._authorized.contact.is_lost or self._is_joined:
            self._say_link()
        else:
            self.nudge()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for loop in (self._watch_overview, self._watch_rows, self.asker.run):
                tasks.create_task(self._keep(loop))

    async def _keep(self, loop: Callable[[], Awaitable[None]]) -> None:
        """Begin a loop again after a failure: without it a page would say live and never change again."""
        while True:
            try:
                await loop()
            except Exception:
                log.exception("feed_loop_failed", org=self.store.org_id, loop=loop.__qualname__)
            await asyncio.sleep(TICK_SECONDS)

    async def load(self, session: BrowserSession) -> set[tuple[str, str]]:
        """Read the tables that are kept whole and run the queries on screen; returns the rows that no event had brought."""
        before_at = time.time() - IN_FLIGHT_SECONDS
        snapshot = await read_snapshot(self._authorized, session, self.store.org_id)
        missed = {
            (table, str(row["id"]))
            for table, rows in snapshot.items()
            for row in rows
            if self._is_newer(table, row) and version_of(row).timestamp() < before_at
        }
        for table in WHOLE_TABLES:
            self.store.replace(table, snapshot.get(table, []))
        if not self.store.is_loaded:
            await asyncio.gather(self.load_overview(session), self.load_facets(session))
        missed |= await self.asker.ask_all(session, before_at)
        was_loaded, self.store.is_loaded = self.store.is_loaded, True
        return missed if was_loaded else set()

    def _is_newer(self, table: str, row: Row) -> bool:
        held = self.store.row(table, str(row["id"]))
        return held is None or version_of(held) < version_of(row)

    async def _watch_rows(self) -> None:
        failures = 0
        if self.store.link is Link.LIVE:
            # Begun again after a failure: live only when a channel is joined again.
            self.store.set_link(Link.POLLING)
        while True:
            session = await self._member()
            if session is None:
                await asyncio.sleep(TICK_SECONDS)
                continue
            lived_at = time.monotonic()
            try:
                await self._live(session)
            except (ChannelBroken, AppError) as error:
                log.info("feed_broken", org=self.store.org_id, reason=str(error))
            except Exception:
                log.exception("feed_failed", org=self.store.org_id)
            failures = 0 if time.monotonic() - lived_at > 60 else failures + 1
            await self._poll_for(min(MAX_BACKOFF_SECONDS, 0.5 * 2**failures))

    async def _live(self, session: BrowserSession) -> None:
        session = await self._authorized.fresh(session)
        topic = f"org:{self.store.org_id}"
        bindings = bindings_of(self.store.org_id)
        async with self._realtime.join(topic, session.access_token, bindings, WAKE_UPS) as joined:
            await self.load(session)
            self.store.notify(AGAIN)
            self._is_joined = True
            self._say_link()
            apply = asyncio.create_task(self._apply(joined))
            try:
                await self._stay(joined, session)
            finally:
                self._is_joined = False
                apply.cancel()

    def _say_link(self) -> None:
        """Report live only while no changes were missed: a channel can be joined and silent."""
        is_lost = self._authorized.contact.is_lost
        self.store.set_link(Link.OFFLINE if is_lost else Link.POLLING if self._doubts else Link.LIVE)

    async def _apply(self, joined: Joined) -> None:
        try:
            while True:
                await self._take(await joined.inbox.get())
                self._doubts = 0
                self._say_link()
        except AppError as error:
            joined.fail(error.message)
        except Exception as error:
            log.exception("change_not_applied", org=self.store.org_id)
            joined.fail(str(error))

    async def _take(self, event: Event) -> None:
        self.store.changed_at = time.time()
        if event.kind in WAKE_UPS:
            row_id = str(event.record.get("job_id") or event.record.get("id") or "")
            self._notify("log" if event.kind == "log" else event.table, row_id, event.record.get("again_ms"))
        elif event.kind == "DELETE":
            self.store.drop(event.table, str(event.old_record.get("id", "")))
        elif event.is_partial or not self._needed[event.table] <= event.record.keys():
            await self._read_again(event)
        else:
            self.store.put(event.table, slim(shaped(event.table, event.record)))

    def _notify(self, table: str, row_id: str, again_ms: float | None) -> None:
        """Notify now, and once more after the pause in which the database sends no second wake-up."""
        self.store.notify(table, row_id)
        if again_ms is None:
            return
        if (repeat := self._repeats.pop((table, row_id), None)) is not None:
            repeat.cancel()
        loop, seconds = asyncio.get_running_loop(), min(again_ms / 1000, LATEST_REPEAT_SECONDS)
        self._repeats[table, row_id] = loop.call_later(seconds, self._notify_late, table, row_id)

    def _notify_late(self, table: str, row_id: str) -> None:
        self._repeats.pop((table, row_id), None)
        self.store.notify(table, row_id)

    async def _read_again(self, event: Event) -> None:
        row_id = str(event.record.get("id") or event.old_record.get("id") or "")
        session = await self._member()
        if not row_id or session is None:
            return
        row = await read_row(self._authorized, session, event.table, row_id)
        if row is not None:
            self.store.put(event.table, slim(row))

    async def _stay(self, joined: Joined, session: BrowserSession) -> None:
        ping_at = reconcile_at = time.monotonic()
        while not joined.broken.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await joined.broken.wait()
            session = await self._hand_on(joined, session)
            now = time.monotonic()
            if now - ping_at > PING_EVERY_SECONDS:
                await joined.ping()
                ping_at = now
            if now - reconcile_at > (POLL_SECONDS if self._doubts else RECONCILE_SECONDS):
                await self._reconcile(session)
                reconcile_at = now
        raise ChannelBroken(joined.reason)

    async def _reconcile(self, session: BrowserSession) -> None:
        """Compare with the truth: the only proof from end to end that changes still arrive."""
        missed = await self.load(session)
        if missed:
            self._doubts = DOUBTS
            raise ChannelBroken(f"{len(missed)} changes were missed")
        self._doubts = max(0, self._doubts - 1)
        self._say_link()

    async def _hand_on(self, joined: Joined, session: BrowserSession) -> BrowserSession:
        """Keep the channel on the token of somebody who is signed in, before it runs out."""
        holder = await self._member()
        if holder is None:
            raise ChannelBroken("nobody is looking any more")
        is_same = holder.sid == session.sid and holder.access_token == session.access_token
        if is_same and holder.expires_at - time.time() > HANDOVER_SECONDS:
            return session
        holder = await self._authorized.fresh(holder, is_forced=is_same)
        if holder.access_token != session.access_token:
            await joined.set_token(holder.access_token)
        return holder

    async def _poll_for(self, seconds: float) -> None:
        """Live without Realtime until the next try."""
        session = await self._member()
        if session is not None:
            await self._poll(session)
        self._nudged.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds * random.uniform(0.7, 1.3)):
                await self._nudged.wait()

    async def _poll(self, session: BrowserSession) -> None:
        try:
            await self.load(session)
            self.store.notify(AGAIN)
            self.store.set_link(Link.POLLING)
        except SignedOut:
            return
        except AppError as error:
            self.store.set_link(Link.OFFLINE, error.message)

    async def _watch_overview(self) -> None:
        while True:
            session = await self._member()
            if session is not None:
                with contextlib.suppress(AppError):
                    async with self._turns.take():
                        await self.load_overview(session)
                        await self.load_facets(session)
                    if self._is_wanted("figures"):
                        await self.load_figures(session)
            await asyncio.sleep(HURRY_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OVERVIEW_SECONDS - HURRY_SECONDS):
                    await self.store.counts_old.wait()
            self.store.counts_old.clear()

    async def load_overview(self, session: BrowserSession) -> None:
        """Count runners, jobs and modules, and learn the project's time."""
        sent = time.time()
        overview = await self._authorized.rpc(session, "fleet_overview", {"p_org": self.store.org_id, "p_workers": []})
        self._authorized.project_clock.learn((overview or {}).get("server_time"), sent)
        self.store.set_overview(overview or {})

    async def load_facets(self, session: BrowserSession) -> None:
        """Count the labels, versions, regions and healths, if they may be others and nobody just did."""
        if not self.store.are_facets_old or time.monotonic() - self._facets_at < FACETS_SECONDS:
            return
        self.store.are_facets_old, self._facets_at = False, time.monotonic()
        self.store.set_facets(await self._authorized.rpc(session, "runner_facets", {"p_org": self.store.org_id}) or {})

    async def load_figures(self, session: BrowserSession) -> None:
        """Read the last day's figures, unless somebody just did; the previous ones stand when nobody answers."""
        async with self._figures_lock:
            if time.monotonic() - self._figures_at < FIGURES_SECONDS:
                return
            self._figures_at = time.monotonic()
            with contextlib.suppress(AppError):
                figures = await self._authorized.rpc(session, "fleet_stats", {"p_org": self.store.org_id})
                self.store.set_figures(figures or {})


COLUMNS_NEEDED: dict[str, frozenset[str]] = {
    "workers": frozenset({"id", "name", "status", "version", "capacity"}),
    "worker_instances": frozenset({"id", "worker_id", "name", "status"}),
    "provision_jobs": frozenset({"id", "number", "type", "status", "attempt", "created_at", "steps"}),
    "worker_releases": frozenset({"id", "version", "notes"}),
    "rollouts": frozenset({"id", "version", "status"}),
}
