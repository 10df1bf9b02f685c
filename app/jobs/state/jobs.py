"""The jobs page: everything the runners did, do and will do."""

import json
from typing import ClassVar, TypedDict
from urllib.parse import urlencode

import reflex as rx

from app.jobs.view.filters import JobFilter, counts, ordered
from app.live.page import LivePage
from app.project.models import Filter, Query, Row, Session
from app.project.snapshot import JOB_COLUMNS
from app.project.store import Changed, OrgStore
from app.shared.job.rows import JobRow, build_row
from app.shared.job.words import ACTIVE, NEEDS_YOU
from app.shared.patches import over, tint

PAGE_SIZE = 25
CHOICES = ("view", "status", "type", "runner")
# The store has every one of these, so that a page of them needs no question to the database.
UNFINISHED = ACTIVE | NEEDS_YOU


class RunnerChoice(TypedDict):
    """A runner to filter by."""

    id: str
    name: str


class JobsState(LivePage, rx.State):
    """What the jobs page shows."""

    TOPICS: ClassVar[frozenset[str]] = frozenset({"provision_jobs", "workers"})

    rows: list[JobRow] = []
    patches: dict[str, JobRow] = {}
    needs_count: int = 0
    active_count: int = 0
    view: str = "all"
    status: str = "any"
    type: str = "any"
    runner: str = "any"
    search: str = ""
    runners: list[RunnerChoice] = []
    flashes: dict[str, str] = {}
    total: int = 0
    page_number: int = 0
    fresh_count: int = 0
    is_filtered: bool = False
    _held: list[Row] = []
    _is_held: bool = False

    def _filter(self) -> JobFilter:
        return JobFilter(self.view, self.status, self.type, self.runner, self.search)

    def _take(self, chosen: JobFilter) -> None:
        self.view, self.status, self.type = chosen.view, chosen.status, chosen.type
        self.runner, self.search, self.page_number = chosen.runner, chosen.search, 0
        self.is_filtered = not chosen.is_open

    async def _prepare(self, session: Session) -> None:
        chosen = JobFilter()
        for name, value in self.router.url.query_parameters.items():
            if name in (*CHOICES, "search"):
                chosen = chosen.with_choice(name, str(value))
        self._take(chosen)
        self.flashes, self._is_held = {}, False
        await self._read()

    async def _read(self) -> None:
        """Read the page from the database; what is live is put over it when it is shown."""
        chosen = self._filter()
        if chosen.statuses <= UNFINISHED:
            self._held, self.fresh_count = [], 0
            return
        conditions = [Filter(*condition) for condition in chosen.conditions()]
        query = Query(
            columns=JOB_COLUMNS,
            filters=(Filter("org_id", "eq", await self._org_id()), *conditions),
            or_filter=chosen.search_condition(),
            order="id",
            is_descending=True,
            limit=PAGE_SIZE,
            offset=self.page_number * PAGE_SIZE,
            is_counted=True,
        )
        page = await self._select("provision_jobs", query)
        self._held, self.total, self.fresh_count = page.rows, page.total, 0

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        jobs = store.rows("provision_jobs")
        segments = counts(jobs)
        self._assign("needs_count", segments["needs"])
        self._assign("active_count", segments["active"])
        workers = sorted(store.rows("workers"), key=lambda row: str(row["name"]).casefold())
        self._assign("runners", [{"id": str(row["id"]), "name": str(row["name"])} for row in workers])
        self._held = self._renewed(store, jobs)
        names = {str(row["id"]): str(row["name"]) for row in workers}
        self._show_rows([build_row(job, names) for job in self._held])
        self._flash(changed)

    def _show_rows(self, wanted: list[JobRow]) -> None:
        """Send a few changed rows alone: the list of a page would be sent whole."""
        rows, patches = over(self.get_value("rows"), wanted)
        self._assign("rows", rows)
        self._assign("patches", patches)

    def _renewed(self, store: OrgStore, jobs: list[Row]) -> list[Row]:
        """Renew the rows of this page; on the first page new ones join, unless somebody is at the table."""
        chosen = self._filter()
        held = [store.row("provision_jobs", str(job["id"])) or job for job in self._held]
        if chosen.statuses <= UNFINISHED:
            return self._all_live(ordered([job for job in jobs if chosen.takes(job)], chosen.view), held)
        if self.page_number:
            return held
        known = {job["id"] for job in held}
        new = [job for job in jobs if job["id"] not in known and chosen.takes(job) and self._is_newer(job, held)]
        if self._is_held:
            self._assign("fresh_count", len(new))
            return held
        self._assign("total", self.total + len(new))
        self._assign("fresh_count", 0)
        kept = [job for job in held if chosen.takes(job)]
        return ordered([*kept, *new], chosen.view)[:PAGE_SIZE]

    def _all_live(self, found: list[Row], held: list[Row]) -> list[Row]:
        """Page what the store knows completely: jobs that are not finished."""
        first = self.page_number * PAGE_SIZE
        page = found[first : first + PAGE_SIZE]
        known = {job["id"] for job in held}
        new = [job for job in page if job["id"] not in known]
        if self._is_held and held:
            self._assign("fresh_count", len(new))
            return held
        self._assign("total", len(found))
        self._assign("fresh_count", 0)
        return page

    def _is_newer(self, job: Row, held: list[Row]) -> bool:
        return len(held) < PAGE_SIZE or int(job["id"]) > int(held[-1]["id"])

    def _flash(self, changed: Changed) -> None:
        ids = changed.ids("provision_jobs") & {str(row["id"]) for row in self.get_value("rows")}
        flashes = tint(self.get_value("flashes"), ids)
        if flashes:
            self.flashes = flashes

    async def _reload(self) -> rx.event.EventSpec:
        await self._read()
        await self._again()
        chosen = {name: getattr(self, name) for name in CHOICES if getattr(self, name) not in ("any", "all")}
        query = f"?{urlencode(chosen)}" if chosen else ""
        return rx.call_script(f"history.replaceState(null, '', location.pathname + {json.dumps(query)})")

    @rx.event
    async def show_view(self, value: str | list[str]) -> rx.event.EventSpec | None:
        """Show what needs me, what is active, what is finished, or everything."""
        return await self._choose("view", value if isinstance(value, str) else "")

    @rx.event
    async def choose_status(self, value: str) -> rx.event.EventSpec | None:
        """Show one status only."""
        return await self._choose("status", value)

    @rx.event
    async def choose_type(self, value: str) -> rx.event.EventSpec | None:
        """Show one type only."""
        return await self._choose("type", value)

    @rx.event
    async def choose_runner(self, value: str) -> rx.event.EventSpec | None:
        """Show the jobs of one runner."""
        return await self._choose("runner", value)

    @rx.event
    async def search_for(self, text: str) -> rx.event.EventSpec | None:
        """Show jobs by number, module, runner or person."""
        return await self._choose("search", text)

    async def _choose(self, name: str, value: str) -> rx.event.EventSpec | None:
        chosen = self._filter().with_choice(name, value)
        if chosen == self._filter():
            return None
        self._take(chosen)
        return await self._reload()

    @rx.event
    async def clear(self) -> list[rx.event.EventSpec]:
        """Show everything again."""
        self._take(JobFilter())
        return [await self._reload(), rx.set_value("job-search", "")]

    @rx.event
    async def turn_page(self, step: int) -> None:
        """Show older or newer jobs."""
        last = max(0, self.total - 1) // PAGE_SIZE
        self.page_number = min(last, max(0, self.page_number + (1 if step > 0 else -1)))
        await self._reload()

    @rx.event
    async def hold(self, is_held: bool) -> None:
        """Keep new rows back while the pointer or the focus is in the table; nothing moves under it."""
        self._is_held = bool(is_held)
        if not is_held and self.fresh_count:
            await self._again()

    @rx.event
    async def show_fresh(self) -> None:
        """Let the new rows in."""
        self._is_held = False
        await self._again()
