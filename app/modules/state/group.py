"""The group that was chosen: its runners and its modules."""

from typing import Any

import reflex as rx

from app.frame.session import AppState
from app.modules.view import group as views
from app.project.models import Filter, Query, Row

MOST_OFFERED = 20


class GroupState(AppState, rx.State):
    path: str = ""
    runners: list[views.GroupRunner] = []
    runner_total: int = 0
    offered: list[str] = []
    modules: list[views.GroupModule] = []
    total: int = 0
    said: str = ""

    def _show_runners(self, path: str, rows: list[Row], total: int) -> None:
        self._assign("path", path)
        self._assign("runner_total", total)
        self._assign("runners", [views.runner(row, path) for row in rows])

    def _show_modules(self, path: str, modules: list[Row], total: int) -> None:
        self._assign("total", total)
        self._assign("modules", views.modules(path, modules))
        self._assign("said", views.summary(modules, total))

    async def _own_runners(self, name: Filter) -> list[Row]:
        mine = (Filter("org_id", "eq", await self._org_id()), Filter("removed_at", "is", "null"))
        query = Query(columns="id,name", filters=(*mine, name), order="name", limit=MOST_OFFERED)
        return (await self._select("workers", query)).rows

    @rx.event
    async def offer(self, text: str) -> None:
        """Offer the organisation's runners whose name has this in it."""
        rows = await self._own_runners(Filter("name", "ilike", f"*{text[:100].replace('*', '')}*"))
        served = {runner["name"] for runner in self.runners if runner["is_here"]}
        self._assign("offered", [str(row["name"]) for row in rows if row["name"] not in served])

    @rx.event
    async def assign(self, form: dict[str, Any]) -> rx.event.EventSpec:
        name = str(form.get("runner", "")).strip()
        rows = await self._own_runners(Filter("name", "eq", name))
        if not rows:
            return rx.toast.error(f"There is no runner “{name}”.", description="Choose one of the list.")
        await self._rpc("assign_worker", {"p_worker": rows[0]["id"], "p_path": self.path})
        return rx.toast.success(f"{name} serves {self.path} now")

    @rx.event
    async def unassign(self, worker: str) -> rx.event.EventSpec:
        await self._rpc("unassign_worker", {"p_worker": worker, "p_path": self.path})
        return rx.toast.success(f"No longer assigned to {self.path}")
