"""The fan-out: shows the tabs what changed, who has waited longest first."""

import asyncio
import gc
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import cast

import reflex as rx
import structlog
from reflex_base.registry import RegistrationContext

from app.frame.releases import state as release_notes
from app.frame.session import LINK_TOPICS, SessionState, connection_of
from app.live.delivery import Delivery
from app.live.members import check_member, evict
from app.live.page import LivePage
from app.project.errors import Unreachable
from app.project.live_queries import HEARTBEAT
from app.project.runtime import runtime
from app.project.store import Changed

COALESCE_SECONDS = 0.1
# In a storm of changes tabs are updated at these intervals, instead of reading the next change after every tab.
NOTE_SECONDS = 0.005
# Topics that change every few seconds whether or not anything happened: they wait behind other changes.
HEARTBEATS = frozenset({"overview", "figures", "counts", "slots", "facets"})
# Tables that decide who sees what.
RIGHTS = frozenset({"memberships", "role_bindings", "team_members", "teams"})

log = structlog.get_logger(__name__)


class Waiting:
    """The tabs that wait for changes: rows before heartbeats, and the tab that has waited longest first."""

    def __init__(self, pause_seconds: float = COALESCE_SECONDS) -> None:
        """Start with nobody waiting; a tab that was just shown rows is shown the next after a pause."""
        self._pause_seconds = pause_seconds
        self._rows: dict[str, Changed] = {}
        self._heartbeats: dict[str, Changed] = {}
        self._shown_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._rows) + len(self._heartbeats)

    def add(self, tabs: Iterable[str], changed: Changed) -> None:
        """Have tabs shown this, together with what they wait for already."""
        is_heartbeat = all(topic in HEARTBEATS or topic.startswith(HEARTBEAT) for topic in changed.tables)
        queue = self._heartbeats if is_heartbeat else self._rows
        for tab in tabs:
            queue[tab] = merge(queue.get(tab), changed)

    def take(self, now: float) -> tuple[str, Changed] | None:
        """Take the next tab that may be shown something now, with all that it waits for."""
        tab = next((tab for tab in self._rows if self._due(tab) <= now), None)
        if tab is not None:
            self._shown_at[tab] = now
            return tab, merge(self._heartbeats.pop(tab, None), self._rows.pop(tab))
        tab = next(iter(self._heartbeats), None)
        return None if tab is None else (tab, self._heartbeats.pop(tab))

    def wait_seconds(self, now: float) -> float:
        """Return how long it is until one of those may be shown something."""
        return max(0.0, min((self._due(tab) for tab in self._rows), default=now) - now)

    def keep(self, tabs: Iterable[str]) -> None:
        kept = set(tabs)
        self._shown_at = {tab: at for tab, at in self._shown_at.items() if tab in kept}

    def _due(self, tab: str) -> float:
        return self._shown_at.get(tab, float("-inf")) + self._pause_seconds


async def watch_contact() -> None:
    """Notice that the project stopped answering, for as long as the process lives."""
    await runtime().hub.watch_contact()


async def fan_out(app: rx.App) -> None:
    """Show changes to the tabs they concern, for as long as the process lives."""
    show = _FanOut(app)
    # The collector stops everything while it looks for garbage: objects from before the first viewer are none.
    gc.freeze()
    while True:
        try:
            with app.set_contexts():
                await show.turn()
        except Exception:
            log.exception("fan_out_failed")
            await asyncio.sleep(1)


class _FanOut:
    """Shows one tab after another what waits for it: the first change at once, a burst a tenth of a second's worth."""

    def __init__(self, app: rx.App) -> None:
        self._app = app
        self._delivery = Delivery(app)
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
            await _show_to(self._app, self._delivery, *taken)
        elif waiting:
            pause = waiting.wait_seconds(now)
            await (asyncio.sleep(NOTE_SECONDS) if hub.is_waiting() else hub.wait(pause))
        else:
            waiting.keep(view.tab for view in hub.all_views())

    async def _note(self, changes: Mapping[str, Changed]) -> None:
        self._delivery.forget()
        for room, changed in changes.items():
            if changed.touches(RIGHTS):
                runtime().hub.members.forget()
                for sid, org_id in {(view.sid, view.org_id) for view in runtime().hub.views(room)}:
                    await check_member(self._app, sid, org_id)
            self._waiting.add((view.tab for view in runtime().hub.hearers(room, changed)), changed)


def merge(first: Changed | None, second: Changed) -> Changed:
    if first is None:
        return second
    tables = dict(first.tables)
    for table, ids in second.tables.items():
        tables[table] = tables.get(table, frozenset()) | ids
    return Changed(tables)


def _socket_of(app: rx.App, tab: str) -> str:
    """Name the socket that a tab's token is connected by; the public mapping is built again at each access."""
    record = app.event_namespace._token_manager.token_to_socket.get(tab)
    return record.sid if record is not None else ""


async def _show_to(app: rx.App, delivery: Delivery, tab: str, changed: Changed) -> None:
    """Show one tab what changed; whatever fails there concerns nobody else."""
    view = runtime().hub.view(tab)
    if view is None:
        return
    if _socket_of(app, tab) != view.socket:
        # The tab was closed, or somebody else has its token: they ask again, and are checked again.
        runtime().hub.leave(tab)
        return
    try:
        session = await runtime().authorized.sessions.get(view.sid)
        if session is None:
            await evict(app, view)
            return
        store = runtime().hub.store(view.room) or await runtime().hub.open(view.org_id, session)
        page = cast("type[LivePage]", RegistrationContext.get().base_states[view.page])
        token = rx.BaseStateToken(ident=view.tab, cls=cast("type[rx.State]", page))
        # As `app.modify_state` does it, but for the sending: the delivery sends.
        async with app.state_manager.modify_state_with_links(token) as root:
            if connection_of(root) != (view.socket, view.sid):
                # Anyone who has a tab's token can open its socket again: the page itself then loads again, with its
                # cookie; anybody else is shown nothing.
                runtime().hub.leave(tab)
                return
            if changed.touches(LINK_TOPICS):
                (await root.get_state(SessionState))._show_link(store)
            state = await root.get_state(cast("type[rx.State]", page))
            # What the page reads may fail where the project does not answer; its mark and banner are shown all the same.
            with suppress(Unreachable):
                await cast("LivePage", state)._show(store, changed)
            if changed.touches(release_notes.TOPICS):
                (await root.get_state(release_notes.ReleaseNotesState))._watch(store)
            await delivery.send(root, view.socket)
    except Exception:
        log.exception("show_failed", page=view.page)
