"""A version of a module's state as a file, for those who may read it."""

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.http.api_routes import BadQuery, guarded, number
from app.project.errors import NotThere
from app.project.models import BrowserSession, Filter, Query
from app.project.runtime import Runtime

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    return [
        Route("/api/modules/{module}/state/{serial}", guarded(runtime, download)),
        Route("/api/kept-states/{kept}", guarded(runtime, download_kept)),
    ]


async def download(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    module, serial = request.path_params["module"], number(request, "serial")
    if not _UUID.fullmatch(module):
        raise BadQuery
    answer = await runtime.authorized.rpc(session, "state_version", {"p_module": module, "p_serial": serial})
    body = answer.get("body") if isinstance(answer, dict) else answer
    if not isinstance(body, str):
        raise NotThere("This version of the state is not here.", "Older versions are removed after a while.")
    name = await _name_of(runtime, session, module)
    headers = {"Content-Disposition": f'attachment; filename="{name}-state-{serial}.json"'}
    return Response(body, media_type="application/json", headers=headers)


async def download_kept(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    kept = request.path_params["kept"]
    if not _UUID.fullmatch(kept):
        raise BadQuery
    answer = await runtime.authorized.rpc(session, "kept_state", {"p_id": kept})
    body = answer.get("body") if isinstance(answer, dict) else None
    if not isinstance(body, str):
        raise NotThere("This state is not here.", "It may have been discarded.")
    name = f"job-{int(answer['job_number'])}-attempt-{int(answer['attempt'])}-write-{int(answer['number'])}.json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(body, media_type="application/json", headers=headers)


async def _name_of(runtime: Runtime, session: BrowserSession, module: str) -> str:
    """Make a file's name of a module's path: platform/network/vpc is platform-network-vpc."""
    query = Query(columns="path", filters=(Filter("id", "eq", module),), limit=1)
    rows = (await runtime.authorized.select(session, "modules", query)).rows
    path = str(rows[0]["path"]) if rows else "module"
    return re.sub(r"[^A-Za-z0-9_-]+", "-", path)
