"""Live pages: how a page is shown something, and is shown it again when it changes.

A live page's state derives from LivePage, names its TOPICS and writes _show():

    class RunnersState(LivePage, rx.State):
        TOPICS: ClassVar[frozenset[str]] = frozenset({"facets"})
        rows: list[RunnerRow] = []

        async def _prepare(self, session: BrowserSession) -> None:
            await self._ask(self._query())          # what it lists, as live queries (app/project/live_queries.py)

        async def _show(self, store: OrgStore, changed: Changed) -> None:
            held = store.live_queries.held(self._query())
            rows = held.make("rows", build_rows) if held else []
            self._assign("rows", rows)             # assign only what differs: a delta is a whole var

and its page is registered with on_load=RunnersState.load. Topics are the live
tables (workers, worker_instances, provision_jobs, worker_releases, rollouts), those that wake only
(modules, groups, approvals, worker_assignments, memberships), `overview` (every few seconds), `counts`,
`slots` and `facets` (only when they are others), `log` (ids are job ids), `figures` and `link`. _show runs at once after
a change, in a burst every 100 ms, only for tabs that show the page and only when one of its topics, or the
answer of one of its live queries, changed; changed.ids(topic) names the rows.
"""

from typing import Any, ClassVar

import reflex as rx

from app.frame.layout import say_in_address
from app.frame.session import AppState, sign_in_again
from app.live.patches import NO_FLASHES, draw, tint
from app.project.errors import AppError, NotThere, SignedOut, Unreachable
from app.project.hub import View
from app.project.live_queries import Held, LiveQuery
from app.project.models import BrowserSession
from app.project.runtime import runtime
from app.project.store import AGAIN, EVERYTHING, Changed, OrgStore

RETRY_SECONDS = 5.0
# The mark, the menu and the release notes are on every page, and every page may have missed something.
ALWAYS = frozenset({"link", "memberships", "worker_releases", "counts", AGAIN})
# What may change who may do what at a path.
RIGHTS = frozenset({"role_bindings", "roles", "service_accounts", "team_members", "teams", "memberships", AGAIN})


