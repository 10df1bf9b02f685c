"""Members, and those who are invited."""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import TypedDict

from app.ui.view import Row, read

ROLES = ("owner", "admin", "operator", "viewer", "guest")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


class MemberRow(TypedDict):
    key: str
    id: str
    email: str
    role: str
    is_me: bool
    is_invited: bool
    is_expired: bool
    since: str
    can_change: bool
    two_step: str
    signed_in_at: str


def build_rows(
    members: Iterable[Row], invitations: Iterable[Row], sign_ins: Iterable[Row], me: str, my_role: str, now: datetime
) -> list[MemberRow]:
    """List members by name, then those who have not answered yet."""
    known = {str(row["user_id"]): row for row in sign_ins}
    rows = [_member(row, known.get(str(row["user_id"]), {}), me, my_role) for row in members]
    rows.sort(key=lambda row: (ROLES.index(row["role"]), row["email"]))
    waiting = [row for row in invitations if not row.get("accepted_at") and not row.get("revoked_at")]
    return [*rows, *(_invited(row, my_role, now) for row in sorted(waiting, key=lambda row: str(row["email"])))]


def _member(row: Row, sign_in: Row, me: str, my_role: str) -> MemberRow:
    role = str(row["role"])
    return read(
        MemberRow,
        row,
        key=f"member:{row['user_id']}",
        id=row["user_id"],
        is_me=str(row["user_id"]) == me,
        since=row.get("created_at"),
        # Only an owner decides about owners; the database enforces it too.
        can_change=my_role == "owner" or (my_role == "admin" and role != "owner"),
        two_step=_two_step(sign_in),
        signed_in_at=sign_in.get("last_sign_in_at"),
    )


def _two_step(sign_in: Row) -> str:
    if "has_two_step" not in sign_in:
        return "–"
    return "On" if sign_in["has_two_step"] else "Off"


def _invited(row: Row, my_role: str, now: datetime) -> MemberRow:
    expires = row.get("expires_at")
    return read(
        MemberRow,
        row,
        key=f"invitation:{row['id']}",
        is_invited=True,
        is_expired=bool(expires) and datetime.fromisoformat(str(expires)) < now,
        since=row.get("created_at"),
        can_change=my_role in ("owner", "admin"),
        two_step="–",
    )


class RemovalWords(TypedDict):
    title: str
    text: str
    act: str


def build_removal(row: MemberRow) -> RemovalWords:
    """Name who loses which access: I, another member, or somebody who has not accepted yet."""
    if row["is_invited"]:
        return {
            "title": f"Withdraw the invitation of {row['email']}?",
            "text": "Its link no longer works. They can be invited again.",
            "act": "Withdraw",
        }
    if row["is_me"]:
        return {
            "title": "Leave this organisation?",
            "text": "You lose access at once. An admin can invite you again. Your actions stay in the history.",
            "act": "Leave",
        }
    return {
        "title": f"Remove {row['email']}?",
        "text": "They lose access to this organisation at once. Their actions stay in the history.",
        "act": "Remove",
    }


def check_email(text: str) -> str:
    """Describe what is wrong with an address; empty when it is valid."""
    if not _EMAIL.fullmatch(text.strip()) or len(text) > 254:
        return "An address like name@example.org."
    return ""
