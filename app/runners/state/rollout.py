"""The actions on a rollout: pause, resume, abort."""

from typing import Any, TypedDict

import reflex as rx

from app.frame.session import AppState, acts, puts, takes
from app.ui.view import Row, count, read


class Wave(TypedDict):
    title: str
    words: str
    status: str


class Rollout(TypedDict):
    id: str
    version: str
    is_paused: bool
    words: str
    reason: str
    waves: list[Wave]


NO_ROLLOUT: Rollout = {"id": "", "version": "", "is_paused": False, "words": "", "reason": "", "waves": []}


def build_rollout(progress: Row | None) -> Rollout:
    """Describe the progress of the rollout in an answer of rollout_progress; without an answer none is under way."""
    if not progress:
        return NO_ROLLOUT
    waves: list[Row] = list(progress.get("waves") or [])
    done, total = sum(int(wave["done"]) for wave in waves), sum(int(wave["runners"]) for wave in waves)
    current = int(progress["wave"])
    return read(
        Rollout,
        progress,
        is_paused=progress["status"] == "PAUSED",
        words=f"wave {current} of {len(waves)}, {done:,} of {total:,} updated",
        waves=[_wave(at, wave, current) for at, wave in enumerate(waves, start=1)],
    )


def _wave(number: int, wave: Row, current: int) -> Wave:
    done, failed, runners = int(wave["done"]), int(wave["failed"]), int(wave["runners"])
    title, words = f"Wave {number}", f"{done:,} of {count(runners, 'runner')}"
    if failed:
        return {"title": title, "words": f"{words}, {failed:,} failed", "status": "FAILED"}
    if done == runners:
        return {"title": title, "words": words, "status": "SUCCEEDED"}
    return {"title": title, "words": words, "status": "RUNNING" if number == current else "PENDING"}


class RolloutState(AppState, rx.State):
    aborting: str = ""

    ask_abort = takes("aborting")
    keep = puts(aborting="")
    pause = acts("pause_rollout", "p_rollout", "The rollout is paused", "Updates that have begun continue.")
    resume = acts("resume_rollout", "p_rollout", "The rollout continues", "Runners that failed stay as they are.")

    @rx.event
    async def abort(self) -> Any:
        rollout_id, self.aborting = self.aborting, ""
        if not rollout_id:
            return None
        args = {"p_rollout": rollout_id}
        return await self._act("abort_rollout", args, "The rollout is aborted", "Updated runners stay updated.")
