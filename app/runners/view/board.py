"""Everything the runners page could show of an organisation, worked out once per change."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from app.project.store import OrgStore, version_of
from app.runners.view.jobs import ActiveJob, active_row, build_active, say_counts
from app.runners.view.rollouts import Rollout, build_rollout
from app.runners.view.rows import (
    Counts,
    InstanceRow,
    Pulse,
    RunnerRow,
    build_instances,
    build_row,
    count_statuses,
    engine_note,
    is_connected,
    preparing,
    read_pulses,
    with_departures,
)
from app.shared.patches import over
from app.shared.runner.versions import outdated_of
from app.shared.words import parse_time

Row = Mapping[str, Any]
PAGE_SIZE = 50
FEW_JOBS = 6
MANY_JOBS = 50
MAX_LOOKS = 64
TOPICS = ("workers", "worker_instances", "provision_jobs", "worker_releases", "rollouts", "overview")


class Look(NamedTuple):
    """What a tab asks to see of the board; most tabs ask for the same."""

    status: str = "ALL"
    search: str = ""
    page_number: int = 0
    opened: frozenset[str] = frozenset()
    is_all_jobs: bool = False


@dataclass(frozen=True)
class Glance:
    """What the tabs with the same look are shown, as the very same objects: those compare fastest."""

    rows: list[RunnerRow]
    patches: dict[str, RunnerRow]
    instances: dict[str, list[InstanceRow]]
    pulses: dict[str, Pulse]
    match_count: int
    jobs: list[ActiveJob]


class _Made(NamedTuple):
    """A row, and what it was made of."""

    worker: Row
    told: tuple[str, str | None] | None
    current: Row
    around: tuple[str, int, int, str]
    row: RunnerRow


@dataclass(frozen=True)
class Board:
    """The fleet, ready to be filtered and paged."""

    rows: list[RunnerRow]
    counts: Counts
    instances: dict[str, list[InstanceRow]]
    pulses: dict[str, Pulse]
    rollout: Rollout
    jobs: list[ActiveJob]
    job_words: str
    preparing: str
    used: int
    capacity: int
    made: dict[str, _Made] = field(repr=False)
    glances: dict[Look, Glance] = field(default_factory=dict, repr=False)
    before: dict[Look, Glance] = field(default_factory=dict, repr=False)

    def glance(self, look: Look) -> Glance:
        """Choose what a look shows, once however many tabs have it."""
        if look not in self.glances:
            self.glances[look] = _glance(self, look, self.before.get(look))
        return self.glances[look]


def board_of(store: OrgStore) -> Board:
    """Work the board out, or take the one that was worked out since the last change."""
    return store.derive("board", TOPICS, _build)


def _told(store: OrgStore) -> dict[str, tuple[str, str | None]]:
    """What the last look said of each runner's status: a row tells of a silence only once somebody swept."""
    rows = store.overview.get("workers") or []
    return {str(row["id"]): (row["status"], row.get("status_reason")) for row in rows}


def _current(worker: Row, told: tuple[str, str | None] | None, asked_at: datetime | None) -> Row:
    """A runner's row with its status as of the last look, unless the row is newer."""
    if told is None or asked_at is None or told == (worker["status"], worker.get("status_reason")):
        return worker
    is_newer = asked_at > version_of(worker)
    return {**worker, "status": told[0], "status_reason": told[1]} if is_newer else worker


def _build(store: OrgStore) -> Board:
    last: Board | None = store.last("board")
    jobs = store.rows("provision_jobs")
    made = _make_rows(store, last.made if last else {})
    rows = sorted((item.row for item in made.values()), key=lambda row: (row["is_shared"], row["name"].casefold()))
    pulses = store.derive("pulses", ("overview", "worker_instances"), _pulses)
    fleet = [pulses[row["id"]] for row in rows if row["id"] in pulses]
    return Board(
        rows=rows,
        counts=count_statuses(rows),
        instances=_instances(store),
        pulses=pulses,
        rollout=build_rollout(store.rows("rollouts"), jobs),
        jobs=build_active(jobs, {row["id"]: row["name"] for row in rows}),
        job_words=say_counts(jobs),
        preparing=next((note for note in map(preparing, _connected(store).values()) if note), ""),
        used=sum(pulse["used"] for pulse in fleet),
        capacity=sum(pulse["capacity"] for pulse in fleet),
        made=made,
        before=_looked_at(last),
    )


def _pulses(store: OrgStore) -> dict[str, Pulse]:
    return with_departures(read_pulses(store.overview), store.rows("worker_instances"))


def _looked_at(last: Board | None) -> dict[Look, Glance]:
    """What each look was last shown; a look that nobody had since the last change is kept for a while."""
    if last is None:
        return {}
    kept = {**last.before, **last.glances}
    return kept if len(kept) <= MAX_LOOKS else last.glances


