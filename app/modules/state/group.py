"""The group that was chosen: its runners and its modules."""

from typing import Any

import reflex as rx

from app.frame.session import AppState
from app.jobs.view.checks import PolicySet, policy_set
from app.modules.view import group as views
from app.project.models import Filter, Row
from app.ui.view import is_below


class GroupState(AppState, rx.State):
    path: str = ""
    runners: list[views.GroupRunner] = []
    runner_total: int = 0
    modules: list[views.GroupModule] = []
    first: list[views.GroupModule] = []
    policies: list[PolicySet] = []
    total: int = 0
    said: str = ""

    def _show_runners(self, path: str, rows: list[Row], total: int) -> None:
        self._assign("path", path)
        self._assign("runner_total", total)
        self._assign("runners", [views.runner(row, path) for row in rows])

    def _show_modules(self, path: str, modules: list[Row], total: int) -> None:
        self._assign("total", total)
        self._assign("modules", views.modules(path, modules))
        self._assign("first", views.first(self.modules))
        self._assign("said", views.summary(modules, total))

    async def _read_policies(self, path: str) -> None:
        rows = await self._org_rows("policy_sets", order="path,name")
        self._assign("policies", [policy_set(row) for row in rows if is_below(path, row["path"])])

    @rx.event
    async def assign(self, form: dict[str, Any]) -> rx.event.EventSpec:
        name = str(form.get("runner", "")).strip()
        rows = await self._org_rows("workers", Filter("name", "eq", name), columns="id", limit=1)
        if not rows:
            return rx.toast.error(f"There is no runner “{name}”.", description="Choose one of the list.")
        await self._rpc("assign_worker", {"p_worker": rows[0]["id"], "p_path": self.path})
        return rx.toast.success(f"{name} serves {self.path} now")

    @rx.event
    async def unassign(self, worker: str) -> rx.event.EventSpec:
        await self._rpc("unassign_worker", {"p_worker": worker, "p_path": self.path})
        return rx.toast.success(f"No longer assigned to {self.path}")
