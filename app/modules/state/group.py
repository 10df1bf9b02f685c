"""The group that was chosen: its runners and its modules."""

import reflex as rx

from app.frame.session import AppState
from app.modules.view import group as views
from app.project.models import Filter, Query, Row

MOST_RUNNERS = 50
MOST_ASSIGNMENTS = 1000
_COLUMNS = "id,name,status,is_shared,is_disabled,is_assigned_to_all_modules"


class GroupState(AppState, rx.State):
    """What stands below a group's head."""

    path: str = ""
    runners: list[views.GroupRunner] = []
    modules: list[views.GroupModule] = []
    total: int = 0
    said: str = ""

    async def _read(self, path: str) -> None:
        """Read who serves the group; its modules are shown with the tree."""
        self.path = path
        org = await self._org_id()
        above = ",".join(f'"{each}"' for each in views.prefixes(path))
        mine = (Filter("org_id", "eq", org), Filter("path", "in", f"({above})"))
        assigned = (await self._select("worker_assignments", Query(filters=mine, limit=MOST_ASSIGNMENTS))).rows
        self._assign("runners", views.runners(path, await self._workers(org, assigned), assigned))

    def _show_modules(self, path: str, modules: list[Row], total: int) -> None:
        self._assign("total", total)
        self._assign("modules", views.modules(path, modules))
        self._assign("said", views.summary(modules, total))

    async def _workers(self, org: str, assigned: list[Row]) -> list[Row]:
        ids = ",".join(sorted({str(row["worker_id"]) for row in assigned})[:MOST_RUNNERS])
        named = f",id.in.({ids})" if ids else ""
        wanted = f"and(org_id.eq.{org},is_assigned_to_all_modules.is.true),is_shared.is.true{named}"
        kept = (Filter("removed_at", "is", "null"),)
        query = Query(columns=_COLUMNS, filters=kept, or_filter=wanted, order="name", limit=MOST_RUNNERS)
        return (await self._select("workers", query)).rows
