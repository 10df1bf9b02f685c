"""Running a module: what to run, on which one, and what that would mean; then the database queues it."""

from typing import Any, TypedDict

import reflex as rx

from app.frame.pick import containing
from app.frame.session import AppState, puts, takes
from app.project.models import Filter, Query
from app.ui.view import read

TYPES = ("PLAN", "APPLY", "DESTROY", "DRIFT", "OUTPUT")
EFFECTS = {
    "PLAN": "Shows what would change and saves it. Changes nothing.",
    "APPLY": "Plans first. You review that plan, and nothing changes until it is confirmed.",
    "DESTROY": "Plans the removal of everything this module has created. Nothing is destroyed until that plan is confirmed.",
    "DRIFT": "Compares the infrastructure with the state. Changes nothing.",
    "OUTPUT": "Reads the outputs of the state. Changes nothing.",
}
# More than this is searched, not scrolled.
MOST_LISTED = 200
COLUMNS = "id,path,name,approvals_required,auto_apply"
CHANGES = ("APPLY", "DESTROY")
AUTO_EFFECT = "Plans, and applies the plan automatically if it has changes: auto-apply is on for this module."
PRIORITIES = {"50": "High", "100": "Normal", "200": "Low"}
MAX_LINES = 100


class RunnerChoice(TypedDict):
    id: str
    name: str


class ModuleChoice(TypedDict):
    id: str
    path: str
    name: str
    approvals: int
    is_auto: bool


class RunnerChoices(AppState, mixin=True):
    """A form that offers the organisation's runners."""

    runners: list[RunnerChoice] = []

    async def _read_runners(self) -> None:
        self.runners = [
            read(RunnerChoice, row) for row in await self._org_rows("workers", columns="id,name", order="name")
        ]


