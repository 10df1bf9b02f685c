"""Logins at git providers, the member of each, and the comment by which a member proves one."""

from typing import Any, ClassVar

import reflex as rx

from app.frame.session import say_error
from app.live.item_form import Items
from app.project.errors import AppError
from app.project.models import BrowserSession, Filter, Query
from app.project.store import Changed, OrgStore
from app.triggers.view.git_logins import ME, LoginView, MemberChoice, build_choices, build_login, check_login

NEW: LoginView = build_login({}, "")


class GitLoginsState(Items, rx.State):
    """A table, the form that links a login, and the comment that is shown."""

    TOPICS: ClassVar[frozenset[str]] = frozenset({"git_logins", "memberships"})
    EMPTY: ClassVar[LoginView] = NEW

    rows: list[LoginView] = []
    members: list[MemberChoice] = []
    chosen: LoginView = NEW
    comment: str = ""
    comment_login: str = ""

    async def _prepare(self, session: BrowserSession) -> None:
        """Close what was open before a reload: states outlive it."""
        self.is_open, self.removing, self.comment = False, "", ""

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        who = await self._who()
        found = await self._rpc("list_git_logins", {"p_org": store.org_id})
        self._assign("rows", [build_login(row, who.user_id) for row in found])
        mine = (Filter("org_id", "eq", store.org_id),)
        members = (await self._select("memberships", Query(filters=mine, order="email", limit=1000))).rows
        self._assign("members", build_choices(members if who.can_admin else [], who.user_id))

    @rx.event
    async def save(self, form: dict[str, Any]) -> Any:
        """Link a login to a member at once, or show the comment by which it is proved."""
        host, login, self.errors = check_login(form)
        if self.errors or not self.is_open:
            return None
        args = {"p_org": await self._org_id(), "p_host": host, "p_login": login}
        member = str(form.get("member") or ME)
        try:
            if member == ME:
                made = await self._rpc("request_git_link", args)
                self.comment, self.comment_login = str(made["comment"]), str(made["login"])
            else:
                await self._rpc("link_git_login", {**args, "p_user": member})
            await self._again()
        except AppError as error:
            return say_error(error)
        self.is_open = False
        return None if member == ME else rx.toast.success("Linked")

    @rx.event
    def close_comment(self) -> None:
        """Close the dialog with the comment."""
        self.comment = ""

    @rx.event
    async def remove(self) -> rx.event.EventSpec | None:
        """End the link of a login."""
        found, self.removing = self._find(self.removing), ""
        if found is None:
            return None
        args = {"p_org": await self._org_id(), "p_host": found["host"], "p_login": found["login"]}
        return await self._act("unlink_git_login", args, "Unlinked")
