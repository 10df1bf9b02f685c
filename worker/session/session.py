"""The session: opened once, renewed in time, ended by the server's word."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from worker.api.replies import SessionGrant, read_answer
from worker.api.transport import Transport
from worker.clock import Clock, backoff, jittered
from worker.errors import ExitCode, Fatal, Rejected, Retryable, WorkerError
from worker.runtime_log import get_logger
from worker.session.credentials import Credentials, ask
from worker.session.identity import RunnerIdentity

# A process that died a moment ago still looks alive to the server for a minute.
CONFLICT_WAIT_SECONDS = 90.0
_RENEW_AT = 0.6

Listener = Callable[[SessionGrant], None]


class RunnerSession:
    """Holds the grant and keeps it fresh."""

    def __init__(
        self, transport: Transport, credentials: Credentials, identity: RunnerIdentity, facts: Mapping[str, Any], clock: Clock,
        *, organization_id: str | None = None,
    ) -> None:  # fmt: skip
        self._transport = transport
        self._credentials = credentials
        self._identity = identity
        self._facts = facts
        self._clock = clock
        self._organization_id = organization_id
        self._lock = asyncio.Lock()
        self._log = get_logger("worker.session")
        self._grant: SessionGrant | None = None
        self._renew_at = 0.0
        self.listeners: list[Listener] = []

    @property
    def grant(self) -> SessionGrant:
        """The current grant; only after `open`."""
        assert self._grant is not None, "the session is not open"
        return self._grant

    async def open(self, *, give_up_after: float | None = None) -> SessionGrant:
        """Open a session, trying until the project answers; its refusal is final."""
        started, failures = self._clock.monotonic(), 0
        while True:
            try:
                return await self._open_once()
            except (Retryable, Rejected) as error:
                waited = self._clock.monotonic() - started
                self._give_up(error, waited, give_up_after)
                delay = max(backoff(failures), getattr(error, "retry_after_seconds", 0.0))
                if isinstance(error, Rejected):
                    delay = jittered(5.0)
                self._log.warning(
                    "cannot open a session yet",
                    id="session_not_opened",
                    why=error.message,
                    hint=error.hint,
                    retry_in=round(delay, 1),
                )
                failures += 1
                await self._clock.sleep(delay)

    async def renew(self) -> None:
        """Get a fresh token; several callers at once share one renewal."""
        stale = self._transport.token
        async with self._lock:
            if self._transport.token != stale:
                return
            try:
                reply = await ask(self._transport, "worker-session", {"renew": True}, is_authorised=True)
                fresh: dict[str, Any] = {
                    name: reply[name] for name in ("access_token", "expires_in", "publishable_key") if name in reply
                }
                self._accept(self.grant.model_copy(update=fresh))
            except Fatal:
                # The token ran out while we were cut off; the credential opens a new session, or the server says why not.
                self._log.info("the session cannot be renewed, opening a new one")
                await self._open_again()

    async def _open_again(self) -> None:
        try:
            await self._open_once()
        except Rejected as error:
            # Another process has taken our place in the meantime.
            raise Fatal(error.message, exit_code=ExitCode.CONFLICT, hint=error.hint, code=error.code) from error

    async def keep_fresh(self) -> None:
        """Renew at 60 % of the token's life, for ever."""
        failures = 0
        while True:
            await self._clock.sleep(
                max(1.0, self._renew_at - self._clock.monotonic()) if not failures else backoff(failures)
            )
            if self._clock.monotonic() < self._renew_at:
                continue
            try:
                await self.renew()
                failures = 0
            except (Retryable, Rejected) as error:
                # Whatever stands between us and the project may say odd things for a while, such as in an upgrade: the
                # token still holds, and nothing that runs is stopped for it.
                failures += 1
                self._log.warning("the session is not renewed yet", why=error.message)

    async def _open_once(self) -> SessionGrant:
        body = {
            "worker_id": self._identity.worker_id,
            "instance": self._identity.instance,
            "boot_id": self._identity.boot_id,
            "facts": dict(self._facts),
            **({"organization_id": self._organization_id} if self._organization_id else {}),
            **await self._credentials.proof(),
        }
        try:
            grant = read_answer(SessionGrant, await ask(self._transport, "worker-session", body))
        except Fatal as error:
            raise Fatal(error.message, exit_code=ExitCode.REFUSED, hint=error.hint, code=error.code) from error
        self._accept(grant)
        self._log.info(
            "session open", runner=grant.worker.get("name"), instance=self._identity.instance, epoch=grant.epoch
        )
        return grant

    def _accept(self, grant: SessionGrant) -> None:
        self._grant = grant
        self._renew_at = self._clock.monotonic() + grant.expires_in * _RENEW_AT
        self._transport.use(publishable_key=grant.publishable_key, token=grant.access_token)
        for listener in self.listeners:
            listener(grant)

    def _give_up(self, error: WorkerError, waited: float, give_up_after: float | None) -> None:
        if isinstance(error, Rejected) and error.code != "RY409":
            raise Fatal(error.message, exit_code=ExitCode.REFUSED, hint=error.hint, code=error.code) from error
        if isinstance(error, Rejected) and waited > CONFLICT_WAIT_SECONDS:
            raise Fatal(error.message, exit_code=ExitCode.CONFLICT, hint=error.hint, code=error.code) from error
        if give_up_after is not None and waited > give_up_after:
            raise Fatal(error.message, exit_code=ExitCode.UNREACHABLE, hint=error.hint) from error