class RunState(RunnerChoices, rx.State):
    is_open: bool = False
    is_busy: bool = False
    has_choice: bool = False
    modules: list[ModuleChoice] = []
    total: int = 0
    lock: str = ""
    module_id: str = ""
    path: str = ""
    name: str = ""
    approvals: int = 0
    type: str = "PLAN"
    effect: str = EFFECTS["PLAN"]
    typed: str = ""
    resources: int = 0
    pin: str = "any"
    priority: str = "100"
    is_refresh_only: bool = False
    has_options: bool = False

    set_priority = takes("priority", of=PRIORITIES)
    set_refresh_only = takes("is_refresh_only", bool)
    set_typed = takes("typed")
    # Run nothing; also asked for when a page opens, because states outlive a reload.
    close = puts(is_open=False, typed="", modules=[])

    async def _read_modules(self, *wanted: Filter) -> None:
        mine = (Filter("org_id", "eq", await self._org_id()), Filter("deleted_at", "is", "null"))
        query = Query(columns=COLUMNS, filters=(*mine, *wanted), order="path", limit=MOST_LISTED, is_counted=True)
        page = await self._select("modules", query)
        self.total = max(self.total, page.total)
        self.modules = [
            read(ModuleChoice, row, approvals=row.get("approvals_required"), is_auto=row.get("auto_apply"))
            for row in page.rows
        ]

    def _choose(self, module_id: str) -> bool:
        found = next((item for item in self.modules if item["id"] == module_id), None)
        if found is not None:
            self.module_id, self.path, self.name = found["id"], found["path"], found["name"]
            self.approvals, self.typed = found["approvals"], ""
            self._set_type(self.type)
        return found is not None

    def _set_type(self, job_type: str) -> None:
        self.type, self.effect, self.typed = job_type, EFFECTS[job_type], ""
        chosen = next((item for item in self.modules if item["id"] == self.module_id), None)
        if job_type == "APPLY" and chosen is not None and chosen["is_auto"]:
            self.effect = AUTO_EFFECT

    async def _read_effect(self) -> None:
        """Read how many resources a destroy would remove, and whether somebody has locked the module."""
        self.resources, self.lock = 0, ""
        if self.type in CHANGES and self.module_id:
            query = Query(columns="user_label,reason", filters=(Filter("module_id", "eq", self.module_id),), limit=1)
            for row in (await self._select("module_locks", query)).rows:
                self.lock = f"Locked by {row['user_label']}: {row['reason']}"
        if self.type == "DESTROY" and self.module_id:
            answer = await self._rpc("state_resources", {"p_module": self.module_id})
            self.resources = int(answer.get("total") or 0)

    @rx.event
    async def ask(self, job_type: str, module_id: str) -> rx.event.EventSpec | None:
        """Ask before running; without a module the reader chooses one."""
        if job_type not in TYPES:
            return None
        self.has_choice, self.total = module_id == "", 0
        await self._read_modules(*([Filter("id", "eq", module_id)] if module_id else []))
        self._set_type(job_type)
        wanted = module_id or (self.modules[0]["id"] if self.modules else "")
        if not self._choose(wanted) and module_id:
            return rx.toast.error("This module no longer exists.", description="Nothing was queued.")
        self.pin, self.priority, self.is_refresh_only, self.has_options = "any", "100", False, False
        await self._read_effect()
        self.is_open, self.is_busy = True, False
        return None

    @rx.event
    async def set_module(self, module_id: str) -> None:
        self._choose(module_id)
        await self._read_effect()

    @rx.event
    async def search_for(self, text: str) -> None:
        """List the modules whose path has this in it, and choose the first unless the chosen one is among them."""
        if not self.is_open or not self.has_choice:
            return
        await self._read_modules(containing("path", text))
        if self.modules and self.module_id not in {item["id"] for item in self.modules}:
            self._choose(self.modules[0]["id"])
        await self._read_effect()

    @rx.event
    async def set_type(self, job_type: str) -> None:
        if job_type in TYPES:
            self._set_type(job_type)
        await self._read_effect()

    @rx.event
    async def show_options(self) -> None:
        self.has_options = not self.has_options
        await self._read_runners()

    @rx.event
    def set_pin(self, runner: str) -> None:
        if runner == "any" or runner in {each["id"] for each in self.runners}:
            self.pin = runner

    @rx.event
    async def confirm(self, form: dict[str, Any]) -> Any:
        if not self.is_open or not self.module_id:
            return None
        if self.type == "DESTROY" and self.typed != self.name:
            return rx.toast.error("The name does not match.", description="Nothing was queued.")
        options = self._options(form)
        if self.type in CHANGES:
            return await self._queue("PLAN", self.module_id, {**options, **to_apply(self.type == "DESTROY")})
        return await self._queue(self.type, self.module_id, options)

    def _options(self, form: dict[str, Any]) -> dict[str, Any]:
        given = {
            "targets": lines(form.get("targets")),
            "replace": lines(form.get("replace")),
            "reason": str(form.get("reason") or "").strip()[:500],
            "refresh_only": self.is_refresh_only and self.type == "PLAN",
            "priority": int(self.priority) if self.priority != "100" else None,
            "pinned_worker_id": self.pin if self.pin != "any" else None,
        }
        return {name: value for name, value in given.items() if value}

    @rx.event
    async def plan_to_apply(self, module_id: str, is_destroy: bool) -> Any:
        """Plan again what is to be applied; its apply waits to be confirmed."""
        return await self._queue("PLAN", module_id, to_apply(is_destroy))

    @rx.event
    async def run_now(self, job_type: str, module_id: str) -> Any:
        """Run something that changes nothing, without asking."""
        if job_type not in ("PLAN", "DRIFT", "OUTPUT"):
            return None
        return await self._queue(job_type, module_id, {})

    @rx.event
    async def bring_state(self, module_id: str) -> Any:
        return await self._queue("PLAN", module_id, {"bring_state": True})

    async def _queue(self, job_type: str, module_id: str, options: dict[str, Any]) -> Any:
        args = {"p_org": await self._org_id(), "p_type": job_type, "p_module": module_id, "p_options": options}
        job = await self._rpc("enqueue_job", args)
        self.is_open, self.typed, self.modules = False, "", []
        return self._go(f"/dashboard/jobs/{int(job['number'])}")


def to_apply(is_destroy: bool) -> dict[str, bool]:
    """The options of a plan whose apply waits to be confirmed."""
    return {"confirm": True, "destroy": True} if is_destroy else {"confirm": True}


def lines(text: object) -> list[str]:
    """Read one entry per line; empty lines are skipped."""
    return [line.strip() for line in str(text or "").splitlines() if line.strip()][:MAX_LINES]
