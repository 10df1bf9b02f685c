"""The outside world for the runner's unit tests: a network that answers by a function, and a clock that is set by hand."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx

from worker.api.server import Server
from worker.api.transport import Transport

Answer = Callable[[str, dict[str, Any]], Any]


class Network:
    """Answers calls by name; an exception is a lost connection, a tuple a status with a body, a response is sent as it is."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.tokens: list[str] = []

    def transport(self) -> Transport:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._handle))
        made = Transport("http://project.example", http=http)
        made.use(publishable_key="sb_publishable_x", token="first")
        return made

    def server(self) -> Server:
        async def renew() -> None:
            return

        return Server(self.transport(), renew)

    def named(self, name: str) -> list[dict[str, Any]]:
        return [body for called, body in self.calls if called == name]

    def _handle(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.rsplit("/", 1)[1]
        body = json.loads(request.content)
        self.calls.append((name, body))
        self.tokens.append(request.headers.get("authorization", ""))
        answer = self.answer(name, body)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx.Response):
            return answer
        if isinstance(answer, tuple):
            return httpx.Response(answer[0], json=answer[1], headers=answer[2] if len(answer) > 2 else {})
        return httpx.Response(200, json=answer)


class HandClock:
    """Time that passes only in `sleep`, and at once."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.naps: list[float] = []

    def monotonic(self) -> float:
        return self.time

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


def page() -> httpx.Response:
    """Build the answer of a captive portal, a proxy or a maintenance page to every request."""
    return httpx.Response(200, html="<html>Sign in to use this network.</html>")


def refusal(code: str, message: str = "no", **more: Any) -> tuple[int, dict[str, Any]]:
    """Build PostgREST's answer for one of our SQLSTATEs."""
    return 400, {"code": code, "message": message, "hint": "", "details": None, **more}