def _make_rows(store: OrgStore, before: Mapping[str, _Made]) -> dict[str, _Made]:
    """Make the rows of runners that changed, and keep the others: a change concerns one of a thousand."""
    newest, connected = outdated_of(store).latest, _connected(store)
    jobs = store.tables["provision_jobs"].values()
    running = Counter(str(job.get("worker_id")) for job in jobs if job["status"] in ("CLAIMED", "PROCESSING"))
    told = store.derive("told", ("overview",), _told)
    asked_at = parse_time(store.overview.get("server_time"))
    made: dict[str, _Made] = {}
    for key, worker in store.tables["workers"].items():
        mine = connected.get(key, ())
        around = (newest, len(mine), running[key], engine_note(mine) if mine else "")
        made[key] = _make_row(worker, told.get(key), asked_at, around, before.get(key))
    return made


def _make_row(
    worker: Row,
    told: tuple[str, str | None] | None,
    asked_at: datetime | None,
    around: tuple[str, int, int, str],
    held: _Made | None,
) -> _Made:
    known = held if held is not None and held.worker is worker and held.told == told else None
    is_told = known is not None and known.current is not worker
    current = known.current if known is not None and is_told else _current(worker, told, asked_at)
    if known is not None and known.current is current and known.around == around:
        return known
    row = build_row(current, *around)
    # The same object for the same row: every tab compares what it shows, and identity compares fastest.
    return _Made(worker, told, current, around, held.row if held is not None and held.row == row else row)


def _connected(store: OrgStore) -> dict[str, list[Row]]:
    return store.derive("connected", ("worker_instances",), _by_worker)


def _by_worker(store: OrgStore) -> dict[str, list[Row]]:
    by_worker: dict[str, list[Row]] = defaultdict(list)
    for row in store.rows("worker_instances"):
        if is_connected(row):
            by_worker[str(row["worker_id"])].append(row)
    return dict(by_worker)


def _instances(store: OrgStore) -> dict[str, list[InstanceRow]]:
    return store.derive(
        "instances",
        ("worker_instances",),
        lambda store: {key: build_instances(rows) for key, rows in _connected(store).items()},
    )


def _glance(board: Board, look: Look, before: Glance | None) -> Glance:
    chosen = choose(board.rows, look.status, look.search)
    first = min(look.page_number, max(0, len(chosen) - 1) // PAGE_SIZE) * PAGE_SIZE
    rows, patches = over(before.rows if before else [], chosen[first : first + PAGE_SIZE])
    instances = {row["id"]: board.instances.get(row["id"], []) for row in rows if row["id"] in look.opened}
    return Glance(
        rows=rows,
        patches=patches,
        instances=instances,
        pulses=pulses_of(board, rows, instances),
        match_count=len(chosen),
        jobs=board.jobs[: MANY_JOBS if look.is_all_jobs else FEW_JOBS],
    )


def keep_rows(board: Board, glance: Glance, shown: list[RunnerRow]) -> tuple[Glance, int]:
    """Show the rows that are shown, as they are now and where they are; count those that would join them."""
    kept = [board.made[row["id"]].row for row in shown if row["id"] in board.made]
    known = {row["id"] for row in kept}
    rows, patches = over(shown, kept)
    fresh_count = sum(row["id"] not in known for row in glance.rows)
    instances = {key: rows for key, rows in glance.instances.items() if key in known}
    pulses = pulses_of(board, kept, instances)
    return replace(glance, rows=rows, patches=patches, instances=instances, pulses=pulses), fresh_count


def keep_jobs(
    store: OrgStore, board: Board, jobs: list[ActiveJob], shown: list[ActiveJob]
) -> tuple[list[ActiveJob], int]:
    """Show the jobs that are shown, even those that have ended meanwhile; count those that would join them."""
    names = {row["id"]: row["name"] for row in board.rows}
    rows = [store.row("provision_jobs", str(job["id"])) for job in shown]
    kept = [active_row(row, names) for row in rows if row is not None]
    known = {job["id"] for job in kept}
    return kept, sum(job["id"] not in known for job in jobs)


def pulses_of(board: Board, rows: list[RunnerRow], instances: Mapping[str, list[InstanceRow]]) -> dict[str, Pulse]:
    """Take the pulses of what is shown."""
    shown = [row["id"] for row in rows]
    shown += [row["id"] for sub_rows in instances.values() for row in sub_rows]
    return {key: board.pulses[key] for key in shown if key in board.pulses}


def choose(rows: list[RunnerRow], status: str, search: str) -> list[RunnerRow]:
    """Filter by status and name."""
    wanted = search.strip().casefold()
    if status == "ALL" and not wanted:
        return rows
    return [row for row in rows if status in ("ALL", row["status"]) and wanted in row["name"].casefold()]
