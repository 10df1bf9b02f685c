"""Which runner is out of date: version order, never inequality (1.10.0 is newer than 1.9.0)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from packaging.version import InvalidVersion, Version

from app.project.store import OrgStore

Row = Mapping[str, Any]


# A fleet of a thousand has a handful of versions, and all of them are compared with every change.
@lru_cache(maxsize=1024)
def parse(version: str | None) -> Version | None:
    """Read a version; None when it is not one, such as a build from a checkout."""
    try:
        return Version(str(version))
    except InvalidVersion:
        return None


@lru_cache(maxsize=1024)
def is_older(version: str | None, latest: str) -> bool:
    """Say whether a version comes before the latest one; unknown ones never do."""
    mine, newest = parse(version), parse(latest)
    return mine is not None and newest is not None and mine < newest


def published(releases: Iterable[Row]) -> list[Row]:
    """List the releases that can be installed, newest first."""
    usable = [row for row in releases if not row.get("withdrawn_at") and parse(row.get("version"))]
    return sorted(usable, key=lambda row: parse(row["version"]) or Version("0"), reverse=True)


def latest(releases: Iterable[Row]) -> str:
    """Name the newest stable release; empty when there is none."""
    stable = [row for row in published(releases) if row.get("channel", "stable") == "stable"]
    return str(stable[0]["version"]) if stable else ""


@dataclass(frozen=True)
class Outdated:
    """How far a fleet is behind: what the newest release is, and who is older."""

    latest: str = ""
    by_job: int = 0
    by_hand: int = 0


def self_updating(store: OrgStore, version: str) -> set[str]:
    """Name the runners all of whose processes may update themselves, where the release has a file for each."""
    releases = [row for row in store.rows("worker_releases") if row["version"] == version]
    files = {file.get("name") for row in releases for file in row.get("artifacts") or []}
    can: set[str] = set()
    cannot: set[str] = set()
    for row in store.rows("worker_instances"):
        if row.get("status") != "OFFLINE":
            (can if (row.get("facts") or {}).get("self_update") in files else cannot).add(str(row["worker_id"]))
    return can - cannot


def is_updated_by_job(worker: Row, updating: set[str]) -> bool:
    """Say whether a job can update a runner: it was deployed from here, or it updates itself and takes jobs."""
    takes_jobs = not (worker.get("is_draining") or worker.get("is_disabled"))
    return worker["type"] == "cloud-hosted" or (takes_jobs and str(worker["id"]) in updating)


def update_kind(store: OrgStore, worker: Row) -> str:
    """Say how a runner is updated: by a job where it was deployed from here or updates itself, else by hand."""
    updating = self_updating(store, outdated_of(store).latest)
    return "update" if is_updated_by_job(worker, updating) else "update_by_hand"


def outdated(store: OrgStore) -> Outdated:
    """Count the organisation's own runners that are older than the newest release."""
    newest = latest(store.rows("worker_releases"))
    mine = [worker for worker in store.rows("workers") if not worker.get("is_shared")]
    older = [worker for worker in mine if is_older(worker.get("version"), newest)]
    updating = self_updating(store, newest)
    by_job = sum(is_updated_by_job(worker, updating) for worker in older)
    return Outdated(newest, by_job, len(older) - by_job)


def breaking_ahead(store: OrgStore, worker: Row | None = None) -> list[str]:
    """Name the breaking releases, newest first, that an update of a runner would pass; of all own ones if none is named."""
    releases = store.rows("worker_releases")
    newest = latest(releases)
    behind = [worker] if worker else [row for row in store.rows("workers") if not row.get("is_shared")]
    return [
        str(row["version"])
        for row in published(releases)
        if row.get("is_breaking")
        and not is_older(newest, row["version"])
        and any(is_older(item.get("version"), row["version"]) for item in behind)
    ]


def outdated_of(store: OrgStore) -> Outdated:
    """Count them, or take what was counted since the last change."""
    return store.derive("outdated", ("workers", "worker_instances", "worker_releases"), outdated)
