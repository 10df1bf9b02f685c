"""What the chosen module depends on, and what depends on it."""

from typing import Any

import reflex as rx

from app.frame.session import AppState, say_error
from app.modules.state.lookup import find_module
from app.modules.view.dependencies import CASCADES, NONE, DependenciesView, bindings, build
from app.project.errors import AppError


class DependenciesState(AppState, rx.State):
    """The dependencies of the module that was chosen; its page reads them with the module."""

    dependencies: DependenciesView = NONE
    revision: int = 0
    _module_id: str = ""
    _path: str = ""

    async def _read(self, module_id: str, path: str) -> None:
        self._module_id, self._path = module_id, path
        answer = await self._rpc("list_dependencies", {"p_org": await self._org_id(), "p_path": path})
        self._assign("dependencies", build(answer, module_id))

    @rx.event
    async def add(self, form: dict[str, Any]) -> Any:
        """Let the module depend on the one that was typed."""
        path = str(form.get("producer") or "").strip().strip("/")[:500]
        cascades = str(form.get("cascades") or "off")
        if not self._module_id or not path or cascades not in CASCADES:
            return None
        options = {"bindings": bindings(str(form.get("bindings") or "")[:5000]), "cascades": cascades}
        try:
            ends = {"p_consumer": self._module_id, "p_producer": await find_module(self, path)}
            await self._rpc("set_dependency", {**ends, "p_options": options})
            await self._read(self._module_id, self._path)
        except AppError as error:
            return say_error(error)
        # The fields are uncontrolled: another number empties them.
        self.revision += 1
        return rx.toast.success(f"Depends on {path}", description="Sets run it after that module.")

    @rx.event
    async def remove(self, producer: str) -> Any:
        """Let the module no longer depend on another."""
        known = next((each for each in self.dependencies["producers"] if each["id"] == producer), None)
        if known is None:
            return None
        try:
            await self._rpc("remove_dependency", {"p_consumer": self._module_id, "p_producer": producer})
            await self._read(self._module_id, self._path)
        except AppError as error:
            return say_error(error)
        return rx.toast.success(f"No longer depends on {known['path']}")
