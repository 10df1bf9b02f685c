"""Access to a module's outputs: grants to other modules."""

from typing import Any, TypedDict

import reflex as rx

from app.modules.state.links import Call, LinkedModules
from app.project.models import Row


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