def chooses(name: str, kind: Any = str) -> Any:
    """A handler that narrows a page's list by one of its filters."""

    async def choose(self, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return await self._choose(name, value if isinstance(value, str) else "")

    choose.__annotations__ = {"value": kind, "return": Any}
    return choose


class LivePage(AppState, mixin=True):
    """A page that is shown again when what it shows changes."""

    TOPICS: ClassVar[frozenset[str]] = frozenset()

    is_loading: bool = True
    is_missing: bool = False
    problem: str = ""
    problem_hint: str = ""

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        """Assign what this page shows; called with EVERYTHING at first."""
        raise NotImplementedError

    async def _prepare(self, session: BrowserSession) -> None:
        """Reset and read what the page needs before its first _show."""

    @rx.event
    async def load(self) -> rx.event.EventSpec | None:
        """Open the page: read the viewer and the address, and show it."""
        self.is_loading, self.is_missing, self.problem, self.problem_hint = True, False, "", ""
        try:
            way = await self._open()
        except SignedOut:
            return sign_in_again()
        except NotThere as error:
            return await self._not_there(error)
        except Unreachable as error:
            return await self._cut_off(error)
        except AppError as error:
            way, self.problem, self.problem_hint = None, error.message, error.hint
        self.is_loading = False
        return way

    async def _cut_off(self, error: Unreachable) -> rx.event.EventSpec:
        """Show the failure, and let the browser ask again: a page must recover without a reload."""
        self.is_loading = False
        self.problem, self.problem_hint = error.message, error.hint
        (await self._who())._lose_link()
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
        self.is_missing = True
        self.problem, self.problem_hint = error.message, error.hint
        return None

    async def _open(self) -> rx.event.EventSpec | None:
        who = await self._who()
        session = await who._begin()
        view = View(
            tab=self.router.session.client_token,
            socket=self.router.session.session_id,
            sid=session.sid,
            org_id=who.org_id,
            page=type(self).get_full_name(),
            topics=self.TOPICS | ALWAYS,
            room=await runtime().hub.members.check(session, who.org_id),
        )
        # Entered before the first read, so that nothing in between is missed.
        runtime().hub.enter(view)
        store = await runtime().hub.open(who.org_id, session)
        # First: a page of something that is not there is in contact, too.
        who._show_link(store)
        await self._prepare(session)
        await self._show(store, EVERYTHING)
        return None

    async def _ask(self, *queries: LiveQuery) -> None:
        """Start queries, and show the page again whenever an answer changes; earlier queries are forgotten."""
        who = await self._who()
        tab, session = self.router.session.client_token, await who._must_session()
        await runtime().hub.ask(tab, who.org_id, session, queries)

    def _draw(self, held: Held, rows: list[Any], changed: Changed) -> None:
        """Send the page of a table or a few patches over it, and tint what differs from what was shown."""
        drawn = held.once(draw, self.get_value("rows"), self.get_value("patches"), rows)
        for name in ("rows", "patches"):
            if self.get_value(name) is not getattr(drawn, name):
                setattr(self, name, getattr(drawn, name))
        flashes = (
            {} if changed.is_everything else held.once(tint, self.get_value("flashes") or NO_FLASHES, drawn.differing)
        )
        if flashes:
            self._assign("flashes", flashes)

    async def _again(self, changed: Changed = EVERYTHING) -> None:
        """Show again after a filter changed, or something was done."""
        who = await self._who()
        session = await who._must_session()
        store = await runtime().hub.open(who.org_id, session)
        await runtime().hub.ask_again(self.router.session.client_token, session)
        await self._show(store, changed)

    async def _act(self, name: str, args: dict[str, Any], said: str, text: str = "") -> rx.event.EventSpec | None:
        """Show the page again after the change, too."""
        toast = await super()._act(name, args, said, text)
        await self._again()
        return toast

    async def _renew(self) -> None:
        """Ask the database again and show the answers, after this page changed something."""
        who = await self._who()
        session = await who._must_session()
        store = await runtime().hub.open(who.org_id, session)
        await runtime().hub.renew(self.router.session.client_token, session)
        await self._show(store, EVERYTHING)


class Filtered(LivePage, mixin=True):
    """A list that the reader's `choices` narrow, which the address has as well; it is shown a page at a time."""

    ADDRESS: ClassVar[str]
    PAGE_SIZE: ClassVar[int] = 50

    total: int = 0
    page_number: int = 0
    is_filtered: bool = False

    def _query(self) -> LiveQuery:
        """Ask for the page that was chosen."""
        raise NotImplementedError

    def _take(self, chosen: Any) -> None:
        self._assign("choices", chosen)
        self._assign("is_filtered", not chosen.is_open)
        self.page_number = 0

    async def _choose(self, name: str, value: str) -> rx.event.EventSpec | None:
        held = self.get_value("choices")
        chosen = held.with_choice(name, value)
        return None if chosen == held else await self._change(chosen)

    async def _change(self, chosen: Any) -> rx.event.EventSpec:
        """Show what was chosen: the choices, the rows and the address change together."""
        self._take(chosen)
        await self._turn()
        return say_in_address(self.ADDRESS, chosen.address())

    async def _turn(self) -> None:
        await self._ask(self._query())
        await LivePage._again(self)

    @rx.event
    async def clear(self) -> rx.event.EventSpec:
        return await self._change(type(self.get_value("choices"))())

    @rx.event
    async def turn_page(self, step: int) -> None:
        last = max(0, self.total - 1) // self.PAGE_SIZE
        self.page_number = min(last, max(0, self.page_number + (1 if step > 0 else -1)))
        await self._turn()


class LogPages(LivePage, mixin=True):
    """A page with a log, `deliveries`, whose pages begin before an entry."""

    before: list[str] = []
    has_older: bool = False

    def _before(self) -> int | None:
        return int(self.before[-1]) if self.before else None

    @rx.event
    async def turn(self, step: int) -> None:
        shown = self.get_value("deliveries")
        if step > 0 and shown:
            self.before = [*self.before, shown[-1]["id"]]
        elif step < 0:
            self.before = self.before[:-1]
        await self._again()
