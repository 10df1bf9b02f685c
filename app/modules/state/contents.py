"""What stands below a module's facts: resources, outputs, files, locks and the chart of its jobs."""

from collections.abc import Sequence
from typing import Any

import reflex as rx

from app.modules.view import contents as views
from app.project.errors import AppError
from app.project.models import Filter, Query, Row
from app.shared.session import AppState, say_error


class ModuleContentsState(AppState, rx.State):
    """What is shown of the module that was chosen; its page reads it again when the module or its state changes."""

    contents: views.Contents = views.Contents()
    lock: views.LockView = views.LockView()
    chart: views.Chart = views.Chart()
    files: list[views.SourceFile] = []
    file: str = ""
    text: str = ""
    is_all: bool = False
    is_locking: bool = False
    roll_back_to: int = 0
    _module_id: str = ""
    _answer: dict[str, Any] = {}

    async def _read(self, module: Row) -> None:
        """Read everything about a module that its row does not say."""
        number = str(module["id"])
        if number != self._module_id:
            self._module_id, self.is_all, self.file = number, False, ""
        self._answer = await self._rpc("state_resources", {"p_module": number}) or {}
        self._show_contents()
        own = (await self._select("module_locks", Query(filters=(Filter("module_id", "eq", number),), limit=1))).rows
        evidence = await self._rpc("lock_evidence", {"p_module": number})
        self._assign("lock", views.lock(evidence, own[0] if own else None))
        self._assign("files", views.files(module))
        self._show_file(self.file)

    def _show_contents(self) -> None:
        self._assign("contents", views.contents(self._answer, is_all=self.is_all))

    def _show_chart(self, jobs: Sequence[Row]) -> None:
        self._assign("chart", views.chart(jobs))

    def _show_file(self, name: str) -> None:
        found = next((file for file in self.files if file["name"] == name), None) or next(iter(self.files), None)
        self._assign("file", found["name"] if found else "")
        self._assign("text", found["text"] if found else "")

    @rx.event
    def show_all(self) -> None:
        """Show every resource, or only the first few again."""
        self.is_all = not self.is_all
        self._show_contents()

    @rx.event
    def show_file(self, name: str | list[str]) -> None:
        """Show one of the module's files."""
        if isinstance(name, str):
            self._show_file(name)

    @rx.event
    def ask_lock(self, is_open: bool) -> None:
        """Ask why nothing may be applied."""
        self.is_locking = is_open

    @rx.event
    async def lock_it(self, form: dict[str, Any]) -> Any:
        """Lock the module, with the reason."""
        return await self._act("lock_module", {"p_reason": str(form.get("reason") or "")}, "The module is locked")

    @rx.event
    async def unlock_it(self) -> Any:
        """Take the lock off."""
        return await self._act("unlock_module", {}, "The module is unlocked")

    @rx.event
    def ask_roll_back(self, serial: int) -> None:
        """Ask before an older state becomes the newest."""
        self.roll_back_to = serial

    @rx.event
    async def roll_back(self) -> Any:
        """Make the older state the newest."""
        serial, self.roll_back_to = self.roll_back_to, 0
        if not serial:
            return None
        said = f"Serial {serial} is the state again"
        return await self._act("roll_back_state", {"p_serial": serial}, said, "Plan before the next apply.")

    async def _act(self, name: str, args: dict[str, Any], title: str, text: str = "") -> Any:
        from app.modules.state.modules import ModulesState

        if not self._module_id:
            return None
        try:
            await self._rpc(name, {"p_module": self._module_id, **args})
            await (await self.get_state(ModulesState))._reload()
        except AppError as error:
            return say_error(error)
        self.is_locking = False
        return rx.toast.success(title, description=text)
