"""Access to a module's outputs: grants to other modules."""

from typing import Any

import reflex as rx

from app.frame.session import AppState, say_error
from app.modules.state.lookup import find_module
from app.modules.view.grants import Reader, readers
from app.project.errors import AppError
from app.project.models import Filter, Query

MOST = 200


class ModuleGrantsState(AppState, rx.State):
    """The readers of the module that was chosen; its page reads them with the module."""

    readers: list[Reader] = []
    revision: int = 0
    _module_id: str = ""

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
        """Let the jobs of the module that was typed read the outputs."""
        path = str(form.get("reader") or "").strip().strip("/")[:500]
        if not self._module_id or not path:
            return None
        try:
            await self._decide("grant_outputs", await find_module(self, path))
        except AppError as error:
            return say_error(error)
        # the field is uncontrolled: another number empties it
        self.revision += 1
        return rx.toast.success(f"{path} reads the outputs", description="It counts at once, for running jobs too.")

    @rx.event
    async def revoke(self, reader: str) -> Any:
        """Let them read no more."""
        known = next((each for each in self.readers if each["id"] == reader), None)
        if known is None:
            return None
        try:
            await self._decide("revoke_outputs", reader)
        except AppError as error:
            return say_error(error)
        return rx.toast.success(f"{known['path']} no longer reads the outputs")

    async def _decide(self, function: str, reader: str) -> None:
        await self._rpc(function, {"p_module": self._module_id, "p_reader": reader})
        await self._read(self._module_id)
