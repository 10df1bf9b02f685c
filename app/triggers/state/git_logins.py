"""Logins at git providers, the member of each, and the comment by which a member proves one."""

from typing import Any

import reflex as rx

from app.frame.session import puts
from app.live.item_form import OpenForm, Removal, Removing
from app.project.models import Filter, Query
from app.triggers.view.git_logins import ME, LoginView, MemberChoice, build_choices, build_login, check_login


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
        mine = (Filter("org_id", "eq", org_id),)
        members = (await self._select("memberships", Query(filters=mine, order="email", limit=1000))).rows
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
