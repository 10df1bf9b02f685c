"""A rollout as the runners page shows it: which wave, how many are done, and why it stands still."""

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from app.shared.words import count

Row = Mapping[str, Any]
UNDER_WAY = ("RUNNING", "PAUSED")
ENDED_BADLY = ("FAILED", "CANCELLED", "NEEDS_ATTENTION")


class Wave(TypedDict):
    """One wave: its runners, and how far they are."""

    title: str
    words: str
    status: str


class Rollout(TypedDict):
    """A rollout that is under way."""

    id: str
    version: str
    is_paused: bool
    words: str
    reason: str
    waves: list[Wave]


NO_ROLLOUT: Rollout = {"id": "", "version": "", "is_paused": False, "words": "", "reason": "", "waves": []}


def build_rollout(rollouts: Iterable[Row], jobs: Iterable[Row]) -> Rollout:
    """Find the rollout that is under way and count what its jobs have done."""
    running = [row for row in rollouts if row["status"] in UNDER_WAY]
    if not running:
        return NO_ROLLOUT
    row = max(running, key=lambda row: str(row["created_at"]))
    states = _newest(str(row["id"]), jobs)
    waves: list[list[str]] = [[str(worker) for worker in wave] for wave in row.get("waves") or []]
    done = sum(states.get(worker) == "SUCCEEDED" for wave in waves for worker in wave)
    total = sum(map(len, waves))
    return {
        "id": str(row["id"]),
        "version": str(row["version"]),
        "is_paused": row["status"] == "PAUSED",
        "words": f"wave {row['wave']} of {len(waves)}, {done} of {total} updated",
        "reason": str(row.get("reason") or ""),
        "waves": [_wave(at, wave, int(row["wave"]), states) for at, wave in enumerate(waves, start=1)],
    }


def _newest(rollout_id: str, jobs: Iterable[Row]) -> dict[str, str]:
    """Name the state of each runner's newest job in this rollout."""
    mine = sorted((job for job in jobs if str(job.get("rollout_id")) == rollout_id), key=lambda job: int(job["id"]))
    return {str(job.get("target_worker_id")): str(job["status"]) for job in mine}


def _wave(number: int, workers: list[str], current: int, states: Mapping[str, str]) -> Wave:
    done = sum(states.get(worker) == "SUCCEEDED" for worker in workers)
    failed = sum(states.get(worker) in ENDED_BADLY for worker in workers)
    words = f"{done} of {count(len(workers), 'runner')}"
    if failed:
        return {"title": f"Wave {number}", "words": f"{words}, {failed} failed", "status": "FAILED"}
    if done == len(workers):
        return {"title": f"Wave {number}", "words": words, "status": "SUCCEEDED"}
    return {"title": f"Wave {number}", "words": words, "status": "RUNNING" if number == current else "PENDING"}
