"""Running a module: what to run, on which one, and what that would mean; then the database queues it."""

from typing import Any, TypedDict

import reflex as rx

from app.project.errors import AppError
from app.project.models import Filter, Query
from app.shared.session import AppState, say_error

TYPES = ("PLAN", "APPLY", "DESTROY", "DRIFT", "OUTPUT")
EFFECTS = {
    "PLAN": "Looks at what would change and saves it. Changes nothing.",
    "APPLY": "Plans first, then makes the changes.",
    "DESTROY": "Removes everything this module has created. This cannot be undone.",
    "DRIFT": "Compares what is there with the state. Changes nothing.",
    "OUTPUT": "Reads the outputs of the state. Changes nothing.",
}
MAX_MODULES = 1000


class ModuleChoice(TypedDict):
    """A module to choose from."""

    id: str
    path: str
    name: str
    approvals: int


class RunState(AppState, rx.State):
    """The dialog that asks what to run."""

    is_open: bool = False
    is_busy: bool = False
    has_choice: bool = False
    modules: list[ModuleChoice] = []
    module_id: str = ""
    path: str = ""
    name: str = ""
    approvals: int = 0
    type: str = "PLAN"
    effect: str = EFFECTS["PLAN"]
    typed: str = ""

    async def _read_modules(self) -> list[ModuleChoice]:
        filters = (Filter("org_id", "eq", await self._org_id()), Filter("deleted_at", "is", "null"))
        columns = "id,path,name,approvals_required"
        page = await self._select("modules", Query(columns=columns, filters=filters, order="path", limit=MAX_MODULES))
        return [
            {
                "id": str(row["id"]),
                "path": str(row["path"]),
                "name": str(row["name"]),
                "approvals": int(row.get("approvals_required") or 0),
            }
            for row in page.rows
        ]

    def _choose(self, module_id: str) -> bool:
        found = next((item for item in self.modules if item["id"] == module_id), None)
        if found is not None:
            self.module_id, self.path, self.name = found["id"], found["path"], found["name"]
            self.approvals, self.typed = found["approvals"], ""
        return found is not None

    def _set_type(self, job_type: str) -> None:
        self.type, self.effect, self.typed = job_type, EFFECTS[job_type], ""

    @rx.event
    async def ask(self, job_type: str, module_id: str) -> rx.event.EventSpec | None:
        """Ask before running; without a module the reader chooses one."""
        if job_type not in TYPES:
            return None
        try:
            self.modules = await self._read_modules()
        except AppError as error:
            return say_error(error)
        self.has_choice = module_id == ""
        self._set_type(job_type)
        wanted = module_id or (self.modules[0]["id"] if self.modules else "")
        if not self._choose(wanted) and module_id:
            return rx.toast.error("This module is not there any more.", description="Nothing was queued.")
        self.is_open, self.is_busy = True, False
        return None

    @rx.event
    def close(self) -> None:
        """Run nothing; also asked for when a page opens, because states outlive a reload."""
        self.is_open, self.typed, self.modules = False, "", []

    @rx.event
    def set_module(self, module_id: str) -> None:
        """Choose another module."""
        self._choose(module_id)

    @rx.event
    def set_type(self, job_type: str) -> None:
        """Choose what to run."""
        if job_type in TYPES:
            self._set_type(job_type)

    @rx.event
    def set_typed(self, text: str) -> None:
        """Take the name typed to confirm."""
        self.typed = text[:200]

    @rx.event
    async def confirm(self) -> Any:
        """Queue what was asked for and show it."""
        if not self.is_open or not self.module_id:
            return None
        if self.type == "DESTROY" and self.typed != self.name:
            return rx.toast.error("The name does not match.", description="Nothing was queued.")
        return await self._queue(self.type, self.module_id)

    @rx.event
    async def run_now(self, job_type: str, module_id: str) -> Any:
        """Run something that changes nothing, without asking."""
        if job_type not in ("PLAN", "DRIFT", "OUTPUT"):
            return None
        return await self._queue(job_type, module_id)

    async def _queue(self, job_type: str, module_id: str) -> Any:
        args = {"p_org": await self._org_id(), "p_type": job_type, "p_module": module_id, "p_options": {}}
        try:
            job = await self._rpc("enqueue_job", args)
        except AppError as error:
            return say_error(error)
        self.is_open, self.typed, self.modules = False, "", []
        return rx.redirect(f"/dashboard/jobs/{int(job['id'])}")
