"""Serves one job's state to its engine; the address and password die with the job, the server's token stays here."""

import asyncio
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

from worker.api.replies import JobRef, StateReply
from worker.errors import Fatal, Fenced, Locked, Rejected, WorkerError
from worker.statebackend.http import LARGEST_HEAD, BadRequest, Exchange, Request, Response

_REQUEST_SECONDS = 300.0


class StateStore(Protocol):
    """The server's state functions."""

    async def state_get(self, ref: JobRef) -> StateReply:
        """Read the state."""

    async def state_put(self, ref: JobRef, body: str, lock_id: str | None) -> None:
        """Write the state."""

    async def state_lock(self, ref: JobRef, lock: Mapping[str, Any]) -> None:
        """Lock the state."""

    async def state_unlock(self, ref: JobRef, lock_id: str) -> None:
        """Unlock the state."""


class StateBackend:
    """An HTTP server on a loopback port of its own, for as long as the job runs."""

    def __init__(self, store: StateStore, ref: JobRef) -> None:
        """Make the secrets that only this job's engine is told."""
        self.store = store
        self._ref = ref
        self._path = f"/{secrets.token_urlsafe(24)}"
        self._user = secrets.token_urlsafe(9)
        self._password = secrets.token_urlsafe(24)
        self._server: asyncio.Server | None = None
        self.has_written = False

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=LARGEST_HEAD)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await self._server.wait_closed()

    @property
    def secrets(self) -> list[str]:
        """What the redactor has to mask."""
        return [self._path[1:], self._password]

    def variables(self) -> dict[str, str]:
        """The environment that points Terraform's and OpenTofu's `http` backend here."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        address = f"http://127.0.0.1:{port}{self._path}"
        return {
            "TF_HTTP_ADDRESS": address,
            "TF_HTTP_LOCK_ADDRESS": address,
            "TF_HTTP_UNLOCK_ADDRESS": address,
            "TF_HTTP_LOCK_METHOD": "LOCK",
            "TF_HTTP_UNLOCK_METHOD": "UNLOCK",
            "TF_HTTP_UPDATE_METHOD": "POST",
            "TF_HTTP_USERNAME": self._user,
            "TF_HTTP_PASSWORD": self._password,
            "TF_HTTP_RETRY_MAX": "2",
        }

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
            # Anybody else on this machine is not listened to any longer than that.
            if not self._is_ours(request):
                return Response(401, b'{"error":"not this job"}')
            return await self._answer(request, await exchange.body())
        except BadRequest as error:
            return Response(error.status, json.dumps({"error": str(error)}).encode())
        except WorkerError as error:
            return _refusal(error)

    def _is_ours(self, request: Request) -> bool:
        user, password = request.basic_auth()
        is_right = secrets.compare_digest(f"{user}:{password}".encode(), f"{self._user}:{self._password}".encode())
        return secrets.compare_digest(request.path.encode(), self._path.encode()) and is_right

    async def _answer(self, request: Request, body: bytes) -> Response:
        match request.method:
            case "GET":
                state = await self.store.state_get(self._ref)
                return Response(200, state.body.encode()) if state.exists and state.body else Response(404)
            case "POST":
                await self.store.state_put(self._ref, _text_of(body), request.query.get("ID"))
                self.has_written = True
                return Response(200)
            case "LOCK":
                await self.store.state_lock(self._ref, _lock_of(body))
                return Response(200)
            case "UNLOCK":
                await self.store.state_unlock(self._ref, str(_lock_of(body).get("ID", "")))
                return Response(200)
            case _:
                return Response(405)


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


def _refusal(error: WorkerError) -> Response:
    if isinstance(error, Locked):
        detail = error.detail
        body = detail if isinstance(detail, str) else json.dumps(detail or {"Info": error.message})
        return Response(423, body.encode())
    status = 403 if isinstance(error, Fenced | Rejected | Fatal) else 503
    return Response(status, json.dumps({"error": error.message}).encode())
