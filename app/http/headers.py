"""Headers that keep a browser from doing with our pages what we never do."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Reflex evaluates what its own server sends (redirects, scripts of handlers), hence unsafe-eval;
# everything else comes from this origin alone.
RULES = (
    "default-src 'self'",
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self'",
    "worker-src 'self' blob:",
    "object-src 'none'",
    "base-uri 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


def _sockets(origins: Iterable[str]) -> str:
    """Name the websockets of the addresses that the page may be opened by; no other is ever connected to."""
    parts = [urlsplit(origin) for origin in origins]
    return " ".join(f"{'wss' if part.scheme == 'https' else 'ws'}://{part.netloc}" for part in parts)


def content_policy(origins: Iterable[str]) -> str:
    return "; ".join((*RULES, f"connect-src 'self' {_sockets(origins)}".rstrip()))


def with_headers(inner: ASGIApp, origins: Iterable[str]) -> ASGIApp:
    added = {**HEADERS, "content-security-policy": content_policy(origins)}

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in added.items():
                    headers.setdefault(name, value)
            await send(message)

        await inner(scope, receive, send_with_headers if scope["type"] == "http" else send)

    return outer
