"""The viewer, their organisation, and their permissions in it."""

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from typing import Any, TypedDict, cast

import reflex as rx

from app.frame.versions import latest
from app.http.cookies import read_sid
from app.project.errors import AppError, NotThere, SignedOut
from app.project.models import BrowserSession, Filter, Organisation, Page, Query, Row
from app.project.runtime import runtime
from app.project.store import Link, OrgStore
from app.ui.controls import organisation_in, within
from app.ui.view import count_needed, initials

OPERATORS = frozenset({"owner", "admin", "operator"})
ADMINS = frozenset({"owner", "admin"})
# What operators may do everywhere; whatever else a page asks about is an admin's.
OPERATORS_MAY = frozenset({
    "group.write", "job.apply", "job.approve", "job.cancel", "job.plan", "job.resolve", "module.lock", "module.write",
})  # fmt: skip
# The topics of the connection's mark and of the counts beside the menu.
LINK_TOPICS = ("link", "counts", "worker_releases", "facets")
# What a segmented control sends.
SEGMENT = str | list[str]
# Nothing is shown, so nothing changes either.
NO_LINK = "none"
# The most that REST answers at once.
REST_ROWS = 1000
# By table: the column that is set once a row was removed.
GONE = {
    "cloud_identities": "removed_at", "modules": "deleted_at", "sealing_keys": "retired_at", "service_accounts": "removed_at",
    "workers": "removed_at",
}  # fmt: skip


class OrgItem(TypedDict):
    id: str
    name: str
    initials: str
    role: str


