"""What the chosen module depends on, and what depends on it."""

from typing import Any

import reflex as rx

from app.modules.state.links import LinkedModules
from app.modules.view.dependencies import CASCADES, NONE, DependenciesView, bindings, build


class DependenciesState(LinkedModules, rx.State):
    """The dependencies of the module that was chosen; its page reads them with the module."""

    dependencies: DependenciesView = NONE
    _path: str = ""

    async def _read(self, module_id: str, path: str) -> None:
        self._module_id, self._path = module_id, path
        answer = await self._rpc("list_dependencies", {"p_org": await self._org_id(), "p_path": path})
        self._assign("dependencies", build(answer, module_id))

    @rx.event
    async def add(self, form: dict[str, Any]) -> Any:
        """Let the module depend on the one that was typed."""
        cascades = str(form.get("cascades") or "off")
        if cascades not in CASCADES:
            return None
        options = {
            "bindings": bindings(str(form.get("bindings") or "")[:5000]),
            "cascades": cascades,
            "is_promotion": bool(form.get("is_promotion")),
        }

        async def call(producer: str) -> None:
            ends = {"p_consumer": self._module_id, "p_producer": producer}
            await self._rpc("set_dependency", {**ends, "p_options": options})
            await self._read(self._module_id, self._path)

        return await self._link(form.get("producer"), call, "Depends on {}", "Sets run it after that module.")

    @rx.event
    async def remove(self, producer: str) -> Any:
        """Let the module no longer depend on another."""

        async def call(producer: str) -> None:
            await self._rpc("remove_dependency", {"p_consumer": self._module_id, "p_producer": producer})
            await self._read(self._module_id, self._path)

        return await self._unlink(self.dependencies["producers"], producer, call, "No longer depends on {}")
