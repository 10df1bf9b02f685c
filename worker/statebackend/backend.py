"""Serves one job's state to its engine; the address and password die with the job, the server's token stays here."""

import asyncio
import json
import secrets
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from worker.api.replies import JobRef
from worker.errors import Fatal, Fenced, Locked, Rejected, Retryable, WorkerError
from worker.statebackend.delivery import JournaledState
from worker.statebackend.http import LARGEST_HEAD, BadRequest, Exchange, Request, Response

_CONFLICT = 409

_REQUEST_SECONDS = 300.0
_MOST_REFUSALS = 20
READ_ONLY = "This job only reads the state: a plan, a drift check and outputs change nothing. Apply to change it."


class StateBackend:
    """An HTTP server on a loopback port of its own, for as long as the job runs."""

    def __init__(self, store: JournaledState, ref: JobRef, *, is_read_only: bool = False) -> None:
        """Create the secrets that only this job's engine receives; a job that plans neither locks nor writes."""
        self.store = store
        self._ref = ref
        self._is_read_only = is_read_only
        self._lock_id: str | None = None
        # Why the state could not be locked although nobody else has it; an engine changes nothing without its lock.
        self.lock_outage = ""
        self._released_id: str | None = None
        self._refusals: list[str] = []
        self._path = f"/{secrets.token_urlsafe(24)}"
        self._user = secrets.token_urlsafe(9)
        self._password = secrets.token_urlsafe(24)
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=LARGEST_HEAD)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await self._server.wait_closed()

    @property
    def secrets(self) -> list[str]:
        """The texts that the redactor has to mask."""
        return [self._path[1:], self._password]

    def variables(self) -> dict[str, str]:
        """The environment that points Terraform's and OpenTofu's `http` backend here."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        address = f"http://127.0.0.1:{port}{self._path}"
        # Without an address for locks an engine takes none, and plans as it does otherwise.
        locks = {} if self._is_read_only else {"TF_HTTP_LOCK_ADDRESS": address, "TF_HTTP_UNLOCK_ADDRESS": address}
        return {
            **locks,
            "TF_HTTP_ADDRESS": address,
            "TF_HTTP_LOCK_METHOD": "LOCK",
            "TF_HTTP_UNLOCK_METHOD": "UNLOCK",
            "TF_HTTP_UPDATE_METHOD": "POST",
            "TF_HTTP_USERNAME": self._user,
            "TF_HTTP_PASSWORD": self._password,
            "TF_HTTP_RETRY_MAX": "2",
        }

    def take_refusals(self) -> list[str]:
        """Return why requests of the engine were refused since the last call: engines print the status alone."""
        taken, self._refusals = self._refusals, []
        return taken

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = Exchange(reader)
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                response = await self._respond(exchange)
            writer.write(exchange.spell(response))
            await writer.drain()
        except (ConnectionError, TimeoutError):
            pass
        finally:
            writer.close()
            with suppress(Exception):
                await writer.wait_closed()

    async def _respond(self, exchange: Exchange) -> Response:
        try:
            request = await exchange.head()
        except BadRequest as error:
            return _bad(error)
        # Anybody else on this machine is not listened to any longer than that.
        if not self._is_ours(request):
            return Response(401, b'{"error":"not this job"}')
        try:
            return await self._answer(request, await exchange.body())
        except BadRequest as error:
            self._note(request, str(error))
            return _bad(error)
        except WorkerError as error:
            self._note(request, error.message)
            return _refusal(error)

    def _note(self, request: Request, why: str) -> None:
        self._refusals = [*self._refusals, f"{request.method} of the state was refused: {why}"][-_MOST_REFUSALS:]

    def _is_ours(self, request: Request) -> bool:
        user, password = request.basic_auth()
        is_right = secrets.compare_digest(f"{user}:{password}".encode(), f"{self._user}:{self._password}".encode())
        return secrets.compare_digest(request.path.encode(), self._path.encode()) and is_right

    async def _answer(self, request: Request, body: bytes) -> Response:
        match request.method:
            case "GET":
                state = await self.store.state_get(self._ref)
                return Response(200, state.body.encode()) if state.exists and state.body else Response(404)
            case "POST" | "LOCK" | "UNLOCK" if self._is_read_only:
                raise Locked(READ_ONLY, detail={"ID": "read-only", "Who": "Runyard", "Info": READ_ONLY})
            case "POST":
                await self._put(_text_of(body), request.query.get("ID"))
            case "LOCK":
                await self._lock(_lock_of(body))
            case "UNLOCK":
                await self._unlock(str(_lock_of(body).get("ID", "")))
            case _:
                return Response(405)
        return Response(200)

    async def _lock(self, lock: dict[str, Any]) -> None:
        try:
            await self.store.state_lock(self._ref, lock)
        except Retryable as error:
            self.lock_outage = error.message
            raise
        self._lock_id, self.lock_outage = str(lock.get("ID", "")), ""

    async def _put(self, body: str, lock_id: str | None) -> None:
        """Hand a state on that its writer has locked, and that follows the stored one."""
        self._check_lock(lock_id)
        stored = await self.store.state_get(self._ref)
        # A large state takes longer to read than a heartbeat may wait.
        await asyncio.to_thread(check_follows, body, stored.body if stored.exists and stored.body else None)
        await self.store.state_put(self._ref, body, lock_id)

    async def _unlock(self, lock_id: str) -> None:
        # An engine that did not receive the answer asks again.
        if lock_id and lock_id == self._released_id and self._lock_id is None:
            return
        self._check_lock(lock_id)
        await self.store.state_unlock(self._ref, lock_id)
        self._lock_id, self._released_id = None, lock_id

    def _check_lock(self, lock_id: str | None) -> None:
        if self._lock_id is None:
            raise BadRequest(409, "this job has not locked the state; lock it first")
        if lock_id != self._lock_id:
            raise BadRequest(409, f"the lock's id is {lock_id!r}, and this job's lock is {self._lock_id!r}")


def _text_of(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(400, "the state is not UTF-8") from error


def _lock_of(body: bytes) -> dict[str, Any]:
    try:
        lock = json.loads(body or b"{}")
    except ValueError as error:
        raise BadRequest(400, "the lock is not JSON") from error
    if not isinstance(lock, dict):
        raise BadRequest(400, "the lock is not an object")
    return lock


def _bad(error: BadRequest) -> Response:
    return Response(error.status, json.dumps({"error": str(error)}).encode())


def _refusal(error: WorkerError) -> Response:
    if isinstance(error, Locked):
        detail = error.detail
        body = detail if isinstance(detail, str) else json.dumps(detail or {"Info": error.message})
        return Response(423, body.encode())
    status = 403 if isinstance(error, Fenced | Rejected | Fatal) else 503
    return Response(status, json.dumps({"error": error.message}).encode())


def read_fields(body: str) -> tuple[str, int]:
    """Read a state's lineage and serial; an encrypted state of OpenTofu has them in the clear, too."""
    try:
        state = json.loads(body)
    except ValueError as error:
        raise BadRequest(400, "the state is not JSON") from error
    lineage, serial = (state.get("lineage", ""), state.get("serial")) if isinstance(state, dict) else (None, None)
    # A first apply that loses its backend leaves a state without a lineage behind, and later ones inherit that.
    if not isinstance(lineage, str):
        raise BadRequest(400, "the state's lineage is not a text")
    if not isinstance(serial, int) or isinstance(serial, bool) or serial < 0:
        raise BadRequest(400, "the state has no serial")
    return lineage, serial


def check_follows(body: str, stored: str | None) -> None:
    """Refuse a state that is none, that belongs to something else, or that is not newer than the stored one."""
    lineage, serial = read_fields(body)
    if stored is None or stored == body:
        return
    try:
        old_lineage, old_serial = read_fields(stored)
    except BadRequest:
        # Of another engine: the database decides.
        return
    if old_lineage and lineage != old_lineage:
        raise BadRequest(_CONFLICT, f"the state's lineage is {lineage}, and the stored one's is {old_lineage}")
    if serial <= old_serial:
        raise BadRequest(_CONFLICT, f"the state's serial is {serial}, and the stored one's is {old_serial} already")
