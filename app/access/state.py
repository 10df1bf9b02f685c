"""The roles at the path that a page shows, and the dialogs that give, take away and explain."""

import asyncio
from typing import Any

import reflex as rx

from app.access.view import AccessRow, RoleChoice, build_roles, build_rows, build_subjects
from app.frame.session import puts
from app.live.item_form import OpenForm

UNKNOWN = "There is nobody of this name. Choose one of the list."


class AccessState(OpenForm, rx.State):
    path: str = ""
    rows: list[AccessRow] = []
    more: int = 0
    offered: list[str] = []
    roles: list[RoleChoice] = []
    verbs: list[str] = []
    is_asking: bool = False
    why: str = ""
    removing: str = ""
    removing_name: str = ""
    _members: dict[str, str] = {}
    _subjects: dict[str, list[str]] = {}

    keep = puts(removing="")

    async def _open(self, path: str) -> None:
        """Read the path that the page shows now; no dialog about another one stays open."""
        self.path, self.is_open, self.is_asking, self.removing = path, False, False, ""
        await self._read()

    async def _read(self) -> None:
        answer = await self._rpc("list_access", {"p_org": await self._org_id(), "p_path": self.path})
        rows, more = build_rows(answer, self.path)
        self._assign("rows", rows)
        self._assign("more", more)
        self._members = {row["name"]: row["subject_id"] for row in answer if row["kind"] == "member" and not row["id"]}

    async def _offer(self) -> None:
        """Read who can be given a role, the roles, and what they are made of."""
        org_id = await self._org_id()
        teams, accounts, roles = await asyncio.gather(
            self._org_rows("teams", columns="id,name", order="name"),
            self._org_rows("service_accounts", columns="id,name", order="name"),
            self._rpc("list_roles", {"p_org": org_id}),
        )
        self._subjects = build_subjects(self._members, teams, accounts)
        self.roles, self.verbs = build_roles(roles), sorted({verb for row in roles for verb in row["verbs"]})

    @rx.event
    async def add(self) -> None:
        await self._offer()
        self.offered = list(self._subjects)
        self._draw_form()

    @rx.event
    async def save(self, form: dict[str, Any]) -> Any:
        name, role = str(form.get("who") or "").strip(), str(form.get("role") or "")
        found = self._subjects.get(name)
        self.errors = {} if found else {"who": UNKNOWN}
        if found is None or not self.is_open:
            return None
        args = {"p_org": await self._org_id(), "p_path": self.path, "p_role": role}
        await self._rpc("grant_role", {**args, "p_kind": found[0], "p_subject": found[1]})
        await self._read()
        self.is_open = False
        return rx.toast.success(f"{name} is {role} here now", description=f"At {self.path} and everything below it.")

    @rx.event
    def ask_remove(self, key: str) -> None:
        found = next((row for row in self.get_value("rows") if row["id"] == key and row["is_here"]), None)
        if found is not None:
            self.removing, self.removing_name = key, found["name"]

    @rx.event
    async def remove(self) -> rx.event.EventSpec | None:
        gone, self.removing = self.removing, ""
        if not gone:
            return None
        await self._rpc("revoke_role", {"p_binding": gone})
        await self._read()
        return rx.toast.success("Taken away", description=f"What {self.removing_name} has from above stays.")

    @rx.event
    async def set_asking(self, is_asking: bool) -> None:
        """Open the question why somebody may do something here, or close it."""
        if is_asking:
            await self._offer()
            self.offered = list(self._members)
        self.is_asking, self.why, self.errors = is_asking, "", {}

    @rx.event
    async def explain(self, form: dict[str, Any]) -> None:
        user = self._members.get(str(form.get("who") or "").strip())
        self.errors, self.why = {} if user else {"person": UNKNOWN}, ""
        if user is None:
            return
        args = {"p_org": await self._org_id(), "p_path": self.path, "p_verb": str(form.get("verb") or "")}
        self.why = str((await self._rpc("explain_access", {**args, "p_user": user}))["words"])
