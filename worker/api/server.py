"""The server's functions as the runner calls them, each with its retry policy beside it."""

import base64
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from worker.api import replies
from worker.api.replies import Document, JobRef, Kind, read_answer
from worker.api.retrying import retry_for
from worker.api.transport import Transport
from worker.enums import JobPhase, WorkerStatus
from worker.errors import Fatal, TokenExpired

Renew = Callable[[], Awaitable[None]]

HEARTBEAT_TIMEOUT_SECONDS = 8.0
STATE_SECONDS = 60.0
ARTIFACT_SECONDS = 120.0


class Server:
    """One session's view of the server; identity comes from the token, never from an argument."""

    def __init__(self, transport: Transport, renew: Renew, on_fatal: Callable[[Fatal], None] = lambda _: None) -> None:
        """`renew` gets a fresh token when ours has expired; `on_fatal` is called when the session has ended."""
        self._transport = transport
        self._renew = renew
        self._on_fatal = on_fatal

    async def heartbeat(
        self, status: WorkerStatus, version: str, running: Iterable[JobRef], facts: Mapping[str, Any] | None
    ) -> replies.HeartbeatReply:
        """Send one, without retry: the next one says more than a repeated one."""
        arguments = {
            "p_status": status,
            "p_version": version,
            "p_running": [ref.model_dump() for ref in running],
            "p_facts": facts,
        }
        return await self._ask(
            replies.HeartbeatReply, "worker_heartbeat", arguments, timeout_seconds=HEARTBEAT_TIMEOUT_SECONDS
        )

    async def claim(self, request_id: UUID, slots: int) -> replies.ClaimReply:
        """Ask for jobs, without retry: the claim loop repeats it under the same request id."""
        return await self._ask(replies.ClaimReply, "worker_claim", {"p_request_id": str(request_id), "p_slots": slots})

    async def report(
        self, ref: JobRef, phase: JobPhase, steps: list[dict[str, Any]], plan_summary: Mapping[str, Any] | None
    ) -> str | None:
        """Report a job's progress, without retry: the reporter repeats with the newest one."""
        more: dict[str, Any] = {"phase": phase, "steps": steps, "plan_summary": plan_summary}
        return (await self._about(ref, Document, "worker_report", seconds=0, **more)).get("cancel_kind")

    async def append_logs(self, ref: JobRef, chunks: list[dict[str, Any]], *, is_late: bool = False) -> int:
        """Add log chunks, without retry: the shipper repeats; a number that is stored already is ignored."""
        more: dict[str, Any] = {"chunks": chunks, **({"is_late": True} if is_late else {})}
        reply = await self._about(ref, Document, "worker_append_logs", seconds=0, **more)
        return int(reply.get("last_seq") or 0)

    async def finish(self, ref: JobRef, outcome: Mapping[str, Any]) -> replies.FinishReply:
        """End an attempt; repeated until it is answered, since (job, attempt) ends only once."""
        return await self._about(ref, replies.FinishReply, "worker_finish", seconds=None, **outcome)

    async def return_job(
        self, ref: JobRef, reason: str, code: str | None = None, log: Mapping[str, Any] | None = None
    ) -> replies.FinishReply:
        """Give an attempt back, with what the runner lacks for it; repeated for a while, then the lease does the same."""
        more: dict[str, Any] = {"reason": reason, **({"code": code} if code else {}), "log": log}
        return await self._about(ref, replies.FinishReply, "worker_return_job", seconds=20.0, **more)

    async def recover(self, refs: Iterable[JobRef], *, dead: Iterable[JobRef] = ()) -> replies.RecoverReply:
        """Report the attempts of an earlier process: those that we still report, and dead ones for the server to decide.

        One that was claimed before this session began, and is not named here, is lost.
        """
        named = [(ref, False) for ref in refs] + [(ref, True) for ref in dead]
        arguments = {"p_running": [{**ref.model_dump(), "is_dead": is_dead} for ref, is_dead in named]}
        return await retry_for(None, lambda: self._ask(replies.RecoverReply, "worker_recover", arguments))

    async def close_session(self, reason: str) -> None:
        """Report the end of the process; tried twice, since staleness shows it a minute later."""
        arguments = {"p_reason": reason}
        await retry_for(4.0, lambda: self._ask(Document, "worker_close_session", arguments, timeout_seconds=3.0))

    async def state_get(self, ref: JobRef, *, seconds: float = STATE_SECONDS) -> replies.StateReply:
        """Read the module's state."""
        return await self._about(ref, replies.StateReply, "worker_state_get", seconds=seconds)

    async def state_put(self, ref: JobRef, body: str, lock_id: str | None, *, seconds: float = STATE_SECONDS) -> None:
        """Write the module's state; the journal asks once at a time and repeats it itself."""
        await self._about(ref, Document, "worker_state_put", seconds=seconds, body=body, lock_id=lock_id)

    async def destination_state(self, ref: JobRef) -> replies.StateReply:
        """Read the state of the module that resources are moved to."""
        return await self._about(ref, replies.StateReply, "worker_destination_state")

    async def move_states(self, ref: JobRef, source: str, destination: str) -> Document:
        """Write both states of a move, or neither."""
        more: dict[str, Any] = {"from": source, "to": destination}
        return await self._about(ref, Document, "worker_move_states", **more)

    async def bound_values(self, ref: JobRef) -> replies.BoundValues:
        """Read the values of the module's bound inputs."""
        return await self._about(ref, replies.BoundValues, "worker_bound_values")

    async def keep_state(self, ref: JobRef, number: int, body: str, written_at: str, why: str) -> None:
        """Hand over a state that the server no longer stores automatically, for a person to decide about."""
        more: dict[str, Any] = {"number": number, "body": body, "written_at": written_at, "reason": why}
        await self._about(ref, Document, "worker_state_keep", **more)

    async def state_lock(self, ref: JobRef, lock: Mapping[str, Any]) -> None:
        """Lock the module's state for this attempt; the same lock id may be requested again."""
        await self._about(ref, Document, "worker_state_lock", lock=lock)

    async def state_unlock(self, ref: JobRef, lock_id: str, *, seconds: float = STATE_SECONDS) -> None:
        """Release the lock."""
        await self._about(ref, Document, "worker_state_unlock", seconds=seconds, lock_id=lock_id)

    async def put_artifact(self, ref: JobRef, name: str, body: bytes) -> None:
        """Keep a file of this job, such as its plan."""
        more: dict[str, Any] = {
            "body_base64": base64.b64encode(body).decode(),
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        await self._about(ref, Document, "worker_put_artifact", seconds=ARTIFACT_SECONDS, name=name, **more)

    async def get_artifact(self, ref: JobRef, name: str) -> Mapping[str, Any]:
        """Read a file of the plan that this job applies."""
        return await self._about(ref, Document, "worker_get_artifact", seconds=ARTIFACT_SECONDS, name=name)

    async def engine_token(self, ref: JobRef) -> str:
        """Get an engine's token: it reads its module's state while the attempt runs. Requested once, as a job can run without it."""
        reply = await self._transport.function("worker-session", {**_job(ref), "engine": True}, is_authorised=True)
        return str(reply["access_token"])

    async def variables(self, ref: JobRef) -> list[replies.GivenVariable]:
        """Get the job's inputs, environment and files: the claim carries no values."""
        return (await self._about(ref, replies.GivenVariables, "worker_variables")).variables

    async def policies(self, ref: JobRef) -> Document:
        """Read the policy sets that the job's plan must pass, with their files."""
        return await self._about(ref, Document, "worker_policies")

    async def record_checks(self, ref: JobRef, checks: list[dict[str, Any]]) -> Document:
        """Record what the sets found; the answer shows whether the job is refused."""
        return await self._about(ref, Document, "worker_record_checks", checks=checks)

    async def identities(self, ref: JobRef) -> replies.JobIdentities:
        """Read which identities the job has: most have none, and need no token."""
        return await self._about(ref, replies.JobIdentities, "worker_identities")

    async def identity_tokens(self, ref: JobRef) -> replies.IssuedTokens:
        """Get a token for each identity of the job, without retry: the renewal repeats it."""
        try:
            reply = await self._transport.function("job-identity", _job(ref), is_authorised=True)
        except TokenExpired:
            await self._renew()
            reply = await self._transport.function("job-identity", _job(ref), is_authorised=True)
        return read_answer(replies.IssuedTokens, reply)

    async def repository_token(self, ref: JobRef) -> Document | None:
        """Get a token to fetch the job's repository, where a GitHub App gives one; without retry."""
        if not await self._call("worker_repository", _which(ref)):
            return None
        return await self._transport.function("git/token", _job(ref), is_authorised=True)

    async def job(self, ref: JobRef, *, has_payload: bool = True) -> Document:
        """Read a running attempt, and how long its runner's last heartbeat is still valid; without retry, as the caller polls."""
        return await self._about(ref, Document, "worker_job", seconds=0, has_payload=has_payload)

    async def job_grant(self, ref: JobRef) -> Document:
        """Get a credential that is valid for one attempt, for the executor that will run it."""
        return await retry_for(
            STATE_SECONDS, lambda: self._transport.function("worker-session", _job(ref), is_authorised=True)
        )

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a function that only few jobs need, repeated for a minute."""
        return await retry_for(STATE_SECONDS, lambda: self._call(name, arguments))

    async def _about(
        self, ref: JobRef, kind: type[Kind], function: str, *, seconds: float | None = STATE_SECONDS, **more: Any
    ) -> Kind:
        """Call a function about an attempt, repeated for so long: for ever without a limit, not at all for 0."""
        arguments = {**_which(ref), **{f"p_{name}": value for name, value in more.items()}}

        async def call() -> Kind:
            return await self._ask(kind, function, arguments)

        return await (call() if seconds == 0 else retry_for(seconds, call))

    async def _ask(
        self, kind: type[Kind], name: str, arguments: Mapping[str, Any], *, timeout_seconds: float | None = None
    ) -> Kind:
        """Call a function that answers with an object, as all do that a job depends on."""
        return read_answer(kind, await self._call(name, arguments, timeout_seconds=timeout_seconds))

    async def _call(self, name: str, arguments: Mapping[str, Any], *, timeout_seconds: float | None = None) -> Any:
        try:
            return await self._once(name, arguments, timeout_seconds)
        except Fatal as error:
            self._on_fatal(error)
            raise

    async def _once(self, name: str, arguments: Mapping[str, Any], timeout_seconds: float | None) -> Any:
        try:
            return await self._transport.rpc(name, arguments, timeout_seconds=timeout_seconds)
        except TokenExpired:
            await self._renew()
            return await self._transport.rpc(name, arguments, timeout_seconds=timeout_seconds)


def _which(ref: JobRef) -> dict[str, int]:
    return {"p_job": ref.job, "p_attempt": ref.attempt}


def _job(ref: JobRef) -> dict[str, Any]:
    """The attempt as edge functions take it."""
    return {"job": {"id": ref.job, "attempt": ref.attempt}}
