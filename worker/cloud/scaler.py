"""The loop that puts cloud-hosted runners to sleep and wakes them; one runner of an organisation decides at a time."""

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from worker.api.server import Server
from worker.clock import Clock
from worker.cloud.planner import Decision, Limits, Load, Memory, plan
from worker.errors import Rejected, Retryable, WorkerError
from worker.runtime_log import get_logger

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
            await self._wait(self._poll_seconds if has_cloud else QUIET_SECONDS)

    def wake(self) -> None:
        """Poll at once: a job has ended here, and it may have been a deployment."""
        self._wake_up.set()

    async def _wait(self, seconds: float) -> None:
        woken = asyncio.create_task(self._wake_up.wait())
        slept = asyncio.create_task(self._clock.sleep(seconds))
        try:
            await asyncio.wait([woken, slept], return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            slept.cancel()
        self._wake_up.clear()

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
        load = Load(**entry["load"])
        decision = plan(Limits(**entry["limits"]), load, read_memory(entry["memory"]), datetime.now(UTC))
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


def read_memory(stored: dict[str, Any]) -> Memory:
    """Read what the last decision remembered; nothing is a fresh start."""
    times = {
        name: datetime.fromisoformat(stored[name]) if stored.get(name) else None
        for name in ("surplus_since", "started_at", "broken_until")
    }
    return Memory(boot_failures=int(stored.get("boot_failures") or 0), **times)


def as_record(decision: Decision, load: Load, *, is_rehearsal: bool) -> dict[str, Any]:
    """Write a decision as the ledger keeps it."""
    memory = {
        key: value.isoformat() if isinstance(value, datetime) else value
        for key, value in asdict(decision.memory).items()
    }
    return {
        "desired": decision.desired,
        "verdict": decision.verdict.value,
        "reason": decision.reason,
        "load": asdict(load),
        "memory": memory,
        "dry_run": is_rehearsal,
    }
