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
job ids) and `link`. _show runs within 100 ms of a change, only for tabs that show
the page and only when one of its topics changed; changed.ids(topic) names the rows.
"""

import asyncio
import contextlib
import time
from typing import ClassVar, TypeVar, cast

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
from app.states.session import AppState, SessionState

COALESCE_SECONDS = 0.1
# One statement often changes several rows: long enough for them to arrive, short enough not to be felt.
SETTLE_SECONDS = 0.015
PRUNE_SECONDS = 10.0
MEMBER_SECONDS = 60.0
RETRY_SECONDS = 5.0
ALWAYS = frozenset({"link", "memberships"})

log = structlog.get_logger(__name__)


Value = TypeVar("Value")


def plain(value: Value) -> Value:
    """A var's own value: comparing through Reflex's proxy costs ten times as much."""
    return cast("Value", getattr(value, "__wrapped__", value))


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

    async def _again(self) -> None:
        """Show again after a filter changed."""
        who = await self._who()
        session = await who._must_session()
        await self._show(await runtime().hub.open(who.org_id, session), EVERYTHING)


async def fan_out(app: rx.App) -> None:
    """Show changes to the tabs they concern: the first at once, a burst a tenth of a second's worth at a time."""
    shown_at = 0.0
    while True:
        pending = await runtime().hub.changes()
        pause = COALESCE_SECONDS if time.monotonic() - shown_at < COALESCE_SECONDS else SETTLE_SECONDS
        await asyncio.sleep(pause)
        if runtime().hub.is_waiting():
            for org_id, changed in (await runtime().hub.changes()).items():
                pending[org_id] = _merge(pending.get(org_id), changed)
        shown_at = time.monotonic()
        for org_id, changed in pending.items():
            await _show_org(app, org_id, changed)


async def _show_org(app: rx.App, org_id: str, changed: Changed) -> None:
    for view in runtime().hub.views(org_id):
        if "memberships" in changed.tables:
            await _check_member(app, view)
        if changed.touches(view.topics):
            await _show_to(app, view, changed)


def _merge(first: Changed | None, second: Changed) -> Changed:
    tables = dict(first.tables) if first else {}
    for table, ids in second.tables.items():
        tables[table] = tables.get(table, frozenset()) | ids
    return Changed(tables)


async def _show_to(app: rx.App, view: View, changed: Changed) -> None:
    """Show one tab what changed; whatever fails there concerns nobody else."""
    if view.tab not in app.event_namespace.token_to_sid:
        runtime().hub.leave(view.tab)
        return
    try:
        session = await runtime().gate.sessions.get(view.sid)
        if session is None:
            await evict(app, view)
            return
        store = await runtime().hub.open(view.org_id, session)
        page = cast("type[LivePage]", RegistrationContext.get().base_states[view.page])
        token = rx.BaseStateToken(ident=view.tab, cls=cast("type[rx.State]", page))
        async with app.modify_state(token) as root:
            who = await root.get_state(SessionState)
            who._show_link(store)
            state = await root.get_state(cast("type[rx.State]", page))
            await cast("LivePage", state)._show(store, changed)
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
        for view in runtime().hub.all_views():
            # Once a minute per session, however many tabs it has; a change of members rings at once.
            if checked_at.setdefault((view.sid, view.org_id), now) == now:
                await _check_member(app, view)


async def _check_member(app: rx.App, view: View) -> None:
    try:
        session = await runtime().gate.sessions.get(view.sid)
        if session is None:
            await evict(app, view)
            return
        rows = await runtime().gate.rpc(session, "my_organizations")
        if view.org_id not in {str(row["id"]) for row in rows or []}:
            await evict(app, view, "/dashboard/runners")
    except SignedOut:
        await evict(app, view)
    except AppError:
        return
    except Exception:
        log.exception("member_check_failed", page=view.page)
