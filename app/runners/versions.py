"""Which runner is out of date: version order, never inequality (1.10.0 is newer than 1.9.0)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from packaging.version import InvalidVersion, Version

from app.services.store import OrgStore

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
    in_cloud: int = 0
    by_hand: int = 0


def outdated(store: OrgStore) -> Outdated:
    """Count the organisation's own runners that are older than the newest release."""
    newest = latest(store.rows("worker_releases"))
    mine = [worker for worker in store.rows("workers") if not worker.get("is_shared")]
    older = [worker for worker in mine if is_older(worker.get("version"), newest)]
    in_cloud = sum(worker["type"] == "cloud-hosted" for worker in older)
    return Outdated(newest, in_cloud, len(older) - in_cloud)


def outdated_of(store: OrgStore) -> Outdated:
    """Count them, or take what was counted since the last change."""
    return store.derive("outdated", ("workers", "worker_releases"), outdated)
