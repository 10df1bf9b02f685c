"""The versions of the runner, and when outdated runners update automatically."""

from typing import Any, ClassVar

import reflex as rx

from app.frame.session import takes
from app.live.page import LivePage
from app.project.store import Changed, OrgStore
from app.triggers.view.releases import ReleaseRow, build_rows
from app.triggers.view.updates import DAYS, check_form, hint_of


class UpdatesState(LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = frozenset({"update_policies", "rollouts", "worker_releases", "facets"})

    rows: list[ReleaseRow] = []
    mode: str = "OFF"
    days: list[str] = []
    begins_at: str = ""
    ends_at: str = ""
    zone: str = "UTC"
    hint: str = ""
    next_window: str = ""
    errors: dict[str, str] = {}
    revision: int = 0

    set_mode = takes("mode", of=("OFF", "WINDOW", "NOW"))

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        self._assign("rows", build_rows(store))
        if changed.is_everything or changed.touches({"update_policies", "rollouts", "worker_releases"}):
            self._take(await self._rpc("update_policy", {"p_org": store.org_id}))

    def _take(self, row: dict[str, Any]) -> None:
        self.mode, self.zone, self.errors = str(row["mode"]), str(row["zone"]), {}
        self.begins_at, self.ends_at = str(row["begins_at"]), str(row["ends_at"])
        self.days = [DAYS[day] for day in row["days"]]
        self.hint, self.next_window = hint_of(row), str(row.get("next_window") or "")
        self.revision += 1

    @rx.event
    def set_day(self, day: str, is_on: bool) -> None:
        chosen = {*self.days, day} if is_on else {*self.days} - {day}
        self.days = [each for each in DAYS if each in chosen]

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        checked = check_form(form, self.mode, self.days)
        self.errors = checked.errors
        if checked.errors:
            return None
        args = {"p_org": await self._org_id(), "p_spec": checked.spec}
        self._take(await self._rpc("set_update_policy", args))
        return rx.toast.success("Saved")
