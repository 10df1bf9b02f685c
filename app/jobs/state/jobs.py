"""The jobs page: past, running and queued jobs, a page at a time."""

from functools import lru_cache
from typing import Any

import reflex as rx

from app.frame.session import SEGMENT
from app.jobs.view.rows import JobFilter, JobRow, build_row, count
from app.jobs.view.words import ACTIVE
from app.live.page import Filtered, chooses
from app.live.patches import shown
from app.project.live_queries import Held, LiveQuery, live_query
from app.project.models import BrowserSession, Filter, Query
from app.project.store import Changed, OrgStore
from app.ui.choices import export_address
from app.ui.view import count_needed

PAGE_SIZE = 25


# Asked for by each tab with each change.
@lru_cache(maxsize=1024)
def jobs_query(chosen: JobFilter, page_number: int, user_id: str) -> LiveQuery:
    """Ask for a page of the jobs that were chosen, running ones first."""
    arguments = {**chosen.arguments(user_id), "limit": PAGE_SIZE, "offset": page_number * PAGE_SIZE}
    return live_query("list_jobs", ("provision_jobs",), "provision_jobs", **arguments)


class JobsState(Filtered, rx.State):
    ADDRESS = "/dashboard/jobs"
    PAGE_SIZE = PAGE_SIZE

    rows: list[JobRow] = []
    patches: dict[str, JobRow] = {}
    needs_count: int = 0
    active_count: int = 0
    all_count: int = 0
    choices: JobFilter = JobFilter()
    runner_name: str = ""
    export: str = ""
    flashes: dict[str, str] = {}
    fresh_count: int = 0
    is_held: bool = False
    _user_id: str = ""

    show_view = chooses("view", SEGMENT)
    choose_status = chooses("status")
    choose_type = chooses("type")
    search_for = chooses("search")

    def _take(self, chosen: JobFilter) -> None:
        super()._take(chosen)
        self._assign("export", export_address(chosen.arguments(self._user_id)))

    def _query(self) -> LiveQuery:
        return jobs_query(self.get_value("choices"), self.page_number, self._user_id)

    async def _prepare(self, session: BrowserSession) -> None:
        self._user_id = session.user_id
        self._take(JobFilter.read(self.router.url.query_parameters))
        self.flashes, self.is_held = {}, False
        await self._name_runner()
        await self._ask(self._query())

    async def _name_runner(self) -> None:
        if self.choices.runner == "any":
            self._assign("runner_name", "")
            return
        query = Query(columns="name", filters=(Filter("id", "eq", self.choices.runner),), limit=1)
        rows = (await self._select("workers", query)).rows
        self._assign("runner_name", str(rows[0]["name"]) if rows else "a removed runner")

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        held = store.live_queries.held(self._query())
        if held is None or not changed.touches(held.query.notices):
            return
        counts = held.answer["counts"]
        others = held.answer.get("waits_for_others") or {}
        self._assign("needs_count", count_needed(counts, others, self._user_id))
        self._assign("active_count", count(counts, ACTIVE))
        self._assign("all_count", count(counts, counts))
        self._assign("total", int(held.answer["total"]))
        self._draw(held, self._kept(held, store, changed), changed)

    def _kept(self, held: Held, store: OrgStore, changed: Changed) -> list[JobRow]:
        """The page as it is now; while somebody is at the table what is shown keeps its place, and new rows wait."""
        rows = held.each("rows", build_row)
        if changed.is_everything or not self.is_held:
            self._assign("fresh_count", 0)
            return rows
        fresh: dict[Any, JobRow | None] = {row["id"]: row for row in rows}
        kept: list[JobRow] = []
        for row in shown(self.get_value("rows"), self.get_value("patches")).values():
            latest = store.row("provision_jobs", str(row["id"]))
            kept.append(fresh.pop(row["id"], None) or (build_row(latest) if latest is not None else row))
        self._assign("fresh_count", len(fresh))
        return kept

    @rx.event
    async def any_runner(self) -> rx.event.EventSpec | None:
        return await self._choose("runner", "any")

    @rx.event
    async def any_set(self) -> rx.event.EventSpec | None:
        return await self._choose("changed", "any")

    async def _change(self, chosen: JobFilter) -> rx.event.EventSpec:
        way = await super()._change(chosen)
        await self._name_runner()
        return way

    @rx.event
    async def hold(self, is_held: bool) -> None:
        """Keep new rows back while the pointer or the focus is in the table; nothing moves under it."""
        self.is_held = bool(is_held)
        if not is_held and self.fresh_count:
            await self._again()

    @rx.event
    async def show_fresh(self) -> None:
        self.is_held = False
        await self._again()
