"""Members and their roles, teams, and invitations by link."""

from datetime import UTC, datetime
from typing import Any, ClassVar, TypedDict

import reflex as rx

from app.frame.session import puts, takes
from app.live.item_form import OpenForm, Removal, Removing
from app.live.page import LivePage
from app.project.invitations import make_secret
from app.project.models import BrowserSession, Row
from app.project.store import Changed, OrgStore
from app.settings.view.members import ROLES, MemberRow, RemovalWords, build_removal, build_rows, check_email
from app.ui.view import read


class MembersState(LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = frozenset({"memberships", "invitations", "teams", "team_members"})

    rows: list[MemberRow] = []
    is_inviting: bool = False
    email: str = ""
    email_problem: str = ""
    role: str = "operator"
    invited_id: str = ""
    invited_email: str = ""
    removing: str = ""
    removal: RemovalWords = {"title": "", "text": "", "act": ""}

    choose_role = takes("role", of=ROLES)
    keep = puts(removing="")

    async def _prepare(self, session: BrowserSession) -> None:
        self.is_inviting, self.invited_id, self.removing = False, "", ""
        (await self.get_state(TeamsState))._close()

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        members = await self._org_rows("memberships", limit=1000)
        invited = await self._org_rows("invitations", order="created_at", limit=1000)
        await (await self.get_state(TeamsState))._read(members)
        who = await self._who()
        sign_ins = await self._rpc("member_sign_ins", {"p_org": store.org_id}) if who.can_admin else []
        rows = build_rows(members, invited, sign_ins, who.user_id, who.role, datetime.now(UTC))
        if rows != self.rows:
            self.rows = rows

    def _find(self, key: str) -> MemberRow | None:
        return next((row for row in self.rows if row["key"] == key), None)

    @rx.event
    async def set_role(self, key: str, role: str) -> rx.event.EventSpec | None:
        row = self._find(key)
        if row is None or role not in ROLES or row["is_invited"] or row["role"] == role:
            return None
        args = {"p_org": await self._org_id(), "p_user": row["id"], "p_role": role}
        await self._rpc("set_member_role", args)
        await self._again()
        return rx.toast.success(f"{row['email']} is {role} now")

    @rx.event
    def open_invite(self) -> None:
        self.is_inviting, self.email, self.email_problem, self.role = True, "", "", "operator"
        self.invited_id = self.invited_email = ""

    @rx.event
    def close_invite(self, is_open: bool) -> rx.event.EventSpec | None:
        """Close it; the page forgets the link's secret."""
        if is_open:
            return None
        gone, self.is_inviting, self.invited_id = self.invited_id, False, ""
        return rx.call_script(f"window.runyard.forget('{gone}')") if gone else None

    @rx.event
    def set_email(self, text: str) -> None:
        self.email, self.email_problem = text[:254], ""

    @rx.event
    async def invite(self) -> list[Any]:
        self.email_problem = check_email(self.email)
        if self.email_problem:
            return []
        secret = make_secret()
        args = {"p_org": await self._org_id(), "p_email": self.email, "p_role": self.role, "p_token_hash": secret.hash}
        row = await self._rpc("invite_member", args)
        await self._again()
        self.invited_id, self.invited_email = str(row["id"]), str(row["email"])
        # The link is sent to the browser in its own event and is never a state's var: anyone who has it can join.
        link = f"location.origin + '/invite#{self.invited_id}.{secret.text}'"
        return [rx.call_script(f"window.runyard.secret('{self.invited_id}', {link})")]

    @rx.event
    def ask_remove(self, key: str) -> None:
        row = self._find(key)
        if row is not None:
            self.removing, self.removal = key, build_removal(row)

    @rx.event
    async def remove(self) -> Any:
        row = self._find(self.removing)
        if row is None:
            self.removing = ""
            return None
        if row["is_invited"]:
            await self._rpc("revoke_invitation", {"p_invitation": row["id"]})
        else:
            await self._rpc("remove_member", {"p_org": await self._org_id(), "p_user": row["id"]})
        self.removing = ""
        if row["is_me"]:
            return rx.call_script("window.location.assign('/dashboard/runners')")
        await self._again()
        return rx.toast.success("Withdrawn" if row["is_invited"] else f"{row['email']} is no longer a member")


class TeamView(TypedDict):
    id: str
    name: str
    members: list[str]
    count: int
    since: str


class Person(TypedDict):
    id: str
    email: str


def build_teams(teams: list[Row], places: list[Row]) -> list[TeamView]:
    def view(team: Row) -> TeamView:
        members = [str(row["user_id"]) for row in places if row["team_id"] == team["id"]]
        return read(TeamView, team, members=members, count=len(members), since=team["created_at"])

    return [view(team) for team in teams]


class TeamsState(Removing, OpenForm, rx.State):
    REMOVAL = Removal("delete_team", "p_team", "Deleted {}")

    rows: list[TeamView] = []
    people: list[Person] = []
    chosen: TeamView = read(TeamView, {})
    is_choosing: bool = False

    # Close that list; each tick was saved at once.
    close = puts(is_choosing=False)

    def _close(self) -> None:
        self.is_open, self.removing, self.is_choosing = False, "", False

    async def _read(self, members: list[Row]) -> None:
        teams = await self._org_rows("teams", order="name")
        places = await self._org_rows("team_members", order="team_id,user_id")
        self._assign("rows", build_teams(teams, places))
        people = sorted(members, key=lambda row: str(row["email"]))
        self._assign("people", [{"id": str(row["user_id"]), "email": str(row["email"])} for row in people])
        self._assign("chosen", self._find(self.chosen["id"]) or self.chosen)

    @rx.event
    def add(self) -> None:
        self._draw_form()

    @rx.event
    async def save(self, form: dict[str, Any]) -> Any:
        """Create the team; the page reads it with the wake-up that follows."""
        if not self.is_open:
            return None
        name = str(form.get("name") or "")
        args = {"p_org": await self._org_id(), "p_name": name}
        said = await self._act("create_team", args, f"Created {name}", "Choose its members in its menu.")
        self.is_open = False
        return said

    @rx.event
    def choose(self, key: str) -> None:
        found = self._find(key)
        if found is not None:
            self.chosen, self.is_choosing = found, True

    @rx.event
    async def put(self, user: str, is_member: bool) -> None:
        args = {"p_team": self.chosen["id"], "p_user": user, "p_is_member": is_member}
        await self._rpc("set_team_member", args)
