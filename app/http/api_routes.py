"""Every route under /api: somebody is signed in, our own page calls, and errors have the same texts as elsewhere."""

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.http.cookies import NAME
from app.project.errors import AppError, NotThere, SignedOut, Unreachable
from app.project.models import BrowserSession
from app.project.runtime import Runtime

Endpoint = Callable[[Runtime, BrowserSession, Request], Awaitable[Response]]

# Nothing here may be kept by a cache, guessed to be something else, or shown inside another site's page.
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class BadQuery(AppError):
    """The address asks for something that cannot be."""

    message = "This address is not complete."
    hint = "Go back and try again."


def guarded(
    runtime: Runtime, endpoint: Endpoint, *, is_from_elsewhere: bool = False
) -> Callable[[Request], Awaitable[Response]]:
    """Make an endpoint answer only people who are signed in, on our own pages unless another site leads here."""

    async def answer(request: Request) -> Response:
        try:
            is_ours = request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
            if not is_ours and not is_from_elsewhere:
                raise SignedOut("This request came from another site.")
            response = await endpoint(runtime, await session_of(runtime, request), request)
        except AppError as error:
            response = problem(error)
        response.headers.update(HEADERS)
        return response

    return answer


async def org_of(runtime: Runtime, session: BrowserSession, request: Request) -> str:
    """The organisation of the page that calls, for tabs may show several; else the last one."""
    page = re.match(r"/o/([^/]+)", urlsplit(request.headers.get("referer", "")).path)
    rows = await runtime.authorized.rpc(session, "my_organizations") or []
    wanted = (page[1],) if page else (session.org_id,)
    found = next((row for row in rows if row["id"] in wanted or row["slug"] in wanted), None)
    if found is None and (page or not rows):
        raise NotThere("You are not in this organisation.", "Ask one of its admins for an invitation.")
    return str((found or rows[0])["id"])


async def session_of(runtime: Runtime, request: Request) -> BrowserSession:
    sid = request.cookies.get(NAME, "")
    session = await runtime.authorized.sessions.get(sid) if sid else None
    if session is None:
        raise SignedOut
    return session


def problem(error: AppError, status: int = 0, **more: Any) -> Response:
    """Return what happened, what to do next, and what `more` a page has to know."""
    statuses = ((SignedOut, 401), (NotThere, 404), (Unreachable, 503))
    status = status or next((code for kind, code in statuses if isinstance(error, kind)), 400)
    return JSONResponse({"message": error.message, "hint": error.hint, **more}, status_code=status)


def number(request: Request, name: str) -> int:
    """Read a whole number from the address, from its path or its query."""
    text = str(request.path_params.get(name) or request.query_params.get(name, ""))
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise BadQuery
    return int(text)


def wanted(request: Request) -> dict[str, Any]:
    """Read what a list's address asks for: words, and filters as JSON."""
    try:
        filters = json.loads(request.query_params.get("filters", "{}"))
    except ValueError as error:
        raise BadQuery from error
    if not isinstance(filters, dict):
        raise BadQuery
    return {"p_search": request.query_params.get("search", "")[:100], "p_filters": filters}
