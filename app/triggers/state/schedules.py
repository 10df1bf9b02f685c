"""The schedules of an organisation, and the sheet that creates and edits one."""

from typing import Any, ClassVar

import reflex as rx

from app.frame.session import say_error
from app.live.item_form import Items
from app.project.errors import AppError
from app.project.models import BrowserSession
from app.project.store import Changed, OrgStore
from app.triggers.view.schedules import KINDS, ScheduleView, build_view, check_form

EMPTY: ScheduleView = build_view({"cron": KINDS["daily"]})


class SchedulesState(Items, rx.State):
    """The table and the form."""

    TOPICS: ClassVar[frozenset[str]] = frozenset({"schedules", "job_sets"})

    rows: list[ScheduleView] = []
    chosen: ScheduleView = EMPTY
    kind: str = "daily"
    operation: str = "DRIFT"
    cron: str = ""
    zone: str = "UTC"
    words: str = ""
    times: list[str] = []
    wrong: str = ""

    async def _prepare(self, session: BrowserSession) -> None:
        """Close what was open before a reload: states outlive it."""
        self.is_open, self.removing = False, ""

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        rows = await self._rpc("list_schedules", {"p_org": store.org_id})
        self._assign("rows", [build_view(row) for row in rows])

    async def _open_form(self, chosen: ScheduleView, *, is_new: bool) -> None:
        self._fill(chosen, is_new=is_new)
        self.operation, self.cron, self.zone = chosen["type"], chosen["cron"], chosen["zone"]
        self.kind = next((name for name, cron in KINDS.items() if cron == chosen["cron"]), "cron")
        await self._preview()

    async def _preview(self) -> None:
        self.wrong, self.words, self.times = "", "", []
        try:
            args = {"p_org": await self._org_id(), "p_cron": self.cron, "p_zone": self.zone}
            answer = await self._rpc("preview_schedule", args)
        except AppError as error:
            self.wrong = error.message
            return
        self.words, self.times = str(answer["words"]), [str(each["local"]) for each in answer["next"]]

    @rx.event
    async def add(self, path: str = "") -> None:
        """Open an empty form, for a path where one is named."""
        await self._open_form({**EMPTY, "path": path}, is_new=True)

    @rx.event
    async def edit(self, key: str) -> None:
        """Open the form of a schedule."""
        found = self._find(key)
        if found is not None:
            await self._open_form(found, is_new=False)

    @rx.event
    def set_operation(self, value: str) -> None:
        """Choose what it does."""
        self.operation = value

    @rx.event
    async def set_kind(self, value: str | list[str]) -> None:
        """Choose a usual time, or write cron."""
        self.kind = str(value)
        if self.kind in KINDS:
            self.cron = KINDS[self.kind]
            await self._preview()

    @rx.event
    async def set_cron(self, text: str) -> None:
        """Follow every keystroke with the next five times."""
        self.cron = text[:200]
        await self._preview()

    @rx.event
    async def set_zone(self, text: str) -> None:
        """Read the times in another zone."""
        self.zone = text[:100]
        await self._preview()

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        """Check the form and let the database take it."""
        whole = {**form, "type": self.operation, "cron": self.cron, "zone": self.zone}
        checked = check_form(whole)
        self.errors = checked.errors
        if checked.errors or not self.is_open:
            return None
        try:
            if self.is_new:
                await self._rpc("create_schedule", {"p_org": await self._org_id(), "p_spec": checked.spec})
            else:
                await self._rpc("update_schedule", {"p_schedule": self.chosen["id"], "p_spec": checked.spec})
            await self._again()
        except AppError as error:
            return say_error(error)
        self.is_open = False
        return rx.toast.success("Schedule created" if self.is_new else "Saved. Applies to future jobs.")

    @rx.event
    async def switch(self, key: str, is_on: bool) -> rx.event.EventSpec | None:
        """Enable or disable a schedule."""
        return await self._act("update_schedule", {"p_schedule": key, "p_spec": {"is_on": is_on}}, "")

    @rx.event
    async def run_now(self, key: str) -> rx.event.EventSpec | None:
        """Run a schedule now."""
        return await self._act("run_schedule", {"p_schedule": key}, "Started")

    @rx.event
    async def remove(self) -> rx.event.EventSpec | None:
        """Remove a schedule."""
        key, self.removing = self.removing, ""
        return await self._act("remove_schedule", {"p_schedule": key}, "Schedule removed") if key else None
