"""The tabs that show each organisation, and the feeds that run for them: one for each set of what its members see."""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

from app.project.asker import Turns
from app.project.authorized_client import AuthorizedClient
from app.project.errors import SignedOut, Unreachable
from app.project.feed import OrgFeed
from app.project.live_queries import Held, LiveQuery
from app.project.members import Members
from app.project.models import BrowserSession
from app.project.realtime_client import RealtimeClient
from app.project.store import Changed, OrgStore

LINGER_SECONDS = 30.0
SETTLE_SECONDS = 0.005


@dataclass(frozen=True)
class View:
    """One browser tab that shows a live page, over the socket that it was opened by."""

    tab: str
    socket: str
    sid: str
    org_id: str
    page: str
    topics: frozenset[str]
    queries: frozenset[LiveQuery] = frozenset()
    # The feed that it shares; that of the whole organisation has its id.
    room: str = ""

    def hears(self, changed: Changed) -> bool:
        """Return whether a change concerns what this tab shows."""
        return changed.touches(self.topics) or any(changed.touches(query.notices) for query in self.queries)


@dataclass
class _Open:
    store: OrgStore
    feed: OrgFeed
    task: asyncio.Task[None]
    realtime: RealtimeClient
    empty_since: float | None = None


@dataclass
class _Pending:
    """Changes that wait to be shown together."""

    tables: dict[str, dict[str, set[str]]] = field(default_factory=dict)

    def add(self, room: str, table: str, row_id: str) -> None:
        ids = self.tables.setdefault(room, {}).setdefault(table, set())
        if row_id:
            ids.add(row_id)

    def take(self) -> dict[str, Changed]:
        taken, self.tables = self.tables, {}
        return {
            room: Changed({table: frozenset(ids) for table, ids in tables.items()}) for room, tables in taken.items()
        }