def _saying(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a handler: the project's refusal ends it with a toast, and what it had assigned until then is sent."""

    @wraps(handler)
    async def said(*args: Any, **kwargs: Any) -> Any:
        try:
            return await handler(*args, **kwargs)
        except AppError as error:
            return say_error(error)

    return said


def takes(name: str, kind: Any = str, *, of: Any = None, most: int = 200) -> Any:
    """A handler that assigns what was typed, cut to `most`, or chosen: only one `of` these, which a name finds in the state."""

    def take(self, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        offered = self.get_value(of) if isinstance(of, str) else of
        if offered is None or (isinstance(value, str) and value in offered):
            setattr(self, name, value[:most] if isinstance(value, str) else value)

    take.__annotations__ = {"value": kind, "return": None}
    return take


def puts(**values: Any) -> Any:
    """A handler that assigns these values, such as those of a dialog that is closed."""

    def put(self: Any) -> None:
        for name, value in values.items():
            setattr(self, name, copy(value))

    return put


def acts(function: str, argument: str, said: str, text: str = "", **more: Any) -> Any:
    """A handler that changes the item whose id it takes: the database's function, the argument for the id, and the toast."""

    async def act(self, key):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return await self._act(function, {argument: key, **more}, said, text)

    act.__annotations__ = {"key": str, "return": Any}
    return act


class Sparing(rx.State, mixin=True):
    """A state that sends only what differs (whatever is assigned is sent, and sent whole) and whose handlers say refusals."""

    def __init_subclass__(cls, mixin: bool = False, **kwargs: Any) -> None:
        """Wrap the handlers, and have no event kept while there is no connection: a click of minutes ago is not what somebody wants now."""
        for name, handler in list(vars(cls).items()):
            if inspect.isfunction(handler) and not name.startswith("_"):
                # Reflex calls a handler as its function is called.
                handler.__qualname__ = f"{cls.__name__}.{name}"
            if inspect.iscoroutinefunction(handler) and not name.startswith("_"):
                setattr(cls, name, _saying(handler))
        super().__init_subclass__(mixin=mixin, **kwargs)
        for handler in cls.event_handlers.values():
            handler.event_actions.setdefault("temporal", True)

    def _assign(self, name: str, value: object) -> None:
        """Assign unless it is so already; compared without Reflex's proxy, which costs ten times as much."""
        held = self.get_value(name)
        if held is not value and held != value:
            setattr(self, name, value)

    def _go(self, path: str) -> rx.event.EventSpec:
        return rx.redirect(within(organisation_in(self.router.url.path), path))


class SessionState(Sparing, rx.State):
    """The signed-in person of this tab; every other state asks it."""

    email: str = ""
    user_id: str = ""
    orgs: list[OrgItem] = []
    org_id: str = ""
    org_slug: str = ""
    org_name: str = ""
    org_initials: str = ""
    role: str = ""
    # False for a guest, whom the project refuses what concerns the whole organisation.
    sees_all: bool = True
    can_operate: bool = False
    can_admin: bool = False
    # Somewhere, by the role or by one at a path: what the palette, the lists of all paths and "Needs you" offer.
    can_decide: bool = False
    can_run: bool = False
    can_write: bool = False
    verbs: list[str] = []
    link: str = ""
    link_since: str = ""
    is_unswept: bool = False
    without: str = ""
    runner_count: int = 0
    needs_me_count: int = 0
    module_count: int = 0
    is_counted: bool = False
    outdated_count: int = 0
    outdated_by_job: int = 0
    latest_version: str = ""

    async def _session(self) -> BrowserSession | None:
        sid = read_sid(self.router.headers.cookie or "")
        return await runtime().authorized.sessions.get(sid) if sid else None

    async def _must_session(self) -> BrowserSession:
        session = await self._session()
        if session is None:
            raise SignedOut
        return session

    async def _begin(self) -> BrowserSession:
        """Read the viewer and choose the organisation; raises when there is nobody or none."""
        session = await self._must_session()
        rows = await runtime().authorized.rpc(session, "my_organizations")
        organisations = [Organisation.from_row(row) for row in rows or []]
        runtime().hub.members.note(session, rows or [])
        self.email, self.user_id = session.email, session.user_id
        self.orgs = [{"id": o.id, "name": o.name, "initials": initials(o.name), "role": o.role} for o in organisations]
        url = self.router.url
        named = organisation_in(url.path) or str(url.query_parameters.get("org") or "")
        chosen = next((o for o in organisations if named in (o.id, o.slug)), None)
        is_foreign = bool(named) and chosen is None
        last = session.org_id or next((o.id for o in organisations if o.is_last), "")
        chosen = chosen or next((o for o in organisations if o.id == last), None)
        chosen = chosen or next(iter(organisations), None)
        if chosen is None:
            self.org_id = self.org_slug = self.org_name = self.org_initials = self.role = ""
            self.can_operate = self.can_admin = self.can_decide = self.can_run = self.can_write = False
            raise NotThere("You are not in an organisation yet.", "Create one, or ask for an invitation.")
        await self._choose(session, chosen)
        if is_foreign:
            self.link = NO_LINK
            # Numbers of jobs are each organisation's own: the same number here is another job.
            raise NotThere("You are not a member of the organisation that this link names.", "Ask for an invitation.")
        return session

    async def _choose(self, session: BrowserSession, org: Organisation) -> None:
        self.org_id, self.org_slug, self.org_name, self.org_initials = org.id, org.slug, org.name, initials(org.name)
        self.role, self.sees_all, self.without = org.role, org.sees_all, org.without
        self.can_operate, self.can_admin = org.role in OPERATORS, org.role in ADMINS
        self.can_decide, self.can_run, self.can_write = (
            self.can_operate or verb in org.verbs for verb in ("job.approve", "job.plan", "module.write")
        )
        if session.org_id != org.id:
            session.org_id = org.id
            await runtime().authorized.sessions.put(session)
            await runtime().authorized.rpc(session, "open_organization", {"p_org": org.id})

    async def _ask_verbs(self, path: str) -> None:
        """Ask what the viewer may do at the path that a page shows, unless their role suffices for all that pages offer."""
        args = {"p_org": self.org_id, "p_path": path}
        asked = path and not self.can_admin
        session = await self._must_session()
        self._assign("verbs", await runtime().authorized.rpc(session, "my_verbs", args) if asked else [])

    def _show_link(self, store: OrgStore) -> None:
        """Show how changes arrive, and the counts beside the menu entries."""
        self._assign("is_counted", True)
        self._assign("link", store.link.value)
        self._assign("link_since", store.link_since)
        self._assign("is_unswept", store.is_unswept)
        self._assign("runner_count", int(store.counts("workers").get("total") or 0))
        self._assign("module_count", int(store.counts("modules").get("total") or 0))
        self._assign("latest_version", latest(store.rows("worker_releases")))
        self._assign("outdated_by_job", int(store.facets.get("updated_by_job") or 0))
        self._assign("outdated_count", int(store.facets.get("outdated") or 0))
        others = store.counts("waits_for_others")
        self._assign(
            "needs_me_count", count_needed(store.counts("jobs"), others, self.user_id) if self.can_decide else 0
        )

    def _lose_link(self) -> None:
        """Show that the database does not answer, and since when."""
        if self.link != Link.OFFLINE.value:
            self.link, self.link_since = Link.OFFLINE.value, datetime.now(UTC).isoformat()

    @rx.event
    def try_now(self) -> rx.event.EventSpec | None:
        """Try to go live again at once; a page that was never loaded is loaded again."""
        if not self.org_id:
            return rx.call_script("window.location.reload()")
        runtime().hub.nudge(self.org_id)
        return None

    @rx.event
    async def switch_organisation(self, org_id: str) -> rx.event.EventSpec | None:
        if org_id not in {org["id"] for org in self.orgs}:
            return None
        # A full load: nothing of the other organisation may stay in this tab's states.
        return rx.call_script(f"window.location.assign('/dashboard/runners?org={org_id}')")


def may(*verbs: str) -> Any:
    """Whether the viewer may do one of these at the path that the page shows: by their role, or by one given there."""
    by_role = SessionState.can_operate if OPERATORS_MAY.intersection(verbs) else SessionState.can_admin
    for verb in verbs:
        by_role |= cast("Any", SessionState.verbs).contains(verb)
    return by_role


class AppState(Sparing, mixin=True):
    """The base of every page state: calls the project as the viewer."""

    async def _who(self) -> SessionState:
        return await self.get_state(SessionState)

    async def _org_id(self) -> str:
        return (await self._who()).org_id

    async def _rpc(self, name: str, args: dict[str, Any] | None = None) -> Any:
        session = await (await self._who())._must_session()
        return await runtime().authorized.rpc(session, name, args)

    async def _act(self, name: str, args: dict[str, Any], said: str, text: str = "") -> rx.event.EventSpec | None:
        """Change something, and say the result if there is one to say."""
        await self._rpc(name, args)
        return rx.toast.success(said, description=text) if said else None

    async def _invoke(self, name: str, body: dict[str, Any]) -> Any:
        session = await (await self._who())._must_session()
        return await runtime().authorized.invoke(session, name, body)

    async def _select(self, table: str, query: Query | None = None) -> Page:
        session = await (await self._who())._must_session()
        return await runtime().authorized.select(session, table, query)

    async def _select_all(self, table: str, query: Query) -> list[Row]:
        """Read every row, however many answers it takes; the query has an order."""
        rows: list[Row] = []
        while True:
            page = await self._select(table, replace(query, limit=REST_ROWS, offset=len(rows)))
            rows += page.rows
            if len(page.rows) < REST_ROWS:
                return rows

    async def _org_rows(self, table: str, *filters: Filter, **query: Any) -> list[Row]:
        """Read the organisation's rows of a table but those that were removed: as many as `limit`, or all in their order."""
        left = [Filter(GONE[table], "is", "null")] if table in GONE else []
        asked = Query(filters=(Filter("org_id", "eq", await self._org_id()), *left, *filters), **query)
        return await self._select_all(table, asked) if asked.limit is None else (await self._select(table, asked)).rows


class ShownSecret(AppState, mixin=True):
    """A page that shows a secret once: the browser keeps it, and no state has it."""

    shown_id: str = ""

    def _reveal(self, owner: Any, text: str) -> rx.event.EventSpec:
        """Send the secret to the browser in its own event: a state's var would be sent again and again."""
        self.shown_id = str(owner)
        return rx.call_script(f"window.runyard.secret('{self.shown_id}', '{text}')")

    @rx.event
    def forget(self) -> rx.event.EventSpec:
        """Show it no more; the browser forgets it."""
        gone, self.shown_id = self.shown_id, ""
        return rx.call_script(f"window.runyard.forget('{gone}')") if gone else rx.noop()


def connection_of(root: rx.State) -> tuple[str, str]:
    """Name the socket that a tab is connected by and the session of its cookie; `router` builds all of its parts again at each access."""
    session, headers = (root.get_value(f"rx_router_{part}") for part in ("session", "headers"))
    return session.session_id, read_sid(headers.cookie or "")


def sign_in_again() -> rx.event.EventSpec:
    """Lead somebody whose session is over to the sign-in page, which gives the reason and leads back to this page."""
    return rx.call_script("window.runyard.signInAgain()")


def lead_outside() -> list[rx.event.EventSpec]:
    """Lead somebody who is no longer a member to what is left to them, and say why."""
    said = "You are no longer a member of the organisation that was shown here."
    hint = "Ask one of its owners if you should be."
    return [rx.redirect("/dashboard/runners"), rx.toast.warning(said, description=hint, duration=60_000)]


def say_error(error: AppError) -> rx.event.EventSpec:
    """Show the result of the user's action and the next step as a toast."""
    if isinstance(error, SignedOut):
        return sign_in_again()
    return rx.toast.error(error.message, description=error.hint, duration=8000)
