"""Fetching a module's archive; no credential of the runner goes along."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import httpx

from worker.errors import JobFailed, Retryable

MOST_BYTES = 256 * 1024 * 1024


async def download(url: str, target: Path, *, say: Callable[[str], None], timeout_seconds: float = 60.0) -> str:
    """Stream a URL into a new file and return its SHA-256."""
    digest = hashlib.sha256()
    try:
        async with (
            httpx.AsyncClient(timeout=timeout_seconds, follow_redirects=True, max_redirects=5) as http,
            http.stream("GET", url) as response,
        ):
            _check(response, url)
            size = 0
            with target.open("xb") as file:
                async for piece in response.aiter_bytes(256 * 1024):
                    size += len(piece)
                    _check_size(size)
                    digest.update(piece)
                    file.write(piece)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Retryable(f"The archive cannot be fetched: {type(error).__name__} {error}") from error
    say(f"Fetched {size:,} bytes.")
    return digest.hexdigest()


def _check(response: httpx.Response, url: str) -> None:
    if response.status_code >= 500 or response.status_code == 429:
        raise Retryable(f"The archive's server answered {response.status_code}.")
    if not response.is_success:
        raise JobFailed(
            f"The archive's server answered {response.status_code} for {url}.",
            code="fetch_failed",
            hint="Check the module's source URL and that this runner may read it.",
        )


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise JobFailed(f"The archive is larger than {MOST_BYTES:,} bytes.", code="too_large")
