"""Finds runners that are out of date by version order, never by inequality (1.10.0 is newer than 1.9.0)."""

from collections.abc import Iterable
from functools import lru_cache

from packaging.version import InvalidVersion, Version

from app.project.store import OrgStore
from app.ui.view import Row


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
    """Return whether a version comes before the latest one; unknown ones never do."""
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


def update_kind(worker: Row) -> str:
    """Describe how a listed runner is updated: by a job where it was deployed from here or updates itself, else by hand."""
    takes_jobs = not (worker.get("is_draining") or worker.get("is_disabled"))
    is_by_job = worker["type"] == "cloud-hosted" or (takes_jobs and bool(worker.get("updates_itself")))
    return "update" if is_by_job else "update_by_hand"


def breaking_ahead(store: OrgStore, worker: Row | None = None) -> list[str]:
    """Name the breaking releases, newest first, that an update of a runner would pass; of all of them if none is named."""
    releases = store.rows("worker_releases")
    newest = latest(releases)
    in_use = (store.facets.get("counts") or {}).get("version") or {}
    behind = [str(worker.get("version"))] if worker else list(in_use)
    return [
        str(row["version"])
        for row in published(releases)
        if row.get("is_breaking")
        and not is_older(newest, row["version"])
        and any(is_older(version, row["version"]) for version in behind)
    ]
