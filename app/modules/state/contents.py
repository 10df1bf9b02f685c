"""The part below a module's facts: resources, outputs, files, locks and the chart of its jobs."""

from typing import Any

import reflex as rx

from app.frame.session import AppState
from app.modules.view import contents as views
from app.project.models import Row


class ModuleContentsState(AppState, rx.State):
    """The contents of the chosen module; its page reads them again when the module or its state changes."""

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

    def _take(self, answer: Row) -> None:
        module = answer["module"]
        if str(module["id"]) != self._module_id:
            self._module_id, self.is_all, self.file, self.search = str(module["id"]), False, "", ""
        self._drift = views.drift(module, [answer["drift"]] if answer["drift"] else [])
        self._assign("drift_job", self._drift.job)
        if not self.search:
            self._answer = answer["resources"] or {}
        self._show_contents()
        self._assign("lock", views.lock(answer["evidence"], answer["lock"]))
        self._assign("files", views.files(module))
        self._assign("chart", views.chart(answer["history"]))
        self._show_file(self.file)

    def _show_contents(self) -> None:
        self._assign("contents", views.contents(self._answer, self._drift, is_all=self.is_all))

    def _show_file(self, name: str) -> None:
        found = next((file for file in self.files if file["name"] == name), None) or next(iter(self.files), None)
        self._assign("file", found["name"] if found else "")
        self._assign("text", found["text"] if found else "")

    @rx.event
    def show_all(self) -> None:
        self.is_all = not self.is_all
        self._show_contents()

    @rx.event
    async def search_for(self, text: str) -> None:
        self.search = text[:200].strip()
        if self._module_id:
            asked = {"p_module": self._module_id, "p_search": self.search}
            self._answer = await self._rpc("state_resources", asked) or {}
            self._show_contents()

    @rx.event
    def show_file(self, name: str | list[str]) -> None:
        if isinstance(name, str):
            self._show_file(name)
