"""The server's functions as the runner calls them, each with its retry policy beside it."""

import base64
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from worker.api.replies import (
    BoundValues,
    ClaimReply,
    Document,
    FinishReply,
    GivenVariable,
    GivenVariables,
    HeartbeatReply,
    IssuedTokens,
    JobIdentities,
    JobRef,
    Kind,
    RecoverReply,
    StateReply,
    read_answer,
)
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
    ) -> HeartbeatReply:
        """Send one, without retry: the next one says more than a repeated one."""
        arguments = {
            "p_status": status,
            "p_version": version,
            "p_running": [ref.model_dump() for ref in running],
            "p_facts": facts,
        }
        return await self._ask(HeartbeatReply, "worker_heartbeat", arguments, timeout_seconds=HEARTBEAT_TIMEOUT_SECONDS)

    async def claim(self, request_id: UUID, slots: int) -> ClaimReply:
        """Ask for jobs, without retry: the claim loop repeats it under the same request id."""
        return await self._ask(ClaimReply, "worker_claim", {"p_request_id": str(request_id), "p_slots": slots})

    async def report(
        self, ref: JobRef, phase: JobPhase, steps: list[dict[str, Any]], plan_summary: Mapping[str, Any] | None
    ) -> str | None:
        """Report a job's progress, without retry: the reporter repeats with the newest one."""
        arguments = {**_which(ref), "p_phase": phase, "p_steps": steps, "p_plan_summary": plan_summary}
        return (await self._ask(Document, "worker_report", arguments)).get("cancel_kind")

    async def append_logs(self, ref: JobRef, chunks: list[dict[str, Any]], *, is_late: bool = False) -> int:
        """Add log chunks, without retry: the shipper repeats; a number that is stored already is ignored."""
        arguments: dict[str, Any] = {**_which(ref), "p_chunks": chunks}
        if is_late:
            arguments["p_is_late"] = True
        reply = await self._ask(Document, "worker_append_logs", arguments)
        return int(reply.get("last_seq") or 0)

    async def finish(self, ref: JobRef, outcome: Mapping[str, Any]) -> FinishReply:
        """End an attempt; repeated until it is answered, since (job, attempt) ends only once."""
        arguments = {**_which(ref), **{f"p_{key}": value for key, value in outcome.items()}}
        return await retry_for(None, lambda: self._ask(FinishReply, "worker_finish", arguments))

    async def return_job(
        self, ref: JobRef, reason: str, code: str | None = None, log: Mapping[str, Any] | None = None
    ) -> FinishReply:
        """Give an attempt back, with what the runner lacks for it; repeated for a while, then the lease does the same."""
        arguments = {**_which(ref), "p_reason": reason, **({"p_code": code} if code else {}), "p_log": log}
        return await retry_for(20.0, lambda: self._ask(FinishReply, "worker_return_job", arguments))

    async def recover(self, refs: Iterable[JobRef], *, dead: Iterable[JobRef] = ()) -> RecoverReply:
        """Report the attempts of an earlier process: those that we still report, and dead ones for the server to decide.

        One that was claimed before this session began, and is not named here, is lost.
        """
        named = [(ref, False) for ref in refs] + [(ref, True) for ref in dead]
        arguments = {"p_running": [{**ref.model_dump(), "is_dead": is_dead} for ref, is_dead in named]}
        return await retry_for(None, lambda: self._ask(RecoverReply, "worker_recover", arguments))

    async def close_session(self, reason: str) -> None:
        """Report the end of the process; tried twice, since staleness shows it a minute later."""
        arguments = {"p_reason": reason}
        await retry_for(4.0, lambda: self._ask(Document, "worker_close_session", arguments, timeout_seconds=3.0))

    async def state_get(self, ref: JobRef, *, seconds: float = STATE_SECONDS) -> StateReply:
        """Read the module's state."""
        return await _repeat(seconds, lambda: self._ask(StateReply, "worker_state_get", _which(ref)))

    async def state_put(self, ref: JobRef, body: str, lock_id: str | None, *, seconds: float = STATE_SECONDS) -> None:
        """Write the module's state; the journal asks once at a time and repeats it itself."""
        arguments = {**_which(ref), "p_body": body, "p_lock_id": lock_id}
        await _repeat(seconds, lambda: self._ask(Document, "worker_state_put", arguments))

    async def destination_state(self, ref: JobRef) -> StateReply:
        """Read the state of the module that resources are moved to."""
        return await retry_for(STATE_SECONDS, lambda: self._ask(StateReply, "worker_destination_state", _which(ref)))

    async def move_states(self, ref: JobRef, source: str, destination: str) -> Document:
        """Write both states of a move, or neither."""
        arguments = {**_which(ref), "p_from": source, "p_to": destination}
        return await retry_for(STATE_SECONDS, lambda: self._ask(Document, "worker_move_states", arguments))

    async def bound_values(self, ref: JobRef) -> BoundValues:
        """Read the values of the module's bound inputs."""
        return await retry_for(STATE_SECONDS, lambda: self._ask(BoundValues, "worker_bound_values", _which(ref)))

    async def keep_state(self, ref: JobRef, number: int, body: str, written_at: str, why: str) -> None:
        """Hand over a state that the server no longer stores automatically, for a person to decide about."""
        arguments = {**_which(ref), "p_number": number, "p_body": body, "p_written_at": written_at, "p_reason": why}
        await retry_for(STATE_SECONDS, lambda: self._ask(Document, "worker_state_keep", arguments))

    async def knows_state(self, ref: JobRef, number: int, written_at: str) -> bool:
        """Check whether an attempt of this runner wrote a state at that time, without showing the state."""
        arguments = {**_which(ref), "p_number": number, "p_body": None, "p_written_at": written_at}
        reply = await retry_for(STATE_SECONDS, lambda: self._ask(Document, "worker_state_keep", arguments))
        return bool(reply.get("is_known"))

    async def state_lock(self, ref: JobRef, lock: Mapping[str, Any]) -> None:
        """Lock the module's state for this attempt; the same lock id may be requested again."""
        arguments = {**_which(ref), "p_lock": lock}
        await retry_for(STATE_SECONDS, lambda: self._ask(Document, "worker_state_lock", arguments))

    async def state_unlock(self, ref: JobRef, lock_id: str, *, seconds: float = STATE_SECONDS) -> None:
        """Release the lock."""
        arguments = {**_which(ref), "p_lock_id": lock_id}
        await _repeat(seconds, lambda: self._ask(Document, "worker_state_unlock", arguments))

    async def put_artifact(self, ref: JobRef, name: str, body: bytes) -> None:
        """Keep a file of this job, such as its plan."""
        arguments = {
            **_which(ref),
            "p_name": name,
            "p_body_base64": base64.b64encode(body).decode(),
            "p_sha256": hashlib.sha256(body).hexdigest(),
        }
        await retry_for(ARTIFACT_SECONDS, lambda: self._ask(Document, "worker_put_artifact", arguments))

    async def get_artifact(self, ref: JobRef, name: str) -> Mapping[str, Any]:
        """Read a file of the plan that this job applies."""
        arguments = {**_which(ref), "p_name": name}
        return await retry_for(ARTIFACT_SECONDS, lambda: self._ask(Document, "worker_get_artifact", arguments))

    async def engine_token(self, ref: JobRef) -> str:
        """Get an engine's token: it reads its module's state while the attempt runs. Requested once, as a job can run without it."""
        body = {"job": {"id": ref.job, "attempt": ref.attempt}, "engine": True}
        reply = await self._transport.function("worker-session", body, is_authorised=True)
        return str(reply["access_token"])

    async def variables(self, ref: JobRef) -> list[GivenVariable]:
        """Get the job's inputs, environment and files: the claim carries no values."""
        reply = await retry_for(STATE_SECONDS, lambda: self._ask(GivenVariables, "worker_variables", _which(ref)))
        return reply.variables

    async def policies(self, ref: JobRef) -> Document:
        """Read the policy sets that the job's plan must pass, with their files."""
        return await retry_for(STATE_SECONDS, lambda: self._ask(Document, "worker_policies", _which(ref)))

    async def record_checks(self, ref: JobRef, checks: list[dict[str, Any]]) -> Document:
        """Record what the sets found; the answer shows whether the job is refused."""
        arguments = {**_which(ref), "p_checks": checks}
        return await retry_for(STATE_SECONDS, lambda: self._ask(Document, "worker_record_checks", arguments))

    async def identities(self, ref: JobRef) -> JobIdentities:
        """Read which identities the job has: most have none, and need no token."""
        return await retry_for(STATE_SECONDS, lambda: self._ask(JobIdentities, "worker_identities", _which(ref)))

    async def identity_tokens(self, ref: JobRef) -> IssuedTokens:
        """Get a token for each identity of the job, without retry: the renewal repeats it."""
        body = {"job": {"id": ref.job, "attempt": ref.attempt}}
        try:
            reply = await self._transport.function("job-identity", body, is_authorised=True)
        except TokenExpired:
            await self._renew()
            reply = await self._transport.function("job-identity", body, is_authorised=True)
        return read_answer(IssuedTokens, reply)

    async def repository_token(self, ref: JobRef) -> Document | None:
        """Get a token to fetch the job's repository, where a GitHub App gives one; without retry."""
        if not await self._call("worker_repository", _which(ref)):
            return None
        body = {"job": {"id": ref.job, "attempt": ref.attempt}}
        return await self._transport.function("git/token", body, is_authorised=True)

    async def job(self, ref: JobRef, *, has_payload: bool = True) -> Document:
        """Read a running attempt, and how long its runner's last heartbeat is still valid; without retry, as the caller polls."""
        return await self._ask(Document, "worker_job", {**_which(ref), "p_has_payload": has_payload})

    async def job_grant(self, ref: JobRef) -> Document:
        """Get a credential that is valid for one attempt, for the executor that will run it."""
        body = {"job": {"id": ref.job, "attempt": ref.attempt}}
        ask = lambda: self._transport.function("worker-session", body, is_authorised=True)  # noqa: E731
        return await retry_for(STATE_SECONDS, ask)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a function that only few jobs need, repeated for a minute."""
        return await retry_for(STATE_SECONDS, lambda: self._call(name, arguments))

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


async def _repeat(seconds: float, call: Callable[[], Awaitable[Kind]]) -> Kind:
    return await (retry_for(seconds, call) if seconds > 0 else call())


def _which(ref: JobRef) -> dict[str, int]:
    return {"p_job": ref.job, "p_attempt": ref.attempt}
