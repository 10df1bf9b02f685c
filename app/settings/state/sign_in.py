"""The sign-in of an organisation: its identity provider, its domains, the teams that groups fill, and the owner who enters without it."""

from typing import Any, ClassVar, TypedDict, cast
from urllib.parse import unquote

import reflex as rx

from app.frame.session import puts, takes
from app.http.cookies import SAID, read_sid
from app.live.item_form import OpenForm, Removal, Removing
from app.live.page import LivePage
from app.project.models import BrowserSession, Row
from app.project.runtime import runtime
from app.project.store import Changed, OrgStore
from app.ui.view import read

PAIR = tuple[str, str]
NO_ROLE, NOBODY = "none", ""
ROLES = {NO_ROLE: "No role: not a member", "guest": "Guest", "viewer": "Viewer", "operator": "Operator"}
SHOWN_CLAIMS = ("iss", "sub", "email", "email_verified", "name")


class DomainView(TypedDict):
    id: str
    name: str
    is_proved: bool
    record: str
    value: str


class TeamView(TypedDict):
    id: str
    name: str
    claim: str


class Provider(TypedDict):
    """The provider as the form shows it; its secret is at Auth alone."""

    name: str
    issuer: str
    client_id: str
    secret_hint: str
    claim: str
    hours: str


def build_claims(mine: Row | None) -> list[PAIR]:
    """Show what the viewer's own last sign-in said, and what became of it."""
    if not mine:
        return []
    claims = mine["claims"]
    said = [(name, str(claims[name])) for name in SHOWN_CLAIMS if name in claims]
    said += [(name, str(value)) for name, value in sorted((claims.get("custom_claims") or {}).items())]
    result = "only tested: nothing was changed" if mine["is_test"] else f"confirmed {mine['confirmed_at']}"
    return [*said, ("→ teams", ", ".join(mine["teams"]) or "none"), ("→ account", result)]


class SignInState(Removing, OpenForm, LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = frozenset({"teams"})
    REMOVAL = Removal("remove_sign_in_domain", "p_domain", "Removed {}")

    has_provider: bool = False
    provider: Provider = read(Provider, {})
    rows: list[DomainView] = []
    teams: list[TeamView] = []
    chosen: TeamView = read(TeamView, {})
    is_choosing: bool = False
    is_ending: bool = False
    claims: list[PAIR] = []
    is_joined: bool = False
    said: str = ""
    owners: dict[str, str] = {}
    outside: str = ""
    default_role: str = NO_ROLE
    is_only: bool = False
    break_glass: str = NOBODY
    callback: str = ""

    set_only = takes("is_only", bool)
    ask_end = takes("is_ending", bool)
    close = puts(is_choosing=False)

    async def _prepare(self, session: BrowserSession) -> None:
        self.is_open, self.is_choosing, self.is_ending, self.removing = False, False, False, ""
        # The fault of a test that just ended.
        self.said = unquote(read_sid(self.router.headers.cookie or "", SAID))
        self.callback = f"{runtime().settings.runner_url}/auth/v1/callback"

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        found = await self._rpc("sign_in_settings", {"p_org": store.org_id})
        provider = found["provider"] or {}
        self.has_provider = bool(provider)
        self.provider = read(Provider, {"claim": "groups", "hours": 24, **provider})
        domains = ({**row, "id": row["domain"], "name": row["domain"]} for row in found["domains"])
        self._assign("rows", [read(DomainView, row, is_proved=row["proved_at"]) for row in domains])
        self._assign("teams", [read(TeamView, team, claim=team["claim"] or "") for team in found["teams"]])
        self._assign("claims", build_claims(found["mine"]))
        self.is_joined = bool(found["mine"]) and not found["mine"]["is_test"]
        self.owners = {owner["email"]: owner["id"] for owner in found["owners"]}
        self.outside = ", ".join(found["outside"][:20])
        self.default_role = provider.get("default_role") or NO_ROLE
        self.is_only = bool(provider.get("is_only"))
        self.break_glass = next((e for e, key in self.owners.items() if key == provider.get("break_glass")), NOBODY)

    async def _removal_arguments(self, found: Any) -> dict[str, Any]:
        return {"p_org": await self._org_id(), "p_domain": found["id"]}

    @rx.event
    def edit_provider(self) -> None:
        self._draw_form()

    @rx.event
    async def save_provider(self, form: dict[str, Any]) -> Any:
        """Save the provider; the secret goes through to Auth, and an empty one stays as it is."""
        names = ("name", "issuer", "client_id", "client_secret", "claim", "scopes")
        given = {name: str(form.get(name) or "").strip() for name in names}
        self.errors = {name: "This is needed." for name in ("name", "issuer", "client_id") if not given[name]}
        if not self.has_provider and not given["client_secret"]:
            self.errors = {**self.errors, "client_secret": "This is needed."}
        if self.errors or not self.is_open:
            return None
        spec = {name: value for name, value in given.items() if value}
        await self._invoke("sign-in", {"organization": await self._org_id(), **spec})
        self.is_open = False
        await self._again()
        return rx.toast.success("Saved", description="Prove a domain next; then sign in there yourself.")

    @rx.event
    async def remove_provider(self) -> Any:
        self.is_ending = False
        await self._invoke("sign-in", {"organization": await self._org_id(), "remove": True})
        await self._again()
        return rx.toast.success("Removed the provider", description="Members sign in with a password.")

    @rx.event
    async def add_domain(self, form: dict[str, Any]) -> Any:
        """List a domain; its row shows the DNS record that proves it."""
        args = {"p_org": await self._org_id(), "p_domain": str(form.get("domain") or "")}
        return await self._act("add_sign_in_domain", args, "Added", "Set the DNS record, then check it.")

    @rx.event
    async def check(self, domain: str) -> Any:
        done = await self._invoke("sign-in", {"organization": await self._org_id(), "domain": domain})
        await self._again()
        if done["proved_at"]:
            return rx.toast.success(f"{domain} is proved")
        return rx.toast.info("The record is not there yet", description="DNS may take a while to show it.")

    @rx.event
    def choose(self, key: str) -> None:
        found = next((team for team in self.teams if team["id"] == key), None)
        if found is not None:
            self.chosen, self.is_choosing = cast("TeamView", dict(found)), True

    @rx.event
    async def save(self, form: dict[str, Any]) -> Any:
        """Fill a team by a group, or by hand alone."""
        if not self.is_choosing:
            return None
        self.is_choosing = False
        args = {"p_team": self.chosen["id"], "p_claim": str(form.get("group") or "")}
        return await self._act("set_team_claim", args, "Saved", "It counts from everybody's next sign-in on.")

    @rx.event
    def set_default_role(self, role: str) -> None:
        self.default_role = role if role in ROLES else NO_ROLE

    @rx.event
    def set_break_glass(self, email: str) -> None:
        self.break_glass = email if email in self.owners else NOBODY

    @rx.event
    async def save_rules(self, form: dict[str, Any]) -> Any:
        hours = str(form.get("hours") or "")
        args = {
            "p_org": await self._org_id(),
            "p_default_role": None if self.default_role == NO_ROLE else self.default_role,
            "p_is_only": self.is_only,
            "p_break_glass": self.owners.get(self.break_glass),
            "p_hours": int(hours) if hours.isdecimal() and len(hours) < 5 else 0,
        }
        return await self._act("set_sign_in_rules", args, "Saved", "It counts at once, in open pages too.")
