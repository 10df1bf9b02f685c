"""The actions on a module or group besides editing: remove and lock it, unlock, compare or roll back its state."""

from typing import Any

import reflex as rx

from app.frame.session import AppState, takes
from app.modules.state.modules import ModulesState
from app.modules.view.compare import Difference, compare
from app.project.runtime import runtime
from wire.cloud_block import cloud_block, host_block, host_of

KINDS = ("remove_module", "remove_group", "unlock")


class ModuleActionState(AppState, rx.State):
    kind: str = ""
    name: str = ""
    typed: str = ""
    is_locking: bool = False
    roll_back_to: int = 0
    older: int = 0
    newer: int = 0
    is_compared: bool = False
    differences: list[Difference] = []
    login: str = ""
    cloud: str = ""
    cloud_host: str = ""

    set_typed = takes("typed")
    ask_lock = takes("is_locking", bool)
    ask_roll_back = takes("roll_back_to", int)

    async def _page(self) -> ModulesState:
        return await self.get_state(ModulesState)

    @rx.event
    async def ask(self, kind: str) -> None:
        if kind not in KINDS:
            return
        page = await self._page()
        names = {"remove_module": page.module["name"], "remove_group": page.group["path"], "unlock": page.state.lock_id}
        self.kind, self.name, self.typed = kind, names[kind], ""

    @rx.event
    def close(self) -> None:
        """Keep things as they are; also asked for when a page opens, because states outlive a reload."""
        self.kind = self.typed = ""
        self.is_locking, self.roll_back_to = False, 0
        self.is_compared, self.differences = False, []
        self.cloud = ""

    @rx.event
    async def show_terminal(self, is_open: bool) -> None:
        """Show how tofu and terraform work against the open module, or close that."""
        if not is_open:
            self.cloud = ""
            return
        page, url, org = await self._page(), runtime().settings.runner_url, (await self._who()).org_id
        slug = next(row["slug"] for row in await self._rpc("my_organizations", {}) if row["id"] == org)
        self.login, self.cloud_host = f"tofu login {host_of(url)}", host_block(url)
        self.cloud = cloud_block(url, slug, page.module["path"])

    @rx.event
    async def confirm(self) -> Any:
        doers = {"remove_module": self._remove_module, "remove_group": self._remove_group, "unlock": self._unlock}
        doer = doers.get(self.kind)
        if doer is None or self.typed != self.name:
            return rx.toast.error("That does not match.", description="Nothing was changed.") if doer else None
        page = await self._page()
        said = await doer(page)
        address = await page._reload()
        self.kind = self.typed = ""
        return [address, said]

    async def _remove_module(self, page: ModulesState) -> rx.event.EventSpec:
        await self._rpc("delete_module", {"p_module": page.module["id"], "p_confirm_name": self.typed})
        return rx.toast.success(f"{self.name} is removed", description="Its resources in the cloud still exist.")

    async def _remove_group(self, page: ModulesState) -> rx.event.EventSpec:
        await self._rpc("delete_group", {"p_group": page.group["id"]})
        return rx.toast.success(f"{self.name} is removed")

    async def _unlock(self, page: ModulesState) -> rx.event.EventSpec:
        await self._rpc("force_unlock_state", {"p_module": page.module["id"], "p_lock_id": self.typed})
        return rx.toast.success("The state is unlocked", description="Check it with a plan before the next apply.")

    @rx.event
    async def lock_it(self, form: dict[str, Any]) -> Any:
        return await self._act("lock_module", {"p_reason": str(form.get("reason") or "")}, "The module is locked")

    @rx.event
    async def unlock_it(self) -> Any:
        return await self._act("unlock_module", {}, "The module is unlocked")

    @rx.event
    async def roll_back(self) -> Any:
        serial, self.roll_back_to = self.roll_back_to, 0
        if not serial:
            return None
        said = f"Serial {serial} is the state again"
        return await self._act("roll_back_state", {"p_serial": serial}, said, "Plan before the next apply.")

    async def _act(self, name: str, args: dict[str, Any], title: str, text: str = "") -> Any:
        page = await self._page()
        if not page.module["id"]:
            return None
        await self._rpc(name, {"p_module": page.module["id"], **args})
        await page._reload()
        self.is_locking = False
        return rx.toast.success(title, description=text)

    @rx.event
    async def compare_with(self, serial: int) -> Any:
        page = await self._page()
        serials = sorted(version.serial for version in page.state.versions)
        before = [known for known in serials if known < serial]
        if serial not in serials or not before:
            return rx.toast.info("There is no older version to compare with.")
        older = await self._body(page.module["id"], before[-1])
        newer = await self._body(page.module["id"], serial)
        self.older, self.newer, self.differences = before[-1], serial, compare(older, newer)
        self.is_compared = True
        return None

    async def _body(self, module_id: str, serial: int) -> str:
        answer = await self._rpc("state_version", {"p_module": module_id, "p_serial": serial})
        return str((answer or {}).get("body") or "")

    @rx.event
    def show_comparison(self, is_open: bool) -> None:
        self.is_compared = is_open
        if not is_open:
            self.differences = []
