"""The part below a module's facts: resources, outputs, files, locks and the chart of its jobs."""

from collections.abc import Sequence
from typing import Any

import reflex as rx

from app.frame.session import AppState
from app.modules.view import contents as views
from app.project.models import Filter, Query, Row


class ModuleContentsState(AppState, rx.State):
    """What is shown of the module that was chosen; its page reads it again when the module or its state changes."""

    contents: views.Contents = views.Contents()
    lock: views.LockView = views.LockView()
    chart: views.Chart = views.Chart()
    files: list[views.SourceFile] = []
    file: str = ""
    text: str = ""
    is_all: bool = False
    search: str = ""
    drift_job: str = ""
    _module_id: str = ""
    _answer: dict[str, Any] = {}
    _drift: views.Drift = views.Drift()

    async def _read(self, module: Row) -> None:
        """Read everything about a module that its row does not say."""
        number = str(module["id"])
        if number != self._module_id:
            self._module_id, self.is_all, self.file, self.search = number, False, "", ""
        await self._read_drift(module)
        await self._read_resources()
        own = (await self._select("module_locks", Query(filters=(Filter("module_id", "eq", number),), limit=1))).rows
        evidence = await self._rpc("lock_evidence", {"p_module": number})
        self._assign("lock", views.lock(evidence, own[0] if own else None))
        self._assign("files", views.files(module))
        self._show_file(self.file)

    async def _read_drift(self, module: Row) -> None:
        """Read which job found the drift that the module's row counts; a plan that only refreshes looks for it, too."""
        checks = "type.eq.DRIFT,payload->options->>refresh_only.eq.true"
        query = Query(
            columns="id,number,plan_summary",
            filters=(
                Filter("module_id", "eq", self._module_id),
                Filter("status", "eq", "SUCCEEDED"),
                # A check beside a kept state proves nothing about the module.
                Filter("payload->options->>inspects", "is", "null"),
            ),
            or_filter=checks,
            order="id",
            is_descending=True,
            limit=1,
        )
        jobs = (await self._select("provision_jobs", query)).rows if module.get("drift_since") else []
        self._drift = views.drift(module, jobs)
        self._assign("drift_job", self._drift.job)

    async def _read_resources(self) -> None:
        asked = {"p_module": self._module_id, "p_search": self.search}
        self._answer = await self._rpc("state_resources", asked) or {}
        self._show_contents()

    def _show_contents(self) -> None:
        self._assign("contents", views.contents(self._answer, self._drift, is_all=self.is_all))

    def _show_chart(self, jobs: Sequence[Row]) -> None:
        self._assign("chart", views.chart(jobs))

    def _show_file(self, name: str) -> None:
        found = next((file for file in self.files if file["name"] == name), None) or next(iter(self.files), None)
        self._assign("file", found["name"] if found else "")
        self._assign("text", found["text"] if found else "")

    @rx.event
    def show_all(self) -> None:
        """Show every resource, or only the first few again."""
        self.is_all = not self.is_all
        self._show_contents()

    @rx.event
    async def search_for(self, text: str) -> None:
        """Show resources whose address has this in it."""
        self.search = text[:200].strip()
        if self._module_id:
            await self._read_resources()

    @rx.event
    def show_file(self, name: str | list[str]) -> None:
        """Show one of the module's files."""
        if isinstance(name, str):
            self._show_file(name)
