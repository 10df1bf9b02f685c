"""The database's side of a lifecycle job: every call is fenced by the job's attempt."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from wire.tokens import make_token
from worker.api.replies import JobRef
from worker.api.server import Server
from worker.errors import JobFailed

POLL_SECONDS = 2.0
DRAIN_PATIENCE_SECONDS = 3600.0

Sleep = Callable[[float], Awaitable[None]]


class ServerTargetStore:
    """The requests of the steps to the project."""

    def __init__(
        self, server: Server, ref: JobRef, remember: Callable[[str], None], online_patience_seconds: float,
        poll_seconds: float = POLL_SECONDS, sleep: Sleep = asyncio.sleep,
    ) -> None:  # fmt: skip
        """`remember` receives each secret before anything else, so that no log line can carry it."""
        self._server = server
        self._which = {"p_job": ref.job, "p_attempt": ref.attempt}
        self._remember = remember
        self._sleep = sleep
        self._online_patience_seconds = online_patience_seconds
        self._poll_seconds = poll_seconds

    async def register_token(self) -> str:
        """Make a token, store its hash for the target, and return it."""
        token = await asyncio.to_thread(make_token)
        self._remember(token.text)
        arguments = {**self._which, "p_token_hash": token.hash, "p_token_hint": token.hint}
        await self._server.call("worker_target_token", arguments)
        return token.text

    async def record_cloud(self, facts: dict[str, Any]) -> None:
        """Store ARNs and counts beside the runner."""
        await self._patch({"cloud": facts})

    async def drain(self, reason: str) -> None:
        """Ask the target to take no new jobs, and wait until it runs none."""
        status = await self._patch({"is_draining": True, "drain_reason": reason})
        waited = 0.0
        while status["running"]:
            if waited >= DRAIN_PATIENCE_SECONDS:
                raise JobFailed(
                    f"The runner still runs {status['running']} job(s) after an hour.",
                    code="cloud_busy",
                    hint="Let those jobs finish or cancel them, then retry this one.",
                )
            await self._sleep(self._poll_seconds)
            waited += self._poll_seconds
            status = await self._status()

    async def resume(self) -> None:
        """Resume the target."""
        await self._patch({"is_draining": False, "drain_reason": None})

    async def note_awake(self) -> None:
        """Write down that a runner that slept has a task again."""
        status = await self._status()
        if not status["desired_count"]:
            await self._patch({"desired_count": 1, "is_scaled_to_zero": False})

    async def wait_online(self, version: str | None) -> bool:
        """Wait for a heartbeat of that version, or of any; return whether it came in time."""
        waited = 0.0
        while waited < self._online_patience_seconds:
            status = await self._status()
            if status["versions"] == [version] or (version is None and status["versions"]):
                return True
            await self._sleep(self._poll_seconds)
            waited += self._poll_seconds
        return False

    async def _patch(self, patch: dict[str, Any]) -> dict[str, Any]:
        return dict(await self._server.call("worker_target_update", {**self._which, "p_patch": patch}))

    async def _status(self) -> dict[str, Any]:
        return dict(await self._server.call("worker_target_status", self._which))
