"""Everything the runners page could show of an organisation, worked out once per change."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.runners.jobs import ActiveJob, build_active, say_counts
from app.runners.rollouts import Rollout, build_rollout
from app.runners.rows import (
    Counts,
    InstanceRow,
    Pulse,
    RunnerRow,
    build_instances,
    build_row,
    count_statuses,
    is_connected,
    read_pulses,
)
from app.runners.versions import latest
from app.services.store import OrgStore, version_of
from app.services.words import parse_time

Row = Mapping[str, Any]


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
    used: int
    capacity: int


def board_of(store: OrgStore) -> Board:
    """Work the board out, or take the one that was worked out since the last change."""
    return store.derive("board", _build)


def current_workers(store: OrgStore) -> dict[str, Row]:
    """The runners with their status as of the last look: a row tells of a silence only once somebody swept."""
    asked_at = parse_time(store.overview.get("server_time"))
    told = {str(row["id"]): row for row in store.overview.get("workers") or []}
    current: dict[str, Row] = {}
    for key, worker in store.tables["workers"].items():
        seen = told.get(key)
        is_newer = seen is not None and asked_at is not None and asked_at > version_of(worker)
        current[key] = (
            {**worker, "status": seen["status"], "status_reason": seen.get("status_reason")}
            if seen and is_newer
            else worker
        )
    return current


def _build(store: OrgStore) -> Board:
    workers, jobs = current_workers(store), store.rows("provision_jobs")
    newest = latest(store.rows("worker_releases"))
    instances = _instances(store)
    running = Counter(str(job.get("worker_id")) for job in jobs if job["status"] in ("CLAIMED", "PROCESSING"))
    fresh = [build_row(worker, newest, len(instances.get(key, [])), running[key]) for key, worker in workers.items()]
    rows = _same_where_equal(store.last("board"), fresh)
    rows.sort(key=lambda row: (row["is_shared"], row["name"].casefold()))
    names = {row["id"]: row["name"] for row in rows}
    pulses = read_pulses(store.overview)
    fleet = [pulses[row["id"]] for row in rows if row["id"] in pulses]
    return Board(
        rows=rows,
        counts=count_statuses(workers.values()),
        instances=instances,
        pulses=pulses,
        rollout=build_rollout(store.rows("rollouts"), jobs),
        jobs=build_active(jobs, names),
        job_words=say_counts(jobs),
        used=sum(pulse["used"] for pulse in fleet),
        capacity=sum(pulse["capacity"] for pulse in fleet),
    )


def _same_where_equal(before: Board | None, rows: list[RunnerRow]) -> list[RunnerRow]:
    """Keep the same object for the same row: every tab compares what it shows, and identity compares fastest."""
    held = {row["id"]: row for row in before.rows} if before else {}
    return [held[row["id"]] if held.get(row["id"]) == row else row for row in rows]


def _instances(store: OrgStore) -> dict[str, list[InstanceRow]]:
    by_worker: dict[str, list[Row]] = defaultdict(list)
    for row in store.rows("worker_instances"):
        if is_connected(row):
            by_worker[str(row["worker_id"])].append(row)
    return {key: build_instances(rows) for key, rows in by_worker.items()}


def choose(rows: list[RunnerRow], status: str, search: str) -> list[RunnerRow]:
    """Filter by status and name."""
    wanted = search.strip().casefold()
    if status == "ALL" and not wanted:
        return rows
    return [row for row in rows if status in ("ALL", row["status"]) and wanted in row["name"].casefold()]
