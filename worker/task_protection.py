"""ECS task protection: a task inside an apply is not chosen when a service scales in or is deployed again."""

import asyncio
from collections.abc import Hashable

import httpx

from worker.runtime_log import get_logger

# The agent's own limit is 48 hours; the task's end ends the protection too.
EXPIRES_MINUTES = 2880
TIMEOUT_SECONDS = 5.0


class TaskProtection:
    """Holds the task's protection while at least one job needs it; outside of ECS it does nothing."""

    def __init__(self, agent_uri: str = "", *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Take $ECS_AGENT_URI, which ECS gives to each of its containers."""
        self._address = f"{agent_uri.rstrip('/')}/task-protection/v1/state" if agent_uri else ""
        self._timeout_seconds = timeout_seconds
        self._holders: set[Hashable] = set()
        self._turn = asyncio.Lock()
        self._log = get_logger("worker.protection")

    async def hold(self, who: Hashable) -> None:
        """Protect the task from now on, on behalf of this job."""
        async with self._turn:
            is_first = not self._holders
            self._holders.add(who)
            if is_first:
                await self._tell(is_on=True)

    async def release(self, who: Hashable) -> None:
        """Remove the protection when no other job needs it; a job that never had it changes nothing."""
        async with self._turn:
            was_held = who in self._holders
            self._holders.discard(who)
            if was_held and not self._holders:
                await self._tell(is_on=False)

    async def _tell(self, *, is_on: bool) -> None:
        """Ask the agent; log a refusal and continue, since a job does better unprotected than not at all."""
        if not self._address:
            return
        body: dict[str, object] = {"ProtectionEnabled": is_on}
        if is_on:
            body["ExpiresInMinutes"] = EXPIRES_MINUTES
        try:
            async with httpx.AsyncClient(timeout=self._timeout_seconds, trust_env=False) as http:
                response = await http.put(self._address, json=body)
        except httpx.HTTPError as error:
            self._log.warning("the task's protection could not be changed", on=is_on, why=type(error).__name__)
            return
        if not response.is_success or "failure" in response.text:
            self._log.warning("the task's protection was refused", on=is_on, answer=response.text[:500])
        else:
            self._log.info("the task is protected" if is_on else "the task is no longer protected")
