"""The tabs that show each organisation, and the feeds that run for them."""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

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

    def hears(self, changed: Changed) -> bool:
        """Return whether a change concerns what this tab shows."""
        return changed.touches(self.topics) or any(changed.touches(query.notices) for query in self.queries)


@dataclass
class _Open:
    store: OrgStore
    feed: OrgFeed
    task: asyncio.Task[None]
    empty_since: float | None = None


@dataclass
class _Pending:
    """Changes that wait to be shown together."""

    tables: dict[str, dict[str, set[str]]] = field(default_factory=dict)

    def add(self, org_id: str, table: str, row_id: str) -> None:
        ids = self.tables.setdefault(org_id, {}).setdefault(table, set())
        if row_id:
            ids.add(row_id)

    def take(self) -> dict[str, Changed]:
        taken, self.tables = self.tables, {}
        return {
            org_id: Changed({table: frozenset(ids) for table, ids in tables.items()})
            for org_id, tables in taken.items()
        }


class TabHub:
    """The process's views and feeds."""

    def __init__(self, authorized: AuthorizedClient, realtime: RealtimeClient) -> None:
        """Start with nobody looking."""
        self.authorized = authorized
        self.members = Members(authorized)
        self._realtime = realtime
        self._views: dict[str, View] = {}
        self._open: dict[str, _Open] = {}
        self._pending = _Pending()
        self._wake = asyncio.Event()
        self._opening = asyncio.Lock()

    def enter(self, view: View) -> None:
        """A tab shows a live page from now on."""
        self._views[view.tab] = view

    def leave(self, tab: str) -> None:
        """A tab shows nothing live any more."""
        self._views.pop(tab, None)

    async def ask(self, tab: str, org_id: str, session: BrowserSession, queries: Iterable[LiveQuery]) -> list[Held]:
        """A tab shows these queries from now on, and no earlier ones; answered for one of the members."""
        asked, view = tuple(queries), self._views.get(tab)
        if view is not None:
            self._views[tab] = replace(view, queries=frozenset(asked))
        answers = await asyncio.gather(*(self._open[org_id].feed.asker.answer(query, session) for query in asked))
        self._forget(org_id)
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
            asker = self._open[view.org_id].feed.asker
            await asyncio.gather(*(asker.renew(query, session) for query in view.queries))

    def _forget(self, org_id: str) -> None:
        """Keep the answers that are on screens, and no others."""
        entry = self._open.get(org_id)
        if entry is not None:
            entry.store.live_queries.keep(query.key for view in self.views(org_id) for query in view.queries)

    def view(self, tab: str) -> View | None:
        """Return the view of a tab, if it shows something live."""
        return self._views.get(tab)

    def views(self, org_id: str) -> list[View]:
        """List the tabs that look at an organisation."""
        return [view for view in self._views.values() if view.org_id == org_id]

    def hearers(self, org_id: str, changed: Changed) -> Iterator[View]:
        """List the tabs that a change concerns; those with the same topics and queries are checked once."""
        heard: dict[tuple[frozenset[str], frozenset[LiveQuery]], bool] = {}
        for view in self.views(org_id):
            interest = view.topics, view.queries
            if interest not in heard:
                heard[interest] = view.hears(changed)
            if heard[interest]:
                yield view

    def all_views(self) -> list[View]:
        """List every tab that shows a live page."""
        return list(self._views.values())

    async def open(self, org_id: str, session: BrowserSession) -> OrgStore:
        """Return an organisation's store, filled, to one of its members; starts its feed with the first tab."""
        await self.members.check(session, org_id)
        async with self._opening:
            entry = self._open.get(org_id)
            if entry is None or entry.task.done():
                entry = self._start(org_id)
        if not entry.store.is_loaded:
            await entry.feed.load(session)
        entry.empty_since = None
        return entry.store

    def _start(self, org_id: str) -> _Open:
        store = OrgStore(org_id)
        feed = OrgFeed(
            store,
            self.authorized,
            self._realtime,
            lambda: self.member(org_id),
            lambda topic: self._is_wanted(org_id, topic),
        )
        store.listen(lambda table, row_id: self._note(org_id, table, row_id))
        task = asyncio.create_task(feed.run(), name=f"feed:{org_id}")
        entry = self._open[org_id] = _Open(store, feed, task)
        return entry

    def _is_wanted(self, org_id: str, topic: str) -> bool:
        return any(topic in view.topics for view in self.views(org_id))

    def store(self, org_id: str) -> OrgStore | None:
        """Return an organisation's store if it is open and filled."""
        entry = self._open.get(org_id)
        return entry.store if entry is not None and entry.store.is_loaded else None

    async def load_figures(self, org_id: str, session: BrowserSession) -> None:
        """Have the last day's figures in an open organisation's store."""
        await self._open[org_id].feed.load_figures(session)

    def nudge(self, org_id: str) -> None:
        """Make a waiting feed try again now."""
        entry = self._open.get(org_id)
        if entry is not None:
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

    def _note(self, org_id: str, table: str, row_id: str) -> None:
        self._pending.add(org_id, table, row_id)
        self._wake.set()

    async def member(self, org_id: str) -> BrowserSession | None:
        """Find a signed-in viewer of this organisation, to watch with their token."""
        stale: BrowserSession | None = None
        for view in self.views(org_id):
            session = await self.authorized.sessions.get(view.sid)
            if session is None:
                continue
            try:
                return await self.authorized.fresh(session)
            except SignedOut:
                continue
            except Unreachable:
                stale = stale or session
        # The next request with it gets the same refusal, and shows it.
        return stale

    async def changes(self) -> dict[str, Changed]:
        """Wait for changes and take all that there are, by organisation."""
        if not self._wake.is_set():
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
        """Return whether changes wait to be taken."""
        return self._wake.is_set()

    async def prune(self, live_tabs: Iterable[str]) -> None:
        """Forget closed tabs, and feeds without viewers for a while."""
        live = set(live_tabs)
        for tab in [tab for tab in self._views if tab not in live]:
            del self._views[tab]
        now = time.monotonic()
        for org_id, entry in list(self._open.items()):
            self._forget(org_id)
            if self.views(org_id):
                entry.empty_since = None
            elif entry.empty_since is None:
                entry.empty_since = now
            elif now - entry.empty_since > LINGER_SECONDS:
                await self._stop(org_id)

    async def _stop(self, org_id: str) -> None:
        entry = self._open.pop(org_id)
        entry.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await entry.task

    async def aclose(self) -> None:
        """Stop every feed and the connection."""
        for org_id in list(self._open):
            await self._stop(org_id)
        await self._realtime.close()
