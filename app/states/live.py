"""Live pages: how a page is shown something, and is shown it again when it changes.

A live page's state derives from LivePage, names its TOPICS and writes _show():

    class RunnersState(LivePage, rx.State):
        TOPICS: ClassVar[frozenset[str]] = frozenset({"workers", "overview"})
        rows: list[RunnerRow] = []

        async def _show(self, store: OrgStore, changed: Changed) -> None:
            rows = build_rows(store, self.search)
            if rows != self.rows:          # assign only what differs: a delta is a whole var
                self.rows = rows

and its page is registered with on_load=RunnersState.load. Topics are the live
tables (workers, worker_instances, provision_jobs, worker_releases, rollouts), the rung ones
(modules, groups, approvals, worker_assignments, memberships), `overview`, `log` (ids are
job ids), `figures` and `link`. _show runs at once after a change, in a burst every 100 ms, only for tabs
that show the page and only when one of its topics changed; changed.ids(topic) names the rows.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import ClassVar, cast

import reflex as rx
import structlog
from reflex.event import Event
from reflex.state import StateUpdate
from reflex_base.registry import RegistrationContext

from app.services.errors import AppError, NotThere, SignedOut, Unreachable
from app.services.hub import View
from app.services.models import Session
from app.services.runtime import runtime
from app.services.store import EVERYTHING, Changed, Link, OrgStore
from app.states import release_notes
from app.states.session import AppState, SessionState

COALESCE_SECONDS = 0.1
# In a storm of changes the tabs are told between these moments, and not the next change after every tab.
NOTE_SECONDS = 0.005
PRUNE_SECONDS = 10.0
MEMBER_SECONDS = 60.0
RETRY_SECONDS = 5.0
# The mark, the menu and the release notes are on every page.
ALWAYS = frozenset({"link", "memberships", "worker_releases"})
# What comes every few seconds whether or not anything happened: it waits behind what did.
BEATS = frozenset({"overview", "figures"})

log = structlog.get_logger(__name__)


class LivePage(AppState, mixin=True):
    """A page that is shown again when what it shows changes."""

    TOPICS: ClassVar[frozenset[str]] = frozenset()

    is_loading: bool = True
    problem: str = ""
    problem_hint: str = ""

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        """Assign what this page shows; called with EVERYTHING at first."""
        raise NotImplementedError

    async def _prepare(self, session: Session) -> None:
        """Reset and read what the page needs before its first _show."""

    @rx.event
    async def load(self) -> rx.event.EventSpec | None:
        """Open the page: who looks, at what, and show it."""
        self.is_loading, self.problem, self.problem_hint = True, "", ""
        try:
            await self._open()
        except SignedOut:
            return rx.redirect("/login")
        except NotThere as error:
            return await self._not_there(error)
        except Unreachable as error:
            return await self._cut_off(error)
        except AppError as error:
            self.problem, self.problem_hint = error.message, error.hint
        self.is_loading = False
        return None

    async def _cut_off(self, error: Unreachable) -> rx.event.EventSpec:
        """Say so, and have the browser ask again: a page must heal by itself."""
        self.is_loading = False
        self.problem, self.problem_hint = error.message, error.hint
        (await self._who()).link = Link.OFFLINE.value
        wait = f"new Promise((done) => setTimeout(done, {RETRY_SECONDS * 1000:.0f}))"
        return rx.call_script(wait, callback=type(self).retry)

    @rx.event
    async def retry(self) -> rx.event.EventSpec | None:
        """Open the page again, unless somebody already did."""
        return await self.load() if self.problem else None

    async def _not_there(self, error: NotThere) -> rx.event.EventSpec | None:
        self.is_loading = False
        if not (await self._who()).org_id:
            return rx.redirect("/welcome")
        self.problem, self.problem_hint = error.message, error.hint
        return None

    async def _open(self) -> None:
        who = await self._who()
        session = await who._begin()
        view = View(
            tab=self.router.session.client_token,
            socket=self.router.session.session_id,
            sid=session.sid,
            org_id=who.org_id,
            page=type(self).get_full_name(),
            topics=self.TOPICS | ALWAYS,
        )
        # Entered before the first read, so that nothing in between is missed.
        runtime().hub.enter(view)
        store = await runtime().hub.open(who.org_id, session)
        await self._prepare(session)
        await who._count_modules(session)
        who._show_link(store)
        await self._show(store, EVERYTHING)

    async def _again(self, changed: Changed = EVERYTHING) -> None:
        """Show again after a filter changed."""
        who = await self._who()
        session = await who._must_session()
        await self._show(await runtime().hub.open(who.org_id, session), changed)


class Waiting:
    """Which tabs wait to be shown what: rows before beats, and who has waited longest first."""

    def __init__(self, pause_seconds: float = COALESCE_SECONDS) -> None:
        """Start with nobody waiting; a tab that was just shown rows is shown the next after a pause."""
        self._pause_seconds = pause_seconds
        self._rows: dict[str, Changed] = {}
        self._beats: dict[str, Changed] = {}
        self._shown_at: dict[str, float] = {}

    def __len__(self) -> int:
        """Say how many tabs wait."""
        return len(self._rows) + len(self._beats)

    def add(self, tab: str, changed: Changed) -> None:
        """Have a tab shown this, together with what it waits for already."""
        queue = self._beats if changed.tables.keys() <= BEATS else self._rows
        queue[tab] = merge(queue.get(tab), changed)

    def take(self, now: float) -> tuple[str, Changed] | None:
        """Take the next tab that may be shown something now, with all that it waits for."""
        tab = next((tab for tab in self._rows if self._due(tab) <= now), None)
        if tab is not None:
            self._shown_at[tab] = now
            return tab, merge(self._beats.pop(tab, None), self._rows.pop(tab))
        tab = next(iter(self._beats), None)
        return None if tab is None else (tab, self._beats.pop(tab))

    def wait_seconds(self, now: float) -> float:
        """Say how long it is until one of those may be shown something."""
        return max(0.0, min((self._due(tab) for tab in self._rows), default=now) - now)

    def keep(self, tabs: Iterable[str]) -> None:
        """Forget the tabs that are gone."""
        kept = set(tabs)
        self._shown_at = {tab: at for tab, at in self._shown_at.items() if tab in kept}

    def _due(self, tab: str) -> float:
        return self._shown_at.get(tab, float("-inf")) + self._pause_seconds


async def fan_out(app: rx.App) -> None:
    """Show changes to the tabs they concern, for as long as the process lives."""
    show = _FanOut(app)
    while True:
        try:
            await show.turn()
        except Exception:
            log.exception("fan_out_failed")
            await asyncio.sleep(1)


class _FanOut:
    """Shows one tab after another what waits for it: the first change at once, a burst a tenth of a second's worth."""

    def __init__(self, app: rx.App) -> None:
        self._app = app
        self._waiting = Waiting()
        self._noted_at = 0.0

    async def turn(self) -> None:
        """Note what is new, and show it to the next tab; wait when there is nothing to do."""
        hub, waiting, now = runtime().hub, self._waiting, time.monotonic()
        if not waiting or (hub.is_waiting() and now - self._noted_at > NOTE_SECONDS):
            await self._note(await hub.changes())
            now = self._noted_at = time.monotonic()
        taken = waiting.take(now)
        if taken is not None:
            await _show_to(self._app, *taken)
        elif waiting:
            pause = waiting.wait_seconds(now)
            await (asyncio.sleep(NOTE_SECONDS) if hub.is_waiting() else hub.wait(pause))
        else:
            waiting.keep(view.tab for view in hub.all_views())

    async def _note(self, changes: Mapping[str, Changed]) -> None:
        for org_id, changed in changes.items():
            if "memberships" in changed.tables:
                for sid in {view.sid for view in runtime().hub.views(org_id)}:
                    await _check_member(self._app, sid, org_id)
            for view in runtime().hub.views(org_id):
                if changed.touches(view.topics):
                    self._waiting.add(view.tab, changed)


