"""Logins at git providers as the page shows them."""

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from app.ui.view import Row

ME = "me"


class LoginView(TypedDict):
    """A login whose comments are commands."""

    id: str
    name: str
    host: str
    login: str
    member: str
    by: str
    is_mine: bool


class MemberChoice(TypedDict):
    id: str
    name: str


def build_login(row: Row, me: str) -> LoginView:
    """Show a row of list_git_logins."""
    host, login, member = (str(row.get(key) or "") for key in ("host", "login", "email"))
    by = str(row.get("created_by_label") or "")
    return {
        "id": f"{host}/{login}", "name": f"{login} at {host}", "host": host, "login": login, "member": member,
        "by": "Proved by a comment" if by == member else f"Linked by {by}", "is_mine": row.get("user_id") == me,
    }  # fmt: skip


def build_choices(members: Iterable[Row], me: str) -> list[MemberChoice]:
    """Offer the caller first, who proves the login; an admin links the logins of others."""
    others = [{"id": str(row["user_id"]), "name": str(row["email"])} for row in members if row["user_id"] != me]
    return [{"id": ME, "name": "Me, by a comment"}, *(MemberChoice(id=one["id"], name=one["name"]) for one in others)]


def check_login(form: Mapping[str, Any]) -> tuple[str, str, dict[str, str]]:
    """Read the form: host, login, and what is wrong with them."""
    host, login = (str(form.get(key) or "").strip() for key in ("host", "login"))
    errors = {} if host and "/" not in host else {"host": "A host, such as github.com."}
    return host, login, errors | ({} if login.strip("@") else {"login": "Your name there, such as octocat."})
