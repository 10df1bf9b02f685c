"""The jobs of a list as a file: what the page filters, newest first."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from app.http import csv_file
from app.http.api_routes import guarded, org_of, wanted
from app.jobs import record
from app.jobs.log import routes as log
from app.project.models import BrowserSession, Row
from app.project.runtime import Runtime

# The rows that list_jobs returns at a time, and the most rows of a file: more than that is a query, not a spreadsheet.
PAGE = 200
MOST = 10_000
COLUMNS = (
    "number",
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
    """Name the routes of the jobs: the list as a file, a job's record, and its log."""
    own = [Route("/api/jobs.csv", guarded(runtime, export))]
    return [*own, *record.build_routes(runtime), *log.build_routes(runtime)]


async def export(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Return the jobs of the current organisation; `search` and `filters` are list_jobs' own."""
    read = partial(_page, runtime, session, {"p_org": await org_of(runtime, session, request), **wanted(request)})
    # The first page is read before anything is sent, so that a refusal is a refusal and not half a file.
    first = await read(None)
    headers = {"Content-Disposition": 'attachment; filename="runyard-jobs.csv"'}
    return StreamingResponse(_write(read, first), media_type="text/csv; charset=utf-8", headers=headers)


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
