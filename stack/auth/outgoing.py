"""Requests to identity providers: to the address that was checked, without redirects, within limits of time and size."""

import asyncio
import socket
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

MOST_BYTES = 512 * 1024
SECONDS = 8.0


class ProviderFault(Exception):
    """The answer of a provider that nobody can be signed in with; `away` where it gave none of its own."""

    def __init__(self, detail: str, *, away: bool = False) -> None:
        super().__init__(detail)
        self.away = away


Resolve = Callable[[str], Iterable[str]]


def _addresses(host: str) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class Outgoing:
    """Fetches JSON from addresses that an organisation's owner wrote: they must not lead into this network."""

    def __init__(self, own_hosts: Iterable[str] = (), resolve: Resolve = _addresses) -> None:
        self._own_hosts = frozenset(own_hosts)
        self._resolve = resolve

    async def check(self, url: str) -> str | None:
        """Return the address to connect to; None for a host that the operator named, which is resolved as usual."""
        parts = urlsplit(url)
        if parts.hostname is None or parts.username is not None:
            raise ProviderFault(f"{url[:200]!r} is not an address")
        if self._own_hosts & {parts.hostname, parts.netloc}:
            return None
        if parts.scheme != "https":
            raise ProviderFault(f"{url[:200]!r} is not an https address")
        try:
            found = await asyncio.to_thread(self._resolve, parts.hostname)
            addresses = [ip_address(address.partition("%")[0]) for address in found]
        except (OSError, ValueError, UnicodeError) as error:
            raise ProviderFault(f"the host {parts.hostname} does not resolve", away=True) from error
        if not addresses or not all(address.is_global and not address.is_multicast for address in addresses):
            detail = "RUNYARD_FUNCTIONS_ALLOW_NET names hosts inside this network"
            raise ProviderFault(f"the host {parts.hostname} resolves to a private address; {detail}")
        return str(addresses[0])

    async def json(self, method: str, url: str, **request: Any) -> tuple[int, dict[str, Any]]:
        """Send one request and return status and object."""
        try:
            async with asyncio.timeout(SECONDS):
                status, kind, body = await self._send(method, url, request)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError) as error:
            raise ProviderFault(f"{url[:200]}: no answer ({type(error).__name__})", away=True) from error
        try:
            found = orjson.loads(body)
        except ValueError as error:
            away = status >= 500 or status == 429
            raise ProviderFault(f"{url[:200]}: {status} with {kind[:60]!r}, not JSON", away=away) from error
        if not isinstance(found, dict):
            raise ProviderFault(f"{url[:200]}: {status} without a JSON object")
        return status, found

    async def _send(self, method: str, url: str, request: dict[str, Any]) -> tuple[int, str, bytes]:
        address = await self.check(url)
        target, headers = httpx.URL(url), {"accept": "application/json", **request.pop("headers", {})}
        extensions = {}
        if address is not None:
            # The name could resolve to another address a moment later.
            headers["host"], extensions = target.netloc.decode(), {"sni_hostname": target.host}
            target = target.copy_with(host=address)
        async with (
            httpx.AsyncClient(trust_env=False, timeout=SECONDS) as client,
            client.stream(method, target, headers=headers, extensions=extensions, **request) as answer,
        ):
            return answer.status_code, answer.headers.get("content-type", ""), await _read(answer, url)


async def _read(answer: httpx.Response, url: str) -> bytes:
    body = bytearray()
    async for part in answer.aiter_bytes():
        body += part
        if len(body) > MOST_BYTES:
            raise ProviderFault(f"{url[:200]}: more than {MOST_BYTES} bytes")
    return bytes(body)
