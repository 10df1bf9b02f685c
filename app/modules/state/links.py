"""Other modules that the chosen one is linked to: one is added by its path, or removed."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypedDict

import reflex as rx

from app.frame.session import AppState
from app.modules.view.dependencies import CASCADES, NONE, DependenciesView, bindings, build
from app.project.errors import NotThere
from app.project.models import Filter, Row

Call = Callable[[str], Awaitable[None]]


class LinkedModules(AppState, mixin=True):
    revision: int = 0
    _module_id: str = ""

    def _take(self, answer: Row) -> None:
        """Show what the module's page was answered."""
        raise NotImplementedError

    async def _read_again(self) -> None:
        self._take(await self._rpc("module_page", {"p_org": await self._org_id(), "p_module": self._module_id}))

    async def _link(self, typed: Any, call: Call, words: str, description: str) -> Any:
        """Link the module at the path that was typed; `words` has a place for it."""
        path = str(typed or "").strip().strip("/")[:500]
        if not self._module_id or not path:
            return None
        await call(await find_module(self, path))
        # The fields are uncontrolled: another number empties them.
        self.revision += 1
        return rx.toast.success(words.format(path), description=description)

    async def _unlink(self, known: Iterable[Any], module: str, call: Call, words: str) -> Any:
        path = next((each["path"] for each in known if each["id"] == module), "")
        if not path:
            return None
        await call(module)
        return rx.toast.success(words.format(path))


async def find_module(state: AppState, path: str) -> str:
    """Return the id of the organisation's module at a path; refuse a path without one."""
    rows = await state._org_rows("modules", Filter("path", "eq", path), columns="id", limit=1)
    if not rows:
        raise NotThere(f'There is no module "{path}".', "Choose one of the list.")
    return str(rows[0]["id"])


class Reader(TypedDict):
    id: str
    path: str
    since: str


class ModuleGrantsState(LinkedModules, rx.State):
    """The readers of the module that was chosen; its page reads them with the module."""

    readers: list[Reader] = []

    def _take(self, answer: Row) -> None:
        self._module_id = str(answer["module"]["id"])
        self._assign("readers", answer["readers"])

    @rx.event
    async def grant(self, form: dict[str, Any]) -> Any:
        """Grant the jobs of the entered module access to the outputs."""
        about = "It counts at once, for running jobs too."
        return await self._link(form.get("reader"), self._decide("grant_outputs"), "{} reads the outputs", about)

    @rx.event
    async def revoke(self, reader: str) -> Any:
        words = "{} no longer reads the outputs"
        return await self._unlink(self.readers, reader, self._decide("revoke_outputs"), words)

    def _decide(self, function: str) -> Call:
        async def call(reader: str) -> None:
            await self._rpc(function, {"p_module": self._module_id, "p_reader": reader})
            await self._read_again()

        return call


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
