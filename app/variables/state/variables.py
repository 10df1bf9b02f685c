"""The variables of a module, a group or the organisation, and the form that sets one."""

from typing import Any, ClassVar

import reflex as rx

from app.frame.session import puts, takes
from app.live.item_form import Items, Removal
from app.project.models import BrowserSession, Filter
from app.project.store import Changed, OrgStore
from app.variables.view import rows as views

PAGE = "/dashboard/modules/variables"
NEW: views.VariableView = views.build_row({"id": "", "name": "", "kind": "input", "value": "", "path": ""}, "")


class VariablesState(Items, rx.State):
    """The variables that the next job of a path gets; those that are set at the path itself can be changed here."""

    EMPTY: ClassVar[views.VariableView] = NEW
    TOPICS: ClassVar[frozenset[str]] = frozenset({"variables"})
    REMOVAL = Removal("remove_variable", "p_variable", "Variable removed")

    rows: list[views.VariableView] = []
    chosen: views.VariableView = NEW
    path: str = ""
    is_module: bool = False
    kind: str = "input"
    is_enforced: bool = False
    is_sealed: bool = False
    is_reference: bool = False
    public_key: str = ""
    key_label: str = ""
    _key_id: str = ""
    unused: list[views.VariableView] = []
    users: views.UsersView = views.NOBODY
    users_of: str = ""

    set_kind = takes("kind", of=views.KINDS)
    set_enforced = takes("is_enforced", bool)
    close_users = puts(users_of="")

    async def _prepare(self, session: BrowserSession) -> None:
        """Read the path from the address."""
        await super()._prepare(session)
        self.users_of = ""
        self.path = str(self.router.url.query_parameters.get("path") or "")[:1000].strip("/")

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        rows = await self._rpc("preview_variables", {"p_org": store.org_id, "p_path": self.path})
        self._assign("rows", views.build_rows(rows, self.path))
        named = Filter("path", "eq", self.path)
        self._assign("is_module", bool(await self._org_rows("modules", named, columns="id", limit=1)))
        await self._find_key()
        unused = await self._rpc("list_unused_variables", {"p_org": store.org_id}) if not self.path else []
        self._assign("unused", views.build_rows(unused, ""))

    async def _find_key(self) -> None:
        """Read the key that secrets are sealed to; without one there are none."""
        found = await self._org_rows("sealing_keys", limit=1)
        key = found[0] if found else {"id": "", "public_key": ""}
        self._assign("public_key", key["public_key"])
        self._assign("key_label", f"sealing-key={key['id']}")
        self._key_id = key["id"]

    def _fill(self, chosen: Any, *, is_new: bool) -> None:
        super()._fill(chosen, is_new=is_new)
        self.kind, self.is_enforced = chosen["kind"], chosen["is_enforced"]
        self.is_sealed, self.is_reference = chosen["is_sealed"], chosen["is_reference"]

    @rx.event
    def set_sealed(self, value: bool) -> None:
        """Choose whether the browser seals the value; a secret does not become plain again."""
        self.is_sealed = value or self.chosen["is_sealed"]
        self.is_reference = self.is_reference and not self.is_sealed

    @rx.event
    def set_reference(self, value: bool) -> None:
        self.is_reference = value and not self.chosen["is_sealed"]
        self.is_sealed = self.is_sealed and not self.is_reference

    @rx.var
    def needs_key(self) -> bool:
        """Return whether the form waits for the organisation's first key: saved plans of references are sealed to it, too."""
        return (self.is_sealed or self.is_reference) and not self.public_key

    @rx.event
    async def create_key(self, public_key: str) -> rx.event.EventSpec | None:
        """Take the public half of a key that the browser made, unless somebody made one meanwhile."""
        org_id, self.errors = await self._org_id(), {}
        await self._find_key()
        if self.public_key:
            return rx.toast.warning("The organisation has a key already.", description="Delete the new sealing.key.")
        await self._rpc("create_sealing_key", {"p_org": org_id, "p_public_key": public_key})
        await self._find_key()
        return rx.toast.success(
            "Key created.", description=f"Give sealing.key and the label {self.key_label} to runners."
        )

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        fixed = {} if self.is_new else {"name": self.chosen["name"]}
        checked = views.check_form(
            {**form, **fixed}, self.kind, is_enforced=self.is_enforced, is_reference=self.is_reference
        )
        if self.needs_key:
            checked.errors["value"] = "Create the key first."
        elif self.is_sealed:
            views.check_sealed(checked, form, self.path, self._key_id)
        if self._is_refused(checked):
            return None
        args = {"p_org": await self._org_id(), "p_path": self.path, "p_variables": [checked.spec]}
        (made,) = await self._rpc("set_variables", args)
        await self._again()
        self.is_open = False
        if made["warning"]:
            return rx.toast.warning(
                made["warning"],
                description="Every member can read it. Edit it and choose Sensitive, then change the secret.",
            )
        return rx.toast.success("Saved. Applies to future jobs.")

    @rx.event
    async def show_users(self, key: str) -> None:
        """Show which jobs get a variable, and who can start them."""
        found = self._find(key)
        if found is not None:
            self.users = views.build_users(await self._rpc("list_variable_users", {"p_variable": int(key)}))
            self.users_of = found["name"]
