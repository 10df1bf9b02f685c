"""The access at a path, as a page shows it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from app.ui.view import ROLE_WORDS, Row, read

# The members of a large organisation are under Settings; a page shows those with most rights.
MOST_MEMBERS = 30
RANKS = ("owner", "admin", "operator", "viewer", "guest")
AT_A_PATH = {**ROLE_WORDS, "admin": "Also destroys, removes modules, changes states and gives access."}
ICONS = {"member": "user", "team": "users", "account": "bot"}


class AccessRow(TypedDict):
    id: str
    kind: str
    name: str
    about: str
    role: str
    path: str
    is_here: bool


class RoleChoice(TypedDict):
    """A role that can be given at a path, in one sentence."""

    name: str
    words: str


def build_rows(answer: Sequence[Row], path: str) -> tuple[list[AccessRow], int]:
    """Show what was given at the path first, then what comes from above; and count the members that are left out."""
    given = [row for row in answer if row["id"]]
    held = sorted((row for row in answer if not row["id"]), key=lambda row: RANKS.index(row["role"]))
    return [_row(row, path) for row in [*given, *held[:MOST_MEMBERS]]], max(0, len(held) - MOST_MEMBERS)


def _row(row: Row, path: str) -> AccessRow:
    return read(
        AccessRow,
        row,
        id=row["id"] or f"{row['kind']}:{row['subject_id']}",
        about=_about(row["kind"], row["members"] or 0),
        role=role_name(row["role"]),
        is_here=bool(row["id"]) and row["path"] == path,
    )


def _about(kind: str, members: int) -> str:
    if kind == "team":
        return "Team, 1 member" if members == 1 else f"Team, {members} members"
    return "Service account" if kind == "account" else ""


def role_name(role: str) -> str:
    """Name a built-in role as a word; an own one as it was named."""
    return role.capitalize() if role in ROLE_WORDS else role


def build_roles(answer: Iterable[Row]) -> list[RoleChoice]:
    """Offer the roles from least to most, then the organisation's own ones; an owner is made for the whole organisation."""
    roles = sorted(
        (row for row in answer if row["name"] != "owner"), key=lambda row: (row["is_own"], len(row["verbs"]))
    )
    return [{"name": str(row["name"]), "words": f"{role_name(row['name'])}: {_role_words(row)}"} for row in roles]


def _role_words(row: Row) -> str:
    return AT_A_PATH.get(row["name"]) or row["description"] or ", ".join(row["verbs"])


def build_subjects(members: Mapping[str, str], teams: Iterable[Row], accounts: Iterable[Row]) -> dict[str, list[str]]:
    """Name everybody who can be given a role, as the command line names them, with their kind and id."""
    return {
        **{email: ["member", user] for email, user in members.items()},
        **{f"team:{row['name']}": ["team", str(row["id"])] for row in teams},
        **{f"account:{row['name']}": ["account", str(row["id"])] for row in accounts},
    }
