"""The runners page: a page of the fleet, filtered and searched by the database, and the jobs that wait or run."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar

import reflex as rx

from app.frame.layout import say_in_address
from app.jobs.view import queue
from app.live.page import LivePage
from app.live.patches import shown
from app.project.live_queries import Held, LiveQuery, live_query
from app.project.models import BrowserSession
from app.project.runtime import runtime
from app.project.store import NOTHING, Changed, OrgStore
from app.runners.state.add_runner import AddRunnerState
from app.runners.state.rollout import NO_ROLLOUT, Rollout, build_rollout
from app.runners.view import rows as views
from app.runners.view.filters import FACETS, STATUSES, Choice, RunnerFilter, choices, read, say_values
from app.runners.view.jobs import ACTIVE, ActiveJob, active_row, say_counts
from app.runners.view.tiles import Tile, tiles_of

PAGE_SIZE = 50
FEW_JOBS = 6
MANY_JOBS = 50
TABLES = ("runners", "jobs")
# The topics of the tiles, the chips and the size of the fleet.
FLEET = frozenset({"counts", "slots", "figures", "facets"})
ROLLOUT = live_query("rollout_progress", ("rollouts", "provision_jobs"), pause_seconds=1.0)


# Each tab calls it with each change.
@lru_cache(maxsize=1024)
def runners_query(chosen: RunnerFilter, page_number: int) -> LiveQuery:
    topics = ("workers", "worker_instances", "worker_releases", "overview")
    arguments = {**chosen.arguments(), "limit": PAGE_SIZE, "offset": page_number * PAGE_SIZE}
    return live_query("list_runners", topics, "workers", **arguments)


@lru_cache
def active_query(*, is_all: bool) -> LiveQuery:
    limit = MANY_JOBS if is_all else FEW_JOBS
    filters = {"status": list(ACTIVE)}
    return live_query("list_jobs", ("provision_jobs",), "provision_jobs", filters=filters, sort="active", limit=limit)


class RunnersState(LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = FLEET

    rows: list[views.RunnerRow] = []
    patches: dict[str, views.RunnerRow] = {}
    pulses: dict[str, views.Pulse] = {}
    instances: dict[str, list[views.InstanceRow]] = {}
    flashes: dict[str, str] = {}
    counts: views.Counts = {"all": 0, "ONLINE": 0, "DRAINING": 0, "OFFLINE": 0}
    fleet_count: int = 0
    status: str = "ALL"
    search: str = ""
    sort: str = "name"
    facets: dict[str, list[Choice]] = {facet: [] for facet in FACETS}
    chosen_words: dict[str, str] = dict.fromkeys(FACETS, "")
    is_filtered: bool = False
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
    held_tables: list[str] = []
    why: queue.Why = queue.Why()
    _chosen: RunnerFilter = RunnerFilter()

    async def _prepare(self, session: BrowserSession) -> None:
        self._take(read(self.router.url.query_parameters))
        self.is_all_jobs = False
        self.instances, self.flashes, self.why = {}, {}, queue.Why()
        self._assign("held_tables", [])
        await self._ask(*self._queries())
        await runtime().hub.load_figures(await self._org_id(), session)

    def _take(self, chosen: RunnerFilter) -> None:
        self._chosen, self.page_number = chosen, 0
        self._assign("status", chosen.status)
        self._assign("search", chosen.search)
        self._assign("sort", chosen.sort)
        self._assign("is_filtered", not chosen.is_open)
        self._assign("chosen_words", {facet: say_values(facet, chosen.values(facet)) for facet in FACETS})

    def _queries(self) -> tuple[LiveQuery, ...]:
        chosen = self.get_value("_chosen")
        return runners_query(chosen, self.page_number), active_query(is_all=self.is_all_jobs), ROLLOUT

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        """Show what changed, and nothing else: with five hundred tabs each look at the rest is one too many."""
        runners, jobs, rollout = (store.live_queries.held(one) for one in self._queries())
        if runners is not None and changed.touches(runners.query.notices):
            self._show_runners(runners, changed)
        if jobs is not None and changed.touches(jobs.query.notices):
            self._show_jobs(jobs, store, changed)
        if rollout is not None and changed.touches(rollout.query.notices):
            self._assign("rollout", rollout.make("rollout", lambda held: build_rollout(held.answer)))
        if runners is not None and self.get_value("instances"):
            self._show_instances(runners)
        if changed.touches(FLEET):
            self._show_fleet(store)
        await (await self.get_state(AddRunnerState))._watch()

    def _show_fleet(self, store: OrgStore) -> None:
        self._assign("tiles", tiles_of(store))
        self._assign("facets", choices(store.facets, self.get_value("_chosen")))
        self._assign("fleet_count", int(store.counts("workers").get("total") or 0))

    def _show_runners(self, held: Held, changed: Changed) -> None:
        self._draw(held, self._kept(held.each("rows", views.build_row), changed), changed)
        self._assign("pulses", held.make("pulses", _pulses))
        self._assign("match_count", int(held.answer["total"]))
        self._assign("counts", held.make("counts", lambda held: views.read_counts(held.answer["counts"])))
        self._assign("preparing", held.make("preparing", _preparing))

    def _show_instances(self, held: Held) -> None:
        listed = {str(row["id"]): row for row in held.rows()}
        opened = {
            key: views.build_instances(listed[key]["processes"]) for key in self.get_value("instances") if key in listed
        }
        self._assign("instances", opened)

    def _kept(self, rows: list[views.RunnerRow], changed: Changed) -> list[views.RunnerRow]:
        """Let new rows wait while somebody is at the table; rows on the page change their colour and not their place."""
        if changed.is_everything or "runners" not in self.get_value("held_tables"):
            self._assign("fresh_count", 0)
            return rows
        fresh = {row["id"]: row for row in rows}
        kept = [fresh.pop(row["id"], row) for row in shown(self.get_value("rows"), self.get_value("patches")).values()]
        self._assign("fresh_count", len(fresh))
        return kept

    def _show_jobs(self, held: Held, store: OrgStore, changed: Changed) -> None:
        jobs, fresh_count = held.each("jobs", active_row), 0
        if "jobs" in self.get_value("held_tables") and not changed.is_everything:
            jobs, fresh_count = self._kept_jobs(jobs, store)
        self._assign("jobs", jobs)
        self._assign("fresh_job_count", fresh_count)
        self._assign("job_count", int(held.answer["total"]))
        self._assign("job_words", say_counts(held.answer["counts"]))
        if self.why.is_known and self.why.job_id not in {str(job["id"]) for job in jobs}:
            self.why = queue.Why()

    def _kept_jobs(self, jobs: list[ActiveJob], store: OrgStore) -> tuple[list[ActiveJob], int]:
        """Show the jobs that are shown, even those that have ended meanwhile; count those that would join them."""
        fresh: dict[Any, Any] = {job["id"]: job for job in jobs}
        kept: list[ActiveJob] = []
        for job in self.get_value("jobs"):
            latest = store.row("provision_jobs", str(job["id"]))
            ended = {**job, "status": str(latest["status"])} if latest is not None else job
            kept.append(fresh.pop(job["id"], ended))
        return kept, len(fresh)

    async def _choose(self, chosen: RunnerFilter) -> rx.event.EventSpec:
        """Show what was chosen: the choice, its rows and the address change together."""
        self._take(chosen)
        await self._turn()
        return say_in_address("/dashboard/runners", chosen.query())

    async def _turn(self) -> None:
        await self._ask(*self._queries())
        await self._again()

    @rx.event
    async def hold(self, table: str, is_held: bool) -> None:
        """Keep new rows of a table back while the pointer or the focus is in it."""
        if table not in TABLES:
            return
        others = [one for one in self.get_value("held_tables") if one != table]
        self._assign("held_tables", [*others, table] if is_held else others)
        if not is_held and (self.fresh_count or self.fresh_job_count):
            await self._again()

    @rx.event
    async def filter_by(self, value: str | list[str]) -> rx.event.EventSpec | None:
        if not isinstance(value, str) or value not in STATUSES:
            return None
        return await self._choose(RunnerFilter(**{**vars(self._chosen), "status": value}))

    @rx.event
    async def search_for(self, text: str) -> rx.event.EventSpec:
        return await self._choose(RunnerFilter(**{**vars(self._chosen), "search": str(text)[:100]}))

    @rx.event
    async def turn_names(self) -> rx.event.EventSpec:
        sort = "-name" if self._chosen.sort == "name" else "name"
        return await self._choose(RunnerFilter(**{**vars(self._chosen), "sort": sort}))

    @rx.event
    async def toggle(self, facet: str, value: str) -> rx.event.EventSpec | None:
        chosen = self._chosen.toggled(str(facet), str(value))
        return None if chosen == self._chosen else await self._choose(chosen)

    @rx.event
    async def clear_facet(self, facet: str) -> rx.event.EventSpec | None:
        return await self._choose(self._chosen.cleared(str(facet))) if facet in FACETS else None

    @rx.event
    async def clear_search(self) -> rx.event.EventSpec:
        return await self._choose(self._chosen.cleared())

    @rx.event
    async def turn_page(self, step: int) -> None:
        last = max(0, self.match_count - 1) // PAGE_SIZE
        self.page_number = min(last, max(0, self.page_number + (1 if step > 0 else -1)))
        await self._turn()

    @rx.event
    async def fold(self, worker_id: str) -> None:
        if worker_id in self.instances:
            self.instances = {key: rows for key, rows in self.instances.items() if key != worker_id}
        else:
            self.instances = {**self.instances, worker_id: []}
        await self._again(NOTHING)

    @rx.event
    async def show_fresh(self) -> None:
        await self._again()

    @rx.event
    async def show_all_jobs(self) -> None:
        self.is_all_jobs = not self.is_all_jobs
        await self._turn()

    @rx.event
    async def ask_why(self, job_id: int) -> None:
        """Ask the database why a job waits; asking again folds the answer."""
        if self.why.job_id == str(job_id):
            self.why = queue.Why()
            return
        answer = await self._rpc("explain_queue", {"p_job": job_id})
        self.why = queue.build({**answer, "job_id": job_id}, datetime.now(UTC).isoformat())


def _pulses(held: Held) -> dict[str, views.Pulse]:
    return {key: pulse for row in held.rows() for key, pulse in views.read_pulses(row).items()}


def _preparing(held: Held) -> str:
    notes = (views.preparing(row.get("processes") or []) for row in held.rows())
    return next((note for note in notes if note), "")
