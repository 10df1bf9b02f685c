"""Roles: the built-in ones, and those that the organisation made."""

from typing import Any, ClassVar, TypedDict

import reflex as rx

from app.live.item_form import Items, Removal
from app.project.store import Changed, OrgStore
from app.ui.form.fields import texts
from app.ui.view import ROLE_WORDS, read

TICKED = "verb:"


class RoleView(TypedDict):
    id: str
    name: str
    about: str
    description: str
    verbs: list[str]
    is_own: bool


NEW: RoleView = read(RoleView, {}, is_own=True)


def build_view(row: dict[str, Any]) -> RoleView:
    """Show a role; a built-in one has a sentence of ours."""
    name, about = str(row["name"]), str(row["description"] or "")
    return read(RoleView, row, id=name, about=about if row["is_own"] else ROLE_WORDS[name])


class RolesState(Items, rx.State):
    EMPTY: ClassVar[RoleView] = NEW
    TOPICS: ClassVar[frozenset[str]] = frozenset({"roles"})
    REMOVAL = Removal("delete_role", "p_name", "Deleted {}")

    rows: list[RoleView] = []
    chosen: RoleView = NEW
    offered: list[str] = []

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        rows = [build_view(row) for row in await self._rpc("list_roles", {"p_org": store.org_id})]
        self._assign("rows", rows)
        # What only owners may do stays theirs.
        self._assign("offered", next(row["verbs"] for row in rows if row["id"] == "admin"))

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        """Create or change the role; the database refuses verbs that the viewer does not have."""
        given = texts(form)
        verbs = [key.removeprefix(TICKED) for key in given if key.startswith(TICKED)]
        self.errors = {} if verbs else {"verbs": "Tick at least one."}
        if self.errors or not self.is_open:
            return None
        name = given.get("name", "").strip() if self.is_new else self.chosen["name"]
        args = {"p_org": await self._org_id(), "p_name": name, "p_verbs": verbs}
        said = await self._act("set_role", {**args, "p_description": given.get("description", "").strip()}, "Saved")
        self.is_open = False
        return said

    async def _removal_arguments(self, found: Any) -> dict[str, Any]:
        return {"p_org": await self._org_id(), "p_name": found["id"]}
