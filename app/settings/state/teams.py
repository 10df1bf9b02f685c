"""Teams: members that get roles together; the page of members reads them."""

from typing import Any, TypedDict

import reflex as rx

from app.frame.session import puts
from app.live.item_form import OpenForm, Removal, Removing
from app.project.models import Filter, Query, Row
from app.ui.view import read


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
        mine = (Filter("org_id", "eq", await self._org_id()),)
        teams = await self._select_all("teams", Query(filters=mine, order="name"))
        places = await self._select_all("team_members", Query(filters=mine, order="team_id,user_id"))
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