def merge(first: Changed | None, second: Changed) -> Changed:
    """Put two changes together."""
    if first is None:
        return second
    tables = dict(first.tables)
    for table, ids in second.tables.items():
        tables[table] = tables.get(table, frozenset()) | ids
    return Changed(tables)


def _socket_of(app: rx.App, tab: str) -> str:
    """Name the socket that a tab's token is connected by; the public mapping is made anew for each question."""
    record = app.event_namespace._token_manager.token_to_socket.get(tab)
    return record.sid if record is not None else ""


async def _show_to(app: rx.App, tab: str, changed: Changed) -> None:
    """Show one tab what changed; whatever fails there concerns nobody else."""
    view = runtime().hub.view(tab)
    if view is None:
        return
    if _socket_of(app, tab) != view.socket:
        # The tab is gone, or somebody else has its token: whoever it is asks again, and is judged again.
        runtime().hub.leave(tab)
        return
    try:
        session = await runtime().gate.sessions.get(view.sid)
        if session is None:
            await evict(app, view)
            return
        store = runtime().hub.store(view.org_id) or await runtime().hub.open(view.org_id, session)
        page = cast("type[LivePage]", RegistrationContext.get().base_states[view.page])
        token = rx.BaseStateToken(ident=view.tab, cls=cast("type[rx.State]", page))
        async with app.modify_state(token) as root:
            if root.router.session.session_id != view.socket:
                # Whoever has a tab's token can open its socket again: the page itself then loads again, with its
                # cookie; anybody else is shown nothing.
                runtime().hub.leave(tab)
                return
            who = await root.get_state(SessionState)
            if who._sid() != view.sid:
                runtime().hub.leave(tab)
                return
            who._show_link(store)
            state = await root.get_state(cast("type[rx.State]", page))
            await cast("LivePage", state)._show(store, changed)
            if changed.touches(release_notes.TOPICS):
                (await root.get_state(release_notes.ReleaseNotesState))._watch(store)
    except Exception:
        log.exception("show_failed", page=view.page)


