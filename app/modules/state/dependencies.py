"""The dependencies of the chosen module, in both directions."""

from typing import Any

import reflex as rx

from app.modules.state.links import LinkedModules
from app.modules.view.dependencies import CASCADES, NONE, DependenciesView, bindings, build
from app.project.models import Row


class DependenciesState(LinkedModules, rx.State):
    """The dependencies of the module that was chosen; its page reads them with the module."""

    dependencies: DependenciesView = NONE

    def _take(self, answer: Row) -> None:
        self._module_id = str(answer["module"]["id"])
        self._assign("dependencies", build(answer["dependencies"], self._module_id))

    @rx.event
    async def add(self, form: dict[str, Any]) -> Any:
        cascades = str(form.get("cascades") or "off")
        if cascades not in CASCADES:
            return None
        options = {
            "bindings": bindings(str(form.get("bindings") or "")[:5000]),
            "cascades": cascades,
            "is_promotion": bool(form.get("is_promotion")),
        }

        words = ("Depends on {}", "Sets run it after that module.")
        return await self._link(form.get("producer"), lambda producer: self._set(producer, options), *words)

    @rx.event
    async def accept(self, path: str) -> Any:
        """Add a dependency on a module whose outputs its code reads."""
        found = [each for each in self.dependencies["proposals"] if each["path"] == path]
        if not found:
            return None
        options = {"bindings": dict(each.split(" ← ", 1) for each in found[0]["inputs"])}
        words = ("Depends on {}", "Sets run it after that module.")
        return await self._link(path, lambda producer: self._set(producer, options), *words)

    async def _set(self, producer: str, options: dict[str, Any]) -> None:
        ends = {"p_consumer": self._module_id, "p_producer": producer}
        await self._rpc("set_dependency", {**ends, "p_options": options})
        await self._read_again()

    @rx.event
    async def remove(self, producer: str) -> Any:
        async def call(producer: str) -> None:
            await self._rpc("remove_dependency", {"p_consumer": self._module_id, "p_producer": producer})
            await self._read_again()

        return await self._unlink(self.dependencies["producers"], producer, call, "No longer depends on {}")
