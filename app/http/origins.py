"""The addresses that may open a page: the server refuses sockets of others, and the log names the setting that would allow them."""

from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

log = structlog.get_logger(__name__)

SOCKET_PATH = "/_event"
# One line for each origin is enough, and nobody can fill the log with inventions.
MOST_ORIGINS = 100
MOST_TEXT = 200


def with_origin_advice(inner: ASGIApp, allowed: Collection[str]) -> ASGIApp:
    """Note origins that the socket will refuse; refusing them stays with the socket's own server."""
    warned: set[str] = set()

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"].startswith(SOCKET_PATH):
            origin = Headers(scope=scope).get("origin", "")[:MOST_TEXT]
            if origin and origin not in allowed and origin not in warned and len(warned) < MOST_ORIGINS:
                warned.add(origin)
                log.warning("origin_refused", origin=origin, allowed=list(allowed), remedy=_remedy(origin))
        await inner(scope, receive, send)

    return outer


def _remedy(origin: str) -> str:
    return f"if people open the dashboard there, start it with RUNYARD_DASHBOARD_URL={origin}"


def is_same_origin(request: Request, origins: Collection[str] = ()) -> bool:
    """Return whether the request comes from our own page; a form on another site does not.

    A proxy may give the request another Host than the one people opened: then the address must be a known one.
    """
    origin = request.headers.get("origin")
    return origin is not None and (urlsplit(origin).netloc == request.headers.get("host") or origin in origins)


def own_address(request: Request, origins: Sequence[str] = ()) -> str:
    """Return the address by which people open the dashboard, without a slash at its end."""
    same = [origin for origin in origins if urlsplit(origin).netloc == request.headers.get("host")]
    return next(iter([*same, *origins]), str(request.base_url)).rstrip("/")