class TabHub:
    def __init__(self, authorized: AuthorizedClient, realtime: RealtimeClient) -> None:
        """Start with nobody looking."""
        self.authorized = authorized
        self.members = Members(authorized)
        self._realtime = realtime
        self._views: dict[str, View] = {}
        self._open: dict[str, _Open] = {}
        self._pending = _Pending()
        self._wake = asyncio.Event()
        # No tab waits to be shown something.
        self._calm = asyncio.Event()
        self._turns: WeakValueDictionary[str, Turns] = WeakValueDictionary()
        self._opening = asyncio.Lock()

    def enter(self, view: View) -> None:
        self._views[view.tab] = view

    def leave(self, tab: str) -> None:
        """A tab shows nothing live any more."""
        self._views.pop(tab, None)

    async def ask(self, tab: str, org_id: str, session: BrowserSession, queries: Iterable[LiveQuery]) -> list[Held]:
        """A tab shows these queries from now on, and no earlier ones; answered for one of the members."""
        asked, view, room = tuple(queries), self._views.get(tab), await self.members.check(session, org_id)
        if view is not None:
            self._views[tab] = replace(view, queries=frozenset(asked))
        answers = await asyncio.gather(*(self._open[room].feed.asker.answer(query, session) for query in asked))
        self._forget(room)
        return answers

    async def ask_again(self, tab: str, session: BrowserSession) -> None:
        """Answer a tab's queries, as new as possible."""
        view = self._views.get(tab)
        if view is not None and view.queries:
            await self.ask(tab, view.org_id, session, view.queries)

    async def renew(self, tab: str, session: BrowserSession) -> None:
        """Run a tab's queries again at once, because it changed something."""
        view = self._views.get(tab)
        if view is not None:
            asker = self._open[await self.members.check(session, view.org_id)].feed.asker
            await asyncio.gather(*(asker.renew(query, session) for query in view.queries))

    def _forget(self, room: str) -> None:
        """Keep the answers that are on screens, and no others."""
        entry = self._open.get(room)
        if entry is not None:
            entry.store.live_queries.keep(query.key for view in self.views(room) for query in view.queries)

    def view(self, tab: str) -> View | None:
        """Return the view of a tab, if it shows something live."""
        return self._views.get(tab)

    def views(self, room: str) -> list[View]:
        """List the tabs that share a feed."""
        return [view for view in self._views.values() if (view.room or view.org_id) == room]

    def hearers(self, room: str, changed: Changed) -> Iterator[View]:
        """List the tabs that a change concerns; those with the same topics and queries are checked once."""
        heard: dict[tuple[frozenset[str], frozenset[LiveQuery]], bool] = {}
        for view in self.views(room):
            interest = view.topics, view.queries
            if interest not in heard:
                heard[interest] = view.hears(changed)
            if heard[interest]:
                yield view

    def all_views(self) -> list[View]:
        """List every tab that shows a live page."""
        return list(self._views.values())

    async def open(self, org_id: str, session: BrowserSession) -> OrgStore:
        """Return the store of what a member sees, filled; starts its feed with the first tab."""
        room = await self.members.check(session, org_id)
        async with self._opening:
            entry = self._open.get(room)
            if entry is None or entry.task.done():
                entry = self._start(room, org_id)
        if not entry.store.is_loaded:
            await entry.feed.load(session)
        entry.empty_since = None
        return entry.store

    def _start(self, room: str, org_id: str) -> _Open:
        store = OrgStore(org_id)
        # A socket joins a topic once, as one member: feeds of parts of an organisation have sockets of their own.
        realtime = self._realtime if room == org_id else self._realtime.another()
        turns = self._turns.setdefault(org_id, Turns(self._calm))
        feed = OrgFeed(
            store,
            self.authorized,
            realtime,
            lambda: self.member(room),
            lambda topic: self._is_wanted(room, topic),
            turns,
        )
        store.listen(lambda table, row_id: self._note(room, table, row_id))
        task = asyncio.create_task(feed.run(), name=f"feed:{room}")
        entry = self._open[room] = _Open(store, feed, task, realtime)
        self._count_feeds(org_id)
        return entry

    def _count_feeds(self, org_id: str) -> None:
        stores = [entry.store for entry in self._open.values() if entry.store.org_id == org_id]
        for store in stores:
            store.feeds = len(stores)

    def _is_wanted(self, room: str, topic: str) -> bool:
        return any(topic in view.topics for view in self.views(room))

    def store(self, room: str) -> OrgStore | None:
        """Return the store of a feed if it is open and filled."""
        entry = self._open.get(room)
        return entry.store if entry is not None and entry.store.is_loaded else None

    async def load_figures(self, org_id: str, session: BrowserSession) -> None:
        """Have the last day's figures in an open organisation's store."""
        await self._open[await self.members.check(session, org_id)].feed.load_figures(session)

    def nudge(self, org_id: str) -> None:
        """Make the waiting feeds of an organisation try again now."""
        for entry in self._open.values():
            if entry.store.org_id == org_id:
                entry.feed.nudge()

    async def watch_contact(self) -> None:
        """Show within seconds that the project stopped answering, for as long as the process lives."""
        await self.authorized.contact.watch(self._probe, self._show_contact)

    async def _probe(self) -> None:
        """Make the lightest call of a viewer; without viewers there is nobody to show the result."""
        for view in self.all_views():
            session = await self.authorized.sessions.get(view.sid)
            if session is not None:
                await self.authorized.client.rpc(session.access_token, "my_organizations")
                return

    def _show_contact(self) -> None:
        for entry in self._open.values():
            entry.feed.show_contact()

    def _note(self, room: str, table: str, row_id: str) -> None:
        self._pending.add(room, table, row_id)
        self._calm.clear()
        self._wake.set()

    async def member(self, room: str) -> BrowserSession | None:
        """Find a signed-in viewer who sees what this feed shows, to watch with their token."""
        stale: BrowserSession | None = None
        for view in self.views(room):
            session = await self.authorized.sessions.get(view.sid)
            if session is None:
                continue
            try:
                if room != view.org_id and await self.members.room(session, view.org_id) != room:
                    continue
                return await self.authorized.fresh(session)
            except SignedOut:
                continue
            except Unreachable:
                stale = stale or session
        # The next request with it gets the same refusal, and shows it.
        return stale

    async def changes(self) -> dict[str, Changed]:
        """Wait for changes and take all that there are, by feed; called when all earlier ones are shown, unless there are more."""
        if not self._wake.is_set():
            self._calm.set()
            await self._wake.wait()
            # One statement often changes several rows: long enough for them to arrive, too short to be felt.
            await asyncio.sleep(SETTLE_SECONDS)
        self._wake.clear()
        return self._pending.take()

    async def wait(self, seconds: float) -> None:
        """Wait for a change, but not for longer than this."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def is_waiting(self) -> bool:
        return self._wake.is_set()

    async def prune(self, live_tabs: Iterable[str]) -> None:
        """Forget closed tabs, and feeds without viewers for a while."""
        live = set(live_tabs)
        for tab in [tab for tab in self._views if tab not in live]:
            del self._views[tab]
        now = time.monotonic()
        for room, entry in list(self._open.items()):
            self._forget(room)
            if self.views(room):
                entry.empty_since = None
            elif entry.empty_since is None:
                entry.empty_since = now
            elif now - entry.empty_since > LINGER_SECONDS:
                await self._stop(room)

    async def _stop(self, room: str) -> None:
        entry = self._open.pop(room)
        self._count_feeds(entry.store.org_id)
        entry.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await entry.task
        if entry.realtime is not self._realtime:
            await entry.realtime.close()

    async def aclose(self) -> None:
        for room in list(self._open):
            await self._stop(room)
        await self._realtime.close()
