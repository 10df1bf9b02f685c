"""`runyard teams`: members that get roles together."""

from typing import Annotated

from typer import Argument

from cli.command import Here, Member, Yes, command, new_app

app = new_app("Teams: members that get roles together.")

Team = Annotated[str, Argument(metavar="TEAM", help="Its name.")]


@command(app, "list")
def list_teams(here: Here) -> None:
    """List the teams with their members."""
    mine = {"org_id": f"eq.{here.org.id}"}
    emails = {row["user_id"]: row["email"] for row in here.api.all_rows("memberships", order="email", **mine)}
    inside = here.api.all_rows("team_members", order="added_at", **mine)
    rows = here.api.all_rows("teams", order="name", **mine)
    for row in rows:
        row["members"] = [emails[each["user_id"]] for each in inside if each["team_id"] == row["id"]]
    here.printer.rows(rows, ("name", "members"), "No teams. Create one with: runyard teams create NAME")


@command(app, "create", calls=("create_team",))
def create_team(here: Here, team: Team) -> None:
    """Create a team without members."""
    here.do("create_team", "Created {name}", org=here.org.id, name=team)


@command(app, "delete", calls=("delete_team",))
def delete_team(here: Here, team: Team, yes: Yes = False) -> None:
    """Delete a team; its members lose what it gave them."""
    row = here.org.team(team)
    here.confirm(f"Delete the team {row['name']}? Its members lose the roles that it has.", yes)
    here.do("delete_team", lambda _: f"Deleted {row['name']}", team=row["id"])


@command(app, "add", calls=("set_team_member",))
def add(here: Here, team: Team, member: Member) -> None:
    """Put a member into a team; you need everything that the team may do."""
    _set_member(here, team, member, is_member=True)


@command(app, "remove")
def remove(here: Here, team: Team, member: Member) -> None:
    """Take a member out of a team."""
    _set_member(here, team, member, is_member=False)


def _set_member(here: Here, team: str, member: str, *, is_member: bool) -> None:
    row, person = here.org.team(team), here.org.member(member)
    done = here.api.call("set_team_member", team=row["id"], user=person["user_id"], is_member=is_member)
    words = "is in" if is_member else "is no longer in"
    here.printer.result(done, lambda _: f"{person['email']} {words} {row['name']}")
