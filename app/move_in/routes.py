"""An archive on its way to a runner: too large for the page's own connection."""

import base64
import hashlib

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from app.http.api_routes import BadQuery, guarded, org_of
from app.project.models import BrowserSession
from app.project.runtime import Runtime

MOST_BYTES = 25 * 1024 * 1024


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    return [Route("/api/move-in", guarded(runtime, receive), methods=["POST"])]


async def receive(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Take an archive, and answer with the number of the job that reads it."""
    # No page of another site can send this type without asking first.
    if request.headers.get("content-type") != "application/octet-stream":
        raise BadQuery
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise BadQuery("The archive is larger than 25 MiB.", "Push the repository, and read it by its address.")
    source = {
        "group": request.query_params.get("group", "")[:500],
        "name": request.query_params.get("name", "")[:200],
        "archive": base64.b64encode(body).decode(),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    made = await runtime.authorized.rpc(
        session, "request_survey", {"p_org": await org_of(runtime, session, request), "p_source": source}
    )
    return JSONResponse({"number": int(made["number"])})
