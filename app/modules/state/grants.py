"""Access to a module's outputs: grants to other modules."""

from typing import Any

import reflex as rx

from app.modules.state.links import Call, LinkedModules
from app.modules.view.grants import Reader, readers
from app.project.models import Filter, Query

MOST = 200


class ModuleGrantsState(LinkedModules, rx.State):
    """The readers of the module that was chosen; its page reads them with the module."""

    readers: list[Reader] = []

    async def _read(self, module_id: str) -> None:
        self._module_id = module_id
        query = Query(filters=(Filter("module_id", "eq", module_id),), order="created_at", limit=MOST)
        grants = (await self._select("output_grants", query)).rows
        ids = ",".join(str(row["reader_id"]) for row in grants)
        kept = (Filter("id", "in", f"({ids})"), Filter("deleted_at", "is", "null"))
        modules = Query(columns="id,path", filters=kept, limit=MOST)
        self._assign("readers", readers(grants, (await self._select("modules", modules)).rows if ids else ()))

    @rx.event
    async def grant(self, form: dict[str, Any]) -> Any:
        """Grant the jobs of the entered module access to the outputs."""
        about = "It counts at once, for running jobs too."
        return await self._link(form.get("reader"), self._decide("grant_outputs"), "{} reads the outputs", about)

    @rx.event
    async def revoke(self, reader: str) -> Any:
        """Revoke their access."""
        words = "{} no longer reads the outputs"
        return await self._unlink(self.readers, reader, self._decide("revoke_outputs"), words)

    def _decide(self, function: str) -> Call:
        async def call(reader: str) -> None:
            await self._rpc(function, {"p_module": self._module_id, "p_reader": reader})
            await self._read(self._module_id)

        return call
