"""The number of tasks that a cloud-hosted runner should have: a pure decision that explains itself."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil

BOOT_FAILURES_ALLOWED = 3
BOOT_PATIENCE = timedelta(minutes=5)
BREAKER_REST = timedelta(minutes=15)


class Verdict(StrEnum):
    """The effect of a decision on the number of tasks."""

    HOLD = "HOLD"
    UP = "UP"
    DOWN = "DOWN"
    BROKEN = "BROKEN"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that the owner of the runner allows."""

    minimum: int = 0
    maximum: int = 1
    jobs_per_task: int = 1
    idle_seconds: float = 300


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one runner at one moment, as the database sees it."""

    desired: int
    connected: int
    waiting: int
    running: int
    busy_tasks: int
    takes_jobs: bool = True


@dataclass(frozen=True, slots=True)
class Memory:
    """The facts that one decision has to remember for the next."""

    surplus_since: datetime | None = None
    started_at: datetime | None = None
    boot_failures: int = 0
    broken_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A number of tasks, and the sentence that a person reads."""

    verdict: Verdict
    desired: int
    reason: str
    memory: Memory


def plan(limits: Limits, load: Load, memory: Memory, now: datetime) -> Decision:
    """Decide how many tasks there should be; nothing is read but the arguments."""
    memory = _watch_boot(load, memory, now)
    if memory.broken_until is not None and now < memory.broken_until:
        return _broken(load, memory)
    need = _needed(limits, load)
    if need > load.desired:
        return _up(limits, load, memory, need, now)
    if need < load.desired:
        return _down(limits, load, memory, need, now)
    return Decision(Verdict.HOLD, load.desired, _hold_reason(load), replace(memory, surplus_since=None))


def _needed(limits: Limits, load: Load) -> int:
    """Tasks for all that runs or waits, within the owner's limits and never below what is running."""
    waiting = load.waiting if load.takes_jobs else 0
    wanted = ceil((load.running + waiting) / limits.jobs_per_task)
    floor = max(limits.minimum if load.takes_jobs else 0, _floor(limits, load))
    return max(floor, min(wanted, limits.maximum))


def _floor(limits: Limits, load: Load) -> int:
    """The tasks that hold running jobs: a limit lowered in mid-job waits for them."""
    return max(load.busy_tasks, ceil(load.running / limits.jobs_per_task))


def _watch_boot(load: Load, memory: Memory, now: datetime) -> Memory:
    """Count starts that were not followed by a heartbeat; a heartbeat forgives them all."""
    if load.connected > 0:
        return replace(memory, started_at=None, boot_failures=0, broken_until=None)
    if memory.started_at is None or now - memory.started_at < BOOT_PATIENCE:
        return memory
    failures = memory.boot_failures + 1
    if failures < BOOT_FAILURES_ALLOWED:
        return replace(memory, started_at=now, boot_failures=failures)
    return replace(memory, started_at=None, boot_failures=0, broken_until=now + BREAKER_REST)


def _broken(load: Load, memory: Memory) -> Decision:
    desired = load.busy_tasks
    reason = (
        f"{BOOT_FAILURES_ALLOWED} starts in a row brought no heartbeat: stopped until {memory.broken_until:%H:%M} UTC. "
        "Look at the task's log, then deploy it again."
    )
    return Decision(Verdict.BROKEN, desired, reason, replace(memory, surplus_since=None))


def _up(limits: Limits, load: Load, memory: Memory, need: int, now: datetime) -> Decision:
    # A task that has not said a word yet is already on its way: its clock keeps running.
    started = memory.started_at if memory.started_at is not None and load.desired > 0 else now
    if load.waiting and load.takes_jobs:
        reason = f"{_jobs(load.waiting)} waiting that this runner may take"
        if need == limits.maximum:
            reason += f"; {need} is its maximum"
    elif load.running:
        reason = f"{_jobs(load.running)} running needs {need}"
    else:
        reason = f"its minimum is {need}"
    return Decision(Verdict.UP, need, reason, replace(memory, surplus_since=None, started_at=started))


def _down(limits: Limits, load: Load, memory: Memory, need: int, now: datetime) -> Decision:
    since = memory.surplus_since or now
    waited = (now - since).total_seconds()
    if waited < limits.idle_seconds:
        left = round(limits.idle_seconds - waited)
        reason = f"{load.desired - need} more than needed; waiting {left} s before scaling down"
        return Decision(Verdict.HOLD, load.desired, reason, replace(memory, surplus_since=since))
    started = memory.started_at if need else None
    reason = f"nothing for it to run for {round(waited)} s" if need == 0 else f"{need} enough for {round(waited)} s"
    return Decision(Verdict.DOWN, need, reason, replace(memory, surplus_since=None, started_at=started))


def _hold_reason(load: Load) -> str:
    if load.desired == 0:
        return "scaled to zero, nothing waits for it"
    if load.running or load.waiting:
        return f"{_jobs(load.running)} running, {_jobs(load.waiting)} waiting: {load.desired} is right"
    return f"{load.desired} is its minimum"


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"
