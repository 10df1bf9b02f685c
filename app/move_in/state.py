"""The move-in page: a reading by its number in the address, the choice, and what has come."""

from typing import Any

import reflex as rx

from app.frame.session import say_error
from app.jobs.view.words import ACTIVE
from app.live.page import LivePage
from app.move_in.view import BroughtRow, RootRow, brought_rows, failure_words, root_rows
from app.project.errors import AppError
from app.project.live_queries import LiveQuery, live_query
from app.project.models import BrowserSession
from app.project.store import Changed, OrgStore

PATH = "/dashboard/modules/move-in"


class MoveInState(LivePage, rx.State):
    number: int = 0
    is_upload: bool = False
    is_reading: bool = False
    url: str = ""
    archive: str = ""
    ref: str = ""
    group: str = ""
    read_by: str = ""
    failure: str = ""
    roots: list[RootRow] = []
    brought: list[BroughtRow] = []
    chosen: list[str] = []
    _survey: dict[str, Any] = {}

    @rx.var
    def proven(self) -> int:
        """The number of first plans that have ended."""
        return len([row for row in self.brought if row["color"] not in ("blue", "gray")])

    async def _prepare(self, session: BrowserSession) -> None:
        text = str(self.router.url.query_parameters.get("job", ""))
        self.number = int(text) if text.isdecimal() and len(text) < 18 else 0
        self.is_upload = self.is_reading = False
        self.url = self.archive = self.ref = self.group = self.read_by = self.failure = ""
        self.roots, self.brought, self.chosen, self._survey = [], [], [], {}
        await self._ask(*([self._query()] if self.number else []))

    def _query(self) -> LiveQuery:
        return live_query("survey", ("provision_jobs", "modules"), pause_seconds=0.3, number=self.number)

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        held = store.live_queries.held(self._query()) if self.number else None
        if held is None:
            return
        self._survey, before = dict(held.answer), bool(self.roots or self.brought)
        source = self._survey["source"]
        if not self.url + self.archive:
            self.is_upload = "url" not in source
        self._assign("url", str(source.get("url") or ""))
        self._assign("archive", "" if self.url else str(source["name"]))
        self._assign("ref", str(source.get("ref") or ""))
        self._assign("group", str(source["group"]))
        self._assign("read_by", str(self._survey.get("runner") or ""))
        self._assign("is_reading", self._survey["status"] in ACTIVE)
        self._assign("failure", failure_words(self._survey))
        roots = self._survey["roots"]
        self._assign("roots", root_rows(roots))
        self._assign("brought", brought_rows(roots))
        if not before:
            self.chosen = [row["folder"] for row in self.roots if row["can_come"]]

    @rx.event
    def choose_source(self, kind: str | list[str]) -> None:
        self.is_upload = kind == "upload"

    @rx.event
    async def read(self, form: dict[str, Any]) -> Any:
        """Have a runner read a repository; the page follows its job."""
        spec = {name: str(form.get(name) or "").strip()[:1000] for name in ("url", "ref", "group")}
        made = await self._rpc("request_survey", {"p_org": await self._org_id(), "p_source": spec})
        return self._go(f"{PATH}?job={int(made['number'])}")

    @rx.event
    def sent(self, answer: dict[str, Any]) -> Any:
        if str(answer.get("number") or "").isdecimal():
            return self._go(f"{PATH}?job={int(answer['number'])}")
        return rx.toast.error(str(answer.get("message") or "The archive was not sent.")[:500])

    @rx.event
    def choose(self, folder: str, is_chosen: bool) -> None:
        able = {row["folder"] for row in self.roots if row["can_come"]}
        others = [each for each in self.chosen if each != folder]
        self.chosen = [*others, folder] if is_chosen and folder in able else others

    @rx.event
    async def bring(self) -> Any:
        """Create the chosen modules, and copy and plan the state of each."""
        if not self.chosen or not self._survey:
            return None
        folders, self.chosen = self.chosen, []
        try:
            made = await self._rpc("bring_modules", {"p_job": self._survey["id"], "p_folders": folders})
            await self._plan(made)
            await self._again()
        except AppError as error:
            self.chosen = folders
            return say_error(error)
        return None

    async def _plan(self, modules: list[dict[str, Any]]) -> None:
        plannable = [each for each in modules if each["engine"] != "pulumi"]
        for has_state in (True, False):
            ids = [each["id"] for each in plannable if bool(each["backend"]) is has_state]
            if ids:
                options = {"bring_state": True} if has_state else {}
                call = {"p_org": await self._org_id(), "p_type": "PLAN", "p_modules": ids, "p_options": options}
                await self._rpc("enqueue_jobs", call)
