"""The triggers of an organisation, and the sheet that creates and edits a schedule."""

from typing import Any

import reflex as rx

from app.frame.session import SEGMENT, acts, takes
from app.live.item_form import Items, Removal
from app.live.page import Filtered, chooses
from app.project.errors import AppError
from app.project.live_queries import LiveQuery, live_query
from app.project.models import BrowserSession
from app.project.store import EVERYTHING, Changed, OrgStore
from app.triggers.view import triggers
from app.triggers.view.schedules import KINDS, ScheduleView, build_view, check_form
from app.triggers.view.triggers import TriggerFilter, TriggerView

EMPTY: ScheduleView = build_view({"cron": KINDS["daily"]})
QUERY_TOPICS = (
    "schedules", "job_sets", "provision_jobs", "modules", "groups", "module_git", "git_connections", "git_deliveries",
    "pull_requests",
)  # fmt: skip
# Every job may be the last one of a trigger, and nobody reads a whole table more often.
RENEW_SECONDS = 1.0


class TriggersState(Filtered, Items, rx.State):
    ADDRESS = "/dashboard/jobs/schedules"
    REMOVAL = Removal("remove_schedule", "p_schedule", "Schedule removed")

    rows: list[TriggerView] = []
    choices: TriggerFilter = TriggerFilter()
    chosen: ScheduleView = EMPTY
    kind: str = "daily"
    operation: str = "DRIFT"
    cron: str = ""
    zone: str = "UTC"
    words: str = ""
    times: list[str] = []
    wrong: str = ""

    # By letters of a module, a group or a repository.
    search_for = chooses("search")
    choose_only = chooses("kind", SEGMENT)
    set_operation = takes("operation")
    run_now = acts("run_schedule", "p_schedule", "Started")

    def _query(self) -> LiveQuery:
        asked = self.get_value("choices").arguments()
        page: dict[str, Any] = {"limit": self.PAGE_SIZE, "offset": self.page_number * self.PAGE_SIZE}
        return live_query("list_triggers", QUERY_TOPICS, pause_seconds=RENEW_SECONDS, **asked, **page)

    async def _prepare(self, session: BrowserSession) -> None:
        await super()._prepare(session)
        self._take(TriggerFilter.read(self.router.url.query_parameters))
        await self._ask(self._query())

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        held = store.live_queries.held(self._query())
        if held is not None:
            self._assign("rows", held.each("rows", triggers.build_view))
            self._assign("total", int(held.answer["total"]))

    async def _again(self, changed: Changed = EVERYTHING) -> None:
        """Show what a change of a schedule led to, at once."""
        await self._renew()

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
        await self._open_form({**EMPTY, "path": path}, is_new=True)

    @rx.event
    async def edit(self, key: str) -> None:
        found = self._find(key)
        if found is not None and found["kind"] == "schedule":
            await self._open_form(found, is_new=False)

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
        self.zone = text[:100]
        await self._preview()

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        whole = {**form, "type": self.operation, "cron": self.cron, "zone": self.zone}
        checked = check_form(whole)
        if self._is_refused(checked):
            return None
        if self.is_new:
            await self._rpc("create_schedule", {"p_org": await self._org_id(), "p_spec": checked.spec})
        else:
            await self._rpc("update_schedule", {"p_schedule": self.chosen["id"], "p_spec": checked.spec})
        await self._again()
        self.is_open = False
        return rx.toast.success("Schedule created" if self.is_new else "Saved. Applies to future jobs.")

    @rx.event
    async def switch(self, key: str, is_on: bool) -> rx.event.EventSpec | None:
        return await self._act("update_schedule", {"p_schedule": key, "p_spec": {"is_on": is_on}}, "")
