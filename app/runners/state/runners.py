"""The runners page: the fleet, filtered and searched, and the jobs that wait or run."""

import json
from datetime import UTC, datetime
from typing import ClassVar

import reflex as rx

from app.live.page import LivePage
from app.project.errors import AppError
from app.project.models import Session
from app.project.runtime import runtime
from app.project.store import NOTHING, Changed, OrgStore
from app.runners.state.add_runner import AddRunnerState
from app.runners.view.board import PAGE_SIZE, Board, Glance, Look, board_of, keep_jobs, keep_rows
from app.runners.view.jobs import ActiveJob
from app.runners.view.rollouts import NO_ROLLOUT, Rollout
from app.runners.view.rows import Counts, InstanceRow, Pulse, RunnerRow
from app.runners.view.tiles import Tile, tiles_of
from app.shared.job import queue
from app.shared.patches import shown, tint
from app.shared.session import say_error

FILTERS = ("ALL", "ONLINE", "DRAINING", "OFFLINE")
TABLES = ("runners", "jobs")


class RunnersState(LivePage, rx.State):
    """What the runners page shows."""

    TOPICS: ClassVar[frozenset[str]] = frozenset(
        {"workers", "worker_instances", "provision_jobs", "worker_releases", "rollouts", "overview", "figures"}
    )

    rows: list[RunnerRow] = []
    patches: dict[str, RunnerRow] = {}
    pulses: dict[str, Pulse] = {}
    instances: dict[str, list[InstanceRow]] = {}
    flashes: dict[str, str] = {}
    counts: Counts = {"all": 0, "ONLINE": 0, "DRAINING": 0, "OFFLINE": 0}
    status: str = "ALL"
    search: str = ""
    match_count: int = 0
    page_number: int = 0
    fresh_count: int = 0
    preparing: str = ""
    rollout: Rollout = NO_ROLLOUT
    tiles: dict[str, Tile] = {}
    jobs: list[ActiveJob] = []
    job_count: int = 0
    fresh_job_count: int = 0
    job_words: str = ""
    is_all_jobs: bool = False
    why: queue.Why = queue.Why()
    _held_tables: frozenset[str] = frozenset()

    async def _prepare(self, session: Session) -> None:
        query = self.router.url.query_parameters
        asked = str(query.get("status", "")).upper()
        self.status = asked if asked in FILTERS else "ALL"
        self.search, self.page_number, self.is_all_jobs = "", 0, False
        self.instances, self.flashes, self.why = {}, {}, queue.Why()
        self._held_tables = frozenset()
        await runtime().hub.load_figures(await self._org_id(), session)

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        board = board_of(store)
        self._show_runners(board, changed)
        self._show_jobs(board, store, changed)
        self._assign("tiles", tiles_of(store, board.used, board.capacity))
        sheet = await self.get_state(AddRunnerState)
        sheet._watch(store)

    def _look(self) -> Look:
        opened = frozenset(self.get_value("instances"))
        return Look(self.status, self.search, self.page_number, opened, self.is_all_jobs)

    def _show_runners(self, board: Board, changed: Changed) -> None:
        glance = self._kept(board, board.glance(self._look()), changed)
        self._show_rows(glance, changed)
        self._assign("instances", glance.instances)
        self._assign("pulses", glance.pulses)
        self._assign("match_count", glance.match_count)
        self._assign("counts", board.counts)
        self._assign("rollout", board.rollout)
        self._assign("preparing", board.preparing)

    def _kept(self, board: Board, glance: Glance, changed: Changed) -> Glance:
        """Let new rows wait while somebody is at the table; what is there changes its colour and not its place."""
        if changed.is_everything or "runners" not in self._held_tables:
            self._assign("fresh_count", 0)
            return glance
        kept, fresh_count = keep_rows(board, glance, self.get_value("rows"))
        self._assign("fresh_count", fresh_count)
        return kept

    def _show_rows(self, glance: Glance, changed: Changed) -> None:
        """Send the page or its patches, and tint what differs from what was shown; a row that is new here differs too."""
        rows, patches = self.get_value("rows"), self.get_value("patches")
        if rows is glance.rows and patches == glance.patches:
            return
        before, after = shown(rows, patches), shown(glance.rows, glance.patches)
        self._assign("rows", glance.rows)
        self._assign("patches", glance.patches)
        differing = [] if changed.is_everything else [key for key, row in after.items() if before.get(key) != row]
        flashes = tint(self.get_value("flashes"), differing)
        if flashes:
            self.flashes = flashes

    def _show_jobs(self, board: Board, store: OrgStore, changed: Changed) -> None:
        jobs, fresh_count = board.glance(self._look()).jobs, 0
        if "jobs" in self._held_tables and not changed.is_everything:
            jobs, fresh_count = keep_jobs(store, board, jobs, self.get_value("jobs"))
        self._assign("jobs", jobs)
        self._assign("fresh_job_count", fresh_count)
        self._assign("job_count", len(board.jobs))
        self._assign("job_words", board.job_words)
        if self.why.is_known and self.why.job_id not in {str(job["id"]) for job in jobs}:
            self.why = queue.Why()

    @rx.event
    async def hold(self, table: str, is_held: bool) -> None:
        """Keep new rows of a table back while the pointer or the focus is in it."""
        if table not in TABLES:
            return
        self._held_tables = self._held_tables | {table} if is_held else self._held_tables - {table}
        if not is_held and (self.fresh_count or self.fresh_job_count):
            await self._again()

    @rx.event
    async def filter_by(self, value: str | list[str]) -> rx.event.EventSpec | None:
        """Show the runners of one status; the address says so too."""
        if not isinstance(value, str) or value not in FILTERS:
            return None
        self.status, self.page_number = value, 0
        await self._again()
        query = "" if value == "ALL" else f"?status={value}"
        return rx.call_script(f"history.replaceState(null, '', location.pathname + {json.dumps(query)})")

    @rx.event
    async def search_for(self, text: str) -> None:
        """Show the runners whose name has this in it."""
        self.search, self.page_number = text[:100], 0
        await self._again()

    @rx.event
    async def clear_search(self) -> rx.event.EventSpec:
        """Show all names again."""
        self.search, self.page_number = "", 0
        await self._again()
        return rx.set_value("runner-search", "")

    @rx.event
    async def turn_page(self, step: int) -> None:
        """Show the next or the previous page."""
        last = max(0, self.match_count - 1) // PAGE_SIZE
        self.page_number = min(last, max(0, self.page_number + (1 if step > 0 else -1)))
        await self._again()

    @rx.event
    async def fold(self, worker_id: str) -> None:
        """Show or hide the instances of a runner."""
        if worker_id in self.instances:
            self.instances = {key: rows for key, rows in self.instances.items() if key != worker_id}
        else:
            self.instances = {**self.instances, worker_id: []}
        await self._again(NOTHING)

    @rx.event
    async def show_fresh(self) -> None:
        """Let the rows in that wait."""
        await self._again()

    @rx.event
    async def show_all_jobs(self) -> None:
        """Show more of the active jobs, or only a few again."""
        self.is_all_jobs = not self.is_all_jobs
        await self._again()

    @rx.event
    async def ask_why(self, job_id: int) -> rx.event.EventSpec | None:
        """Ask the database why a job waits; asking again folds the answer."""
        if self.why.job_id == str(job_id):
            self.why = queue.Why()
            return None
        try:
            answer = await self._rpc("explain_queue", {"p_job": job_id})
        except AppError as error:
            return say_error(error)
        self.why = queue.build({**answer, "job_id": job_id}, datetime.now(UTC).isoformat())
        return None