async def evict(app: rx.App, view: View, to: str = "/login") -> None:
    """End a tab's view: its session or membership is over, so its states are emptied too."""
    runtime().hub.leave(view.tab)
    token = rx.BaseStateToken(ident=view.tab, cls=SessionState)
    async with app.modify_state(token) as root:
        root.reset()
    update = StateUpdate(events=Event.from_event_type(rx.redirect(to)))
    await app.event_namespace.emit_update(update=update, token=view.tab)


async def check_members(app: rx.App) -> None:
    """Drop tabs that closed, and end the views of people who are no longer members."""
    checked_at: dict[tuple[str, str], float] = {}
    while True:
        await asyncio.sleep(PRUNE_SECONDS)
        with contextlib.suppress(Exception):
            await runtime().hub.prune(app.event_namespace.token_to_sid)
        now = time.monotonic()
        checked_at = {key: at for key, at in checked_at.items() if now - at < MEMBER_SECONDS}
        looking = {(view.sid, view.org_id) for view in runtime().hub.all_views()}
        # Once a minute per session, however many tabs it has; a change of members rings at once.
        for key in looking - checked_at.keys():
            checked_at[key] = now
            await _check_member(app, *key)


async def _check_member(app: rx.App, sid: str, org_id: str) -> None:
    """End every view that a session has of an organisation, if its person is no member any more."""
    to = await _way_out(sid, org_id)
    for view in runtime().hub.views(org_id) if to else ():
        if view.sid == sid:
            await evict(app, view, to)


async def _way_out(sid: str, org_id: str) -> str:
    """Say where somebody must go who may not look here any more; empty while they may, or nobody can tell."""
    try:
        session = await runtime().gate.sessions.get(sid)
        if session is None:
            return "/login"
        rows = await runtime().gate.rpc(session, "my_organizations")
        return "" if org_id in {str(row["id"]) for row in rows or []} else "/dashboard/runners"
    except SignedOut:
        return "/login"
    except AppError:
        return ""
    except Exception:
        log.exception("member_check_failed")
        return ""
