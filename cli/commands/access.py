"""`runyard access`: who may do what at which path."""

from typing import Annotated

from typer import Argument

from cli.command import Here, Member, command, new_app
from cli.errors import Usage, first

app = new_app("Who may do what at a path. Roles add up from the organisation down; nothing below takes one away.")

Path = Annotated[str, Argument(help="A group or a module, such as platform/prod; without it the organisation.")]
RoleName = Annotated[str, Argument(metavar="ROLE", help="viewer, planner, approver, operator, admin or your own.")]
Subject = Annotated[str, Argument(metavar="WHO", help="An email address, team:NAME or account:NAME.")]


@command(app, "list", calls=("list_access",))
def list_access(here: Here, path: Path = "") -> None:
    """List who has which role at a path, and where it was given."""
    rows = here.api.call("list_access", org=here.org.id, path=path)
    here.printer.rows(
        [{**row, "path": row["path"] or "(organisation)"} for row in rows], ("name", "kind", "role", "path")
    )


@command(app, "grant", calls=("grant_role",))
def grant(here: Here, who: Subject, role: RoleName, path: Path = "") -> None:
    """Give somebody a role at a path and everything below it."""
    kind, subject = _subject(here, who)
    made = here.api.call("grant_role", org=here.org.id, path=path, role=role, kind=kind, subject=subject)
    here.printer.result(made, lambda _: f"{who} is {role} {_at(path)}")


@command(app, "revoke", calls=("revoke_role",))
def revoke(here: Here, who: Subject, role: RoleName, path: Path = "") -> None:
    """Take a role away that was given at this path."""
    _, subject = _subject(here, who)
    rows = here.api.call("list_access", org=here.org.id, path=path)
    wanted = {"subject_id": subject, "role": role, "path": path}
    found = [row for row in rows if row["id"] and wanted.items() <= row.items()]
    hint = "`runyard access list` shows where each role was given."
    binding = first(found, f"{who} was not given {role} {_at(path)}.", hint)
    here.do("revoke_role", lambda _: f"{who} is no longer {role} {_at(path)}", binding=binding["id"])


@command(app, "why", calls=("explain_access",))
def why(
    here: Here,
    member: Member,
    verb: Annotated[str, Argument(help="Such as job.plan or job.apply; `runyard roles list` has all.")],
    path: Path = "",
) -> None:
    """Explain in one line why a member may, or may not, do something at a path."""
    user = here.org.member(member)["user_id"]
    here.do("explain_access", lambda row: str(row["words"]), org=here.org.id, path=path, verb=verb, user=user)


@command(app, "mine", calls=("my_verbs",))
def mine(here: Here, path: Path = "") -> None:
    """List what you may do at a path."""
    verbs = here.api.call("my_verbs", org=here.org.id, path=path)
    here.printer.rows([{"verb": verb} for verb in verbs], ("verb",))


def _at(path: str) -> str:
    return f"at {path}" if path else "in the whole organisation"


def _subject(here: Here, who: str) -> tuple[str, str]:
    kind, _, name = who.partition(":")
    if kind == "team" and name:
        return kind, str(here.org.team(name)["id"])
    if kind == "account" and name:
        return kind, str(here.org.account(name)["id"])
    if "@" not in who:
        raise Usage(f"{who} is not an email address.", "Write a member's address, team:NAME or account:NAME.")
    return "member", str(here.org.member(who)["user_id"])
