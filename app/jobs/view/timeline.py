"""A job's life on one axis: the states it went through, and under the running one its steps.

Times leave here as milliseconds, and an open bar as one without an end, so that the browser can let it grow by itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from app.shared.job.words import FINISHED, PHASE_WORDS, STATUS_WORDS

Row = Mapping[str, Any]
_LOST = {"NEEDS_ATTENTION": "NEEDS_ATTENTION", "FAILED": "FAILED", "CANCELLED": "CANCELLED"}
_STAMPS = (
    ("CLAIMED", "claimed_at"),
    ("PROCESSING", "started_at"),
)


@dataclass(frozen=True)
class Bar:
    """One row of the timeline. `from_ms` is 0 for a step that has not begun, `to_ms` 0 for what still goes on."""

    key: str
    label: str
    status: str
    is_step: bool = False
    from_ms: int = 0
    to_ms: int = 0


@dataclass(frozen=True)
class Timeline:
    """The bars and the ends of their axis; `end_ms` is 0 while the job goes on."""

    start_ms: int = 0
    end_ms: int = 0
    bars: tuple[Bar, ...] = ()


def to_ms(stamp: object) -> int:
    """Read a timestamp of the database; 0 when there is none."""
    if not isinstance(stamp, str) or not stamp:
        return 0
    try:
        return int(datetime.fromisoformat(stamp).timestamp() * 1000)
    except ValueError:
        return 0


def build(job: Row, events: Sequence[Row] = ()) -> Timeline:
    """Lay out a job's states and steps."""
    moves = _moves_of_events(events) or _moves_of_stamps(job)
    if not moves:
        return Timeline()
    end = _end(job, moves)
    states = _states(moves, end)
    steps = list(_steps(job, states, end))
    return Timeline(moves[0][1], end, tuple(_woven(states, steps)))


def _moves_of_events(events: Sequence[Row]) -> list[tuple[str, int]]:
    ordered = sorted(events, key=lambda event: (to_ms(event.get("at")), int(event.get("id") or 0)))
    moves: list[tuple[str, int]] = []
    for event in ordered:
        status = event.get("to_status")
        if status and (not moves or moves[-1][0] != status):
            moves.append((str(status), to_ms(event.get("at"))))
    return moves


def _moves_of_stamps(job: Row) -> list[tuple[str, int]]:
    created, queued = to_ms(job.get("created_at")), to_ms(job.get("queued_at"))
    first = "AWAITING_APPROVAL" if int(job.get("approvals_required") or 0) > 0 else "QUEUED"
    moves = [(first, created)] if created else []
    if first != "QUEUED" and queued:
        moves.append(("QUEUED", queued))
    for status, name in _STAMPS:
        stamp = to_ms(job.get(name))
        if stamp:
            moves.append((status, stamp))
    status, finished = str(job.get("status")), to_ms(job.get("finished_at"))
    if status in _LOST or status == "SUCCEEDED":
        moves.append((status, finished or to_ms(job.get("updated_at"))))
    return moves


def _end(job: Row, moves: Sequence[tuple[str, int]]) -> int:
    if str(job.get("status")) not in FINISHED:
        return 0
    return max(to_ms(job.get("finished_at")), moves[-1][1])


def _states(moves: Sequence[tuple[str, int]], end: int) -> list[Bar]:
    bars = []
    for at, (status, start) in enumerate(moves):
        if status in FINISHED:
            continue
        until = moves[at + 1][1] if at + 1 < len(moves) else end
        label = STATUS_WORDS.get(status, status)
        bars.append(Bar(f"state-{at}", label, status, from_ms=start, to_ms=until))
    return bars


def _steps(job: Row, states: Sequence[Bar], end: int) -> Iterable[Bar]:
    running = _home(states)
    closed = running.to_ms if running else end
    for at, step in enumerate(job.get("steps") or []):
        started, finished = to_ms(step.get("started_at")), to_ms(step.get("finished_at"))
        bar = Bar(
            key=f"step-{at}",
            label=step_title(step),
            status=str(step.get("status") or "PENDING"),
            is_step=True,
            from_ms=started,
            to_ms=finished,
        )
        yield _cut_off(bar, job, closed)


def _cut_off(bar: Bar, job: Row, closed: int) -> Bar:
    """End a step that nobody ended: its runner was lost, or the job was stopped around it."""
    if not bar.from_ms or bar.to_ms or not closed:
        return bar
    status = _LOST.get(str(job.get("status")), "FAILED")
    return replace(bar, to_ms=max(closed, bar.from_ms), status=status)


def step_title(step: Row) -> str:
    """Name a step as people do."""
    phase = PHASE_WORDS.get(str(step.get("phase")), "")
    return str(step.get("title") or phase or step.get("name") or "Step")


def _home(states: Sequence[Bar]) -> Bar | None:
    """Find the state that the steps belong to: the last one in which a runner had the job."""
    held = [bar for bar in states if bar.status in ("PROCESSING", "CLAIMED")]
    return held[-1] if held else None


def _woven(states: Sequence[Bar], steps: Sequence[Bar]) -> Iterable[Bar]:
    home = _home(states)
    for bar in states:
        yield bar
        if bar is home:
            yield from steps
