"""The runners page: the fleet, filtered and searched, and the jobs that wait or run."""

import json
from datetime import UTC, datetime
from typing import ClassVar

import reflex as rx

from app.jobs import queue
from app.runners.board import Board, board_of, choose
from app.runners.jobs import ActiveJob
from app.runners.rollouts import NO_ROLLOUT, Rollout
from app.runners.rows import Counts, InstanceRow, Pulse, RunnerRow
from app.runners.tiles import Tile, build_tiles
from app.services.errors import AppError
from app.services.models import Session
from app.services.runtime import runtime
from app.services.store import Changed, OrgStore
from app.states.add_runner import AddRunnerState
from app.states.live import LivePage, plain
from app.states.session import say_error

PAGE_SIZE = 50
FEW_JOBS = 6
MANY_JOBS = 50
MAX_FLASHES = 10
MAX_PATCHES = 8
FILTERS = ("ALL", "ONLINE", "DRAINING", "OFFLINE")


class RunnersState(LivePage, rx.State):
    """What the runners page shows."""

    TOPICS: ClassVar[frozenset[str]] = frozenset(
        {"workers", "worker_instances", "provision_jobs", "worker_releases", "rollouts", "overview"}
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
    rollout: Rollout = NO_ROLLOUT
    tiles: dict[str, Tile] = {}
    jobs: list[ActiveJob] = []
    job_count: int = 0
    job_words: str = ""
    is_all_jobs: bool = False
    why: queue.Why = queue.Why()

    async def _prepare(self, session: Session) -> None:
        query = self.router.url.query_parameters
        asked = str(query.get("status", "")).upper()
        self.status = asked if asked in FILTERS else "ALL"
        self.search, self.page_number, self.is_all_jobs = "", 0, False
        self.instances, self.flashes, self.why = {}, {}, queue.Why()

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        board = board_of(store)
        before = self._shown()
        self._show_runners(board)
        if not changed.is_everything:
            self._show_flashes(before)
        self._show_jobs(board)
        await self._show_tiles(store, board)
        sheet = await self.get_state(AddRunnerState)
        sheet._watch(store)

    def _show_runners(self, board: Board) -> None:
        chosen = choose(board.rows, self.status, self.search)
        first = min(self.page_number, max(0, len(chosen) - 1) // PAGE_SIZE) * PAGE_SIZE
        rows = chosen[first : first + PAGE_SIZE]
        opened = {row["id"] for row in rows} & self.instances.keys()
        instances = {key: board.instances.get(key, []) for key in opened}
        shown = [row["id"] for row in rows]
        shown += [row["id"] for sub_rows in instances.values() for row in sub_rows]
        self._show_rows(rows)
        self._assign("instances", instances)
        self._assign("pulses", {key: board.pulses[key] for key in shown if key in board.pulses})
        self._assign("match_count", len(chosen))
        self._assign("counts", board.counts)
        self._assign("rollout", board.rollout)

    def _shown(self) -> dict[str, RunnerRow]:
        """The rows as the browser has them: the page, and the patches over it."""
        return {**{row["id"]: row for row in plain(self.rows)}, **plain(self.patches)}

    def _show_rows(self, rows: list[RunnerRow]) -> None:
        """Send a few changed rows alone: the list of a page would be sent whole."""
        shown = plain(self.rows)
        is_same_page = [row["id"] for row in rows] == [row["id"] for row in shown]
        held = {row["id"]: row for row in shown}
        differing = {row["id"]: row for row in rows if held.get(row["id"]) != row}
        if is_same_page and len(differing) <= MAX_PATCHES:
            self._assign("patches", differing)
        else:
            self.rows = rows
            self._assign("patches", {})

    def _show_flashes(self, before: dict[str, RunnerRow]) -> None:
        """Tint the rows that differ from what was shown; a row that is new here differs too."""
        ids = [key for key, row in self._shown().items() if before.get(key) != row]
        if 0 < len(ids) <= MAX_FLASHES:
            self.flashes = {key: _other(self.flashes.get(key)) for key in ids}

    def _show_jobs(self, board: Board) -> None:
        self._assign("jobs", board.jobs[: MANY_JOBS if self.is_all_jobs else FEW_JOBS])
        self._assign("job_count", len(board.jobs))
        self._assign("job_words", board.job_words)
        if self.why.is_known and self.why.job_id not in {str(job["id"]) for job in self.jobs}:
            self.why = queue.Why()

    async def _show_tiles(self, store: OrgStore, board: Board) -> None:
        session = await (await self._who())._must_session()
        figures = await runtime().fleet.figures(session, store.org_id)
        slots = {"used": board.used, "capacity": board.capacity}
        version = (id(figures), board.used, board.capacity)
        self._assign("tiles", store.derive("tiles", lambda _store: build_tiles(figures, slots), version))

    def _assign(self, name: str, value: object) -> None:
        """Assign only what differs: an assigned var is sent whole."""
        if plain(getattr(self, name)) != value:
            setattr(self, name, value)

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


def _other(flash: str | None) -> str:
    return "ry-changed2" if flash == "ry-changed" else "ry-changed"
