"""Fetching a file from anywhere; no credential of the runner goes along."""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from wire.answers import is_passing
from worker.errors import JobFailed, Retryable

MOST_BYTES = 256 * 1024 * 1024
_MOST_OF_ANSWER = 1024 * 1024


async def ask(http: httpx.AsyncClient, method: str, address: str, *, seconds: float, **request: Any) -> httpx.Response:
    """Send a request to a server that is not the project, and read a short answer: others could be without end."""
    content = bytearray()
    try:
        async with asyncio.timeout(seconds), http.stream(method, address, **request) as answer:
            async for piece in answer.aiter_bytes():
                content += piece
                if len(content) > _MOST_OF_ANSWER:
                    raise httpx.DecodingError(f"its answer has more than {_MOST_OF_ANSWER:,} bytes")
    except TimeoutError as error:
        raise httpx.ReadTimeout(f"its answer takes longer than {seconds:g} s") from error
    return httpx.Response(answer.status_code, content=bytes(content), request=answer.request)


async def download(
    url: str, target: Path, *, say: Callable[[str], None], check: Callable[[str], None] = lambda _: None,
    most_bytes: int = MOST_BYTES, timeout_seconds: float = 60.0,
) -> str:  # fmt: skip
    """Stream a URL into a new file and return its SHA-256; `check` refuses addresses, those of redirects too."""
    digest = hashlib.sha256()

    async def check_request(request: httpx.Request) -> None:
        check(str(request.url))

    hooks = {"request": [check_request]}
    try:
        async with (
            httpx.AsyncClient(
                timeout=timeout_seconds, follow_redirects=True, max_redirects=5, event_hooks=hooks
            ) as http,
            http.stream("GET", url) as response,
        ):
            _check(response, url)
            size = 0
            with target.open("xb") as file:
                async for piece in response.aiter_bytes(256 * 1024):
                    size += len(piece)
                    if size > most_bytes:
                        raise JobFailed(f"The file is larger than {most_bytes:,} bytes.", code="too_large")
                    digest.update(piece)
                    file.write(piece)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Retryable(f"The file cannot be fetched: {type(error).__name__} {error}") from error
    say(f"Fetched {size:,} bytes.")
    return digest.hexdigest()


def _check(response: httpx.Response, url: str) -> None:
    if is_passing(response.status_code, ""):
        raise Retryable(f"The file's server answered {response.status_code}.")
    if not response.is_success:
        raise JobFailed(
            f"The file's server answered {response.status_code} for {url}.",
            code="fetch_failed",
            hint="Check the URL and that this runner may read it.",
        )
