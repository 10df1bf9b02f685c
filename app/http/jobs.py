"""The jobs of a list as a file: what the page filters, newest first."""

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from app.http import csv_file
from app.http.guard import BadQuery, guarded, org_of
from app.project.models import BrowserSession, Row
from app.project.runtime import Runtime

# What list_jobs answers at a time, and where a file ends: more than that is a query, not a spreadsheet.
PAGE = 200
MOST = 10_000
COLUMNS = (
    "id",
    "type",
    "status",
    "module_path",
    "target_name",
    "worker_name",
    "instance_name",
    "attempt",
    "created_by_label",
    "created_at",
    "queued_at",
    "claimed_at",
    "started_at",
    "finished_at",
    "error",
)


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    """Name the export's route."""
    return [Route("/api/jobs.csv", guarded(runtime, export))]


async def export(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Return the jobs of the organisation being looked at; `search` and `filters` are list_jobs' own."""
    read = partial(_page, runtime, session, {"p_org": org_of(session), **wanted(request)})
    # The first page is read before anything is sent, so that a refusal is a refusal and not half a file.
    first = await read(None)
    headers = {"Content-Disposition": 'attachment; filename="runyard-jobs.csv"'}
    return StreamingResponse(_write(read, first), media_type="text/csv; charset=utf-8", headers=headers)


def wanted(request: Request) -> dict[str, Any]:
    """Read what a list's address asks for: words, and filters as JSON."""
    try:
        filters = json.loads(request.query_params.get("filters", "{}"))
    except ValueError as error:
        raise BadQuery from error
    if not isinstance(filters, dict):
        raise BadQuery
    return {"p_search": request.query_params.get("search", "")[:100], "p_filters": filters}


async def _write(read: Any, page: list[Row]) -> AsyncIterator[str]:
    yield csv_file.header(COLUMNS)
    count = 0
    while page:
        yield csv_file.lines(COLUMNS, page)
        count += len(page)
        page = await read(int(page[-1]["id"])) if len(page) == PAGE and count < MOST else []


async def _page(runtime: Runtime, session: BrowserSession, wanted: dict[str, Any], before: int | None) -> list[Row]:
    arguments = {"p_sort": "newest", "p_limit": PAGE, "p_before": before, **wanted}
    rows: list[Row] = (await runtime.authorized.rpc(session, "list_jobs", arguments))["rows"]
    return rows
