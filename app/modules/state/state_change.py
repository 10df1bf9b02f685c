"""Changing a module's state from its page: moving, removing and importing resources, as a job."""

from typing import Any

import reflex as rx

from app.frame.session import SEGMENT, AppState, takes
from app.jobs.state.run import RunState, lines
from app.modules.state.links import find_module
from app.modules.state.modules import ModulesState

ACTIONS = {"move": "Move", "remove": "Remove", "import": "Import"}
EFFECTS = {
    "move": "Gives a resource another address, here or in another module's state.",
    "remove": "The state no longer contains them. The real resources stay, and nothing manages them.",
    "import": "Adds a resource that exists and that the code describes under this address.",
}


class StateChangeState(AppState, rx.State):
    is_open: bool = False
    action: str = "move"

    choose = takes("action", SEGMENT, of=ACTIONS)

    @rx.var
    def effect(self) -> str:
        return EFFECTS[self.action]

    @rx.event
    def show(self, is_open: bool) -> None:
        """Open or close the dialog; also called when a page opens, because page states outlive a reload."""
        self.is_open, self.action = is_open, "move"

    @rx.event
    async def submit(self, form: dict[str, Any]) -> Any:
        page, runs = await self.get_state(ModulesState), await self.get_state(RunState)
        if not self.is_open or not page.module["id"]:
            return None
        change = await self._change(form)
        self.is_open = False
        return await runs._queue("STATE", page.module["id"], {"state_change": change})

    async def _change(self, form: dict[str, Any]) -> dict[str, Any]:
        change: dict[str, Any] = {"action": self.action, "addresses": lines(form.get("addresses"))}
        if self.action == "import":
            change["id"] = str(form.get("id") or "").strip()
        if self.action == "move":
            change["to"] = str(form.get("to") or "").strip()
            if path := str(form.get("module") or "").strip().strip("/")[:500]:
                change["module"] = await find_module(self, path)
        return change
