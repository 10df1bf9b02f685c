"""A job's life on one axis: the states it went through, and under the running one its steps.

Times leave here as milliseconds, and an open bar as one without an end, so that the browser can let it grow.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from app.jobs.view.words import FINISHED, PHASE_WORDS
from app.ui.view import STATUS_WORDS, Row

_LOST = {"NEEDS_ATTENTION": "NEEDS_ATTENTION", "FAILED": "FAILED", "CANCELLED": "CANCELLED"}
_AHEAD = ("QUEUED", "CLAIMED", "PROCESSING")
_BEFORE = (("prepare", "Prepare"), ("fetch", "Fetch source"), ("inputs", "Write inputs and extra files"))
_TASKS: dict[str, tuple[str, ...]] = {
    "PLAN": ("init", "plan", "save-plan"),
    "DRIFT": ("init", "plan"),
    "APPLY": ("init", "plan", "apply", "output"),
    "DESTROY": ("init", "plan", "destroy"),
    "OUTPUT": ("init", "output"),
    "STATE": ("init", "change-state"),
}
_TITLES = {"save-plan": "Save plan", "load-plan": "Download plan", "change-state": "Change state"}
_STAMPS = (("CLAIMED", "claimed_at"), ("PROCESSING", "started_at"))


@dataclass(frozen=True)
class Bar:
    """One row of the timeline. `from_ms` is 0 for a step that has not begun, `to_ms` 0 for one that still runs."""

    key: str
    label: str
    status: str
    is_step: bool = False
    from_ms: int = 0
    to_ms: int = 0


@dataclass(frozen=True)
class Timeline:
    """The bars and the ends of their axis; `end_ms` is 0 while the job runs."""

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
    moves = _moves_of_events(events) or _moves_of_stamps(job)
    if not moves:
        return Timeline()
    end = _end(job, moves)
    states = _states(moves, end)
    steps = list(_steps(job, states, end))
    if not end:
        # A coming state or step has its place from the start, so that nothing below moves when it begins.
        states += _states_ahead(states)
        steps += _steps_ahead(job)
    return Timeline(moves[0][1], end, tuple(_woven(states, steps)))


def _states_ahead(states: Sequence[Bar]) -> list[Bar]:
    last = states[-1].status if states else ""
    if last not in ("AWAITING_APPROVAL", *_AHEAD):
        return []
    coming = _AHEAD[_AHEAD.index(last) + 1 :] if last in _AHEAD else _AHEAD
    return [Bar(f"ahead-{status}", STATUS_WORDS[status], "PENDING") for status in coming]


def _steps_ahead(job: Row) -> list[Bar]:
    if str(job.get("status")) not in ("AWAITING_APPROVAL", *_AHEAD):
        return []
    reported = {str(step.get("name")) for step in (job.get("steps") or [])}
    return [
        Bar(f"ahead-{name}", title, "PENDING", is_step=True)
        for name, title in expected_steps(job)
        if name not in reported
    ]


def expected_steps(job: Row) -> list[tuple[str, str]]:
    """List the steps that a job of this type will have, as its runner will name them."""
    tasks = _TASKS.get(str(job.get("type")))
    if tasks is None:
        return []
    hooks = _hooks(job)
    steps = list(_BEFORE)
    for task in tasks:
        if task == "plan" and job.get("plan_job_id"):
            steps.append(("load-plan", _TITLES["load-plan"]))
            continue
        before, after = f"before-{task}", f"after-{task}"
        steps += [(before, f"Hook before {task}")] if before in hooks else []
        steps.append((task, _TITLES.get(task, task.capitalize())))
        steps += [(after, f"Hook after {task}")] if after in hooks else []
    return steps


def _hooks(job: Row) -> set[str]:
    hooks = ((job.get("payload") or {}).get("module") or {}).get("hooks") or {}
    return {str(name).replace("_", "-") for name, text in hooks.items() if text}


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
    ends = [*(start for _, start in moves[1:]), end]
    return [
        Bar(f"state-{at}", STATUS_WORDS.get(status, status), status, from_ms=start, to_ms=until)
        for at, ((status, start), until) in enumerate(zip(moves, ends, strict=True))
        if status not in FINISHED
    ]


def _steps(job: Row, states: Sequence[Bar], end: int) -> Iterable[Bar]:
    running = _home(states)
    closed = running.to_ms if running else end
    # A runner that was lost and returned has had its attempt since the beginning, not since its return.
    taken = to_ms(job.get("started_at")) or (running.from_ms if running else 0)
    for at, step in enumerate(job.get("steps") or []):
        started, finished = to_ms(step.get("started_at")), to_ms(step.get("finished_at"))
        # A runner's clock may be wrong: a step does not begin before the job was taken, and no bar leaves its panel.
        started = max(started, taken) if started else started
        finished = max(finished, started) if finished else finished
        phase = PHASE_WORDS.get(str(step.get("phase")), "")
        bar = Bar(
            key=f"step-{at}",
            label=str(step.get("title") or phase or step.get("name") or "Step"),
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


def _home(states: Sequence[Bar]) -> Bar | None:
    """Find the state that the steps belong to: the last one in which a runner had the job."""
    held = [bar for bar in states if bar.status in ("PROCESSING", "CLAIMED")]
    return held[-1] if held else None


def _place(states: Sequence[Bar]) -> Bar | None:
    """Find the bar under which the steps stand: the one that they belong to, or will."""
    ahead = [bar for bar in states if bar.key == "ahead-PROCESSING"]
    return ahead[-1] if ahead else _home(states)


def _woven(states: Sequence[Bar], steps: Sequence[Bar]) -> Iterable[Bar]:
    home = _place(states)
    for bar in states:
        yield bar
        if bar is home:
            yield from steps
