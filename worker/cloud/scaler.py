"""The loop that puts cloud-hosted runners to sleep and wakes them, and its decision; one runner of an organisation decides at a time."""

import asyncio
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import ceil
from typing import Any

from pydantic import TypeAdapter

from worker.api.server import Server
from worker.clock import Clock, wait_for_wake_up
from worker.errors import Rejected, Retryable, WorkerError
from worker.runtime_log import get_logger

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


# Read from the database and written back as JSON; an empty one is a fresh start.
MEMORY = TypeAdapter(Memory)


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
    # A limit lowered in mid-job waits for the tasks that hold running jobs.
    held = max(load.busy_tasks, ceil(load.running / limits.jobs_per_task))
    floor = max(limits.minimum if load.takes_jobs else 0, held)
    return max(floor, min(wanted, limits.maximum))


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


QUIET_SECONDS = 60.0
# A runner without rights in an organisation's cloud leaves it to another one for so long.
ABSTAIN_SECONDS = 600.0
NO_RIGHTS = frozenset(
    f"cloud_{why}" for why in ("identity", "account", "AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
)


class Scaler:
    """Asks for the numbers, plans, acts, writes down; in that order, so that a lost write is planned again."""

    def __init__(
        self, server: Server, url: str, clock: Clock, *, poll_seconds: float = 10.0, is_rehearsal: bool = False
    ) -> None:
        """`is_rehearsal` plans and writes down, and touches nothing."""
        self._poll_seconds = poll_seconds
        self._server = server
        self._url = url
        self._clock = clock
        self._is_rehearsal = is_rehearsal
        self._wake_up = asyncio.Event()
        self._abstains: dict[str, float] = {}
        self._log = get_logger("worker.scaling")

    async def run(self) -> None:
        """Decide for ever; where there is nothing to decide about, poll rarely."""
        while True:
            has_cloud = False
            try:
                has_cloud = await self.poll()
            except Rejected as error:
                self._log.debug("this runner does not scale others", why=error.message)
            except Retryable as error:
                self._log.debug("the numbers could not be read", why=error.message)
                has_cloud = True
            await wait_for_wake_up(self._wake_up, self._poll_seconds if has_cloud else QUIET_SECONDS)

    def wake(self) -> None:
        """Poll at once: a job has ended here, and it may have been a deployment."""
        self._wake_up.set()

    async def poll(self) -> bool:
        """Decide once about every runner; return whether there are any."""
        now = self._clock.monotonic()
        self._abstains = {org: until for org, until in self._abstains.items() if until > now}
        reply = await self._server.call("worker_scaling_inputs", {"p_except": list(self._abstains)})
        for entry in reply["workers"]:
            try:
                await self._decide(entry)
            except WorkerError as error:
                self._log.warning("not scaled", runner=entry["name"], why=error.message, hint=error.hint)
                if error.code in NO_RIGHTS:
                    self._abstains[entry["org_id"]] = now + ABSTAIN_SECONDS
            except Exception as error:  # noqa: BLE001  (whatever it is, the others are scaled, and the runner continues)
                self._log.warning("not scaled", runner=entry["name"], why=repr(error))
        return bool(reply["has_cloud"])

    async def _decide(self, entry: dict[str, Any]) -> None:
        load, known = Load(**entry["load"]), {name: each for name, each in entry["memory"].items() if each is not None}
        decision = plan(Limits(**entry["limits"]), load, MEMORY.validate_python(known), datetime.now(UTC))
        self._log.debug("planned", runner=entry["name"], verdict=decision.verdict, why=decision.reason)
        if decision.desired != load.desired and not self._is_rehearsal:
            await asyncio.to_thread(self._act, entry, decision.desired)
            self._log.info(
                "scaled", runner=entry["name"], before=load.desired, now=decision.desired, why=decision.reason
            )
        await self._server.call(
            "worker_scaling_decided",
            {"p_worker": entry["worker_id"], "p_decision": as_record(decision, load, is_rehearsal=self._is_rehearsal)},
        )

    def _act(self, entry: dict[str, Any], count: int) -> None:
        # AWS's library is an extra, and large: it is loaded when there is something to do with it.
        from worker.cloud.service import set_count

        set_count(entry, self._url, count)


def as_record(decision: Decision, load: Load, *, is_rehearsal: bool) -> dict[str, Any]:
    """Write a decision as the ledger keeps it."""
    return {
        "desired": decision.desired,
        "verdict": decision.verdict.value,
        "reason": decision.reason,
        "load": asdict(load),
        "memory": MEMORY.dump_python(decision.memory, mode="json"),
        "dry_run": is_rehearsal,
    }
