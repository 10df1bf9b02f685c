"""Logins at git providers, the member of each, and the comment by which a member proves one."""

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

import reflex as rx

from app.frame.session import puts
from app.live.item_form import OpenForm, Removal, Removing
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


class GitLoginsState(Removing, OpenForm, rx.State):
    """A table, the form that links a login, and the comment that is shown; the page of repositories reads it."""

    REMOVAL = Removal("unlink_git_login", "", "Unlinked")

    rows: list[LoginView] = []
    members: list[MemberChoice] = []
    comment: str = ""
    comment_login: str = ""

    close_comment = puts(comment="")

    def _close(self) -> None:
        self.is_open, self.removing, self.comment = False, "", ""

    async def _read(self) -> None:
        who, org_id = await self._who(), await self._org_id()
        found = await self._rpc("list_git_logins", {"p_org": org_id})
        self._assign("rows", [build_login(row, who.user_id) for row in found])
        members = await self._org_rows("memberships", order="email", limit=1000)
        self._assign("members", build_choices(members if who.can_admin else [], who.user_id))

    async def _removal_arguments(self, found: Any) -> dict[str, Any]:
        return {"p_org": await self._org_id(), "p_host": found["host"], "p_login": found["login"]}

    async def _act(self, name: str, args: dict[str, Any], said: str, text: str = "") -> rx.event.EventSpec | None:
        toast = await super()._act(name, args, said, text)
        await self._read()
        return toast

    @rx.event
    def add(self) -> None:
        self._draw_form()

    @rx.event
    async def save(self, form: dict[str, Any]) -> Any:
        """Link a login to a member at once, or show the comment by which it is proved."""
        host, login, self.errors = check_login(form)
        if self.errors or not self.is_open:
            return None
        args = {"p_org": await self._org_id(), "p_host": host, "p_login": login}
        member = str(form.get("member") or ME)
        if member == ME:
            made = await self._rpc("request_git_link", args)
            self.comment, self.comment_login = str(made["comment"]), str(made["login"])
        else:
            await self._rpc("link_git_login", {**args, "p_user": member})
        await self._read()
        self.is_open = False
        return None if member == ME else rx.toast.success("Linked")
