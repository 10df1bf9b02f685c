"""The fleet's events as a file: what the page filters, newest first; CSV for spreadsheets, JSON lines for programs."""

import json
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from app.http import csv_file
from app.http.api_routes import guarded, org_of, wanted
from app.project.errors import NotThere
from app.project.models import BrowserSession, Row
from app.project.runtime import Runtime

# The number of events on a page of list_events, and the most events that its pages reach.
PAGE = 200
MOST = 10_000
COLUMNS = (
    "at", "kind", "event", "reason", "actor", "worker_name", "worker_id", "job_number", "module_path", "attempt", "to_status",
)  # fmt: skip


def json_lines(rows: Iterable[Row]) -> str:
    return "".join(json.dumps({name: row.get(name) for name in COLUMNS}, ensure_ascii=False) + "\n" for row in rows)


FORMATS: dict[str, tuple[str, str, Callable[[Iterable[Row]], str]]] = {
    "csv": ("text/csv; charset=utf-8", csv_file.header(COLUMNS), partial(csv_file.lines, COLUMNS)),
    "jsonl": ("application/x-ndjson", "", json_lines),
}


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    return [Route("/api/events.{format}", guarded(runtime, export))]


async def export(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Return the events of the current organisation; `search` and `filters` are list_events' own."""
    kind = request.path_params["format"]
    if kind not in FORMATS:
        raise NotThere("There is no such export.", "Choose CSV or JSON Lines.")
    asked = {"p_org": await org_of(runtime, session, request), **wanted(request)}
    # New events would push others from one page to the next.
    asked["p_filters"] = {"until": datetime.now(UTC).isoformat(), **asked["p_filters"]}
    read = partial(_page, runtime, session, asked)
    # The first page is read before anything is sent, so that a refusal is a refusal and not half a file.
    first = await read(0)
    media_type, head, write = FORMATS[kind]
    headers = {"Content-Disposition": f'attachment; filename="runyard-events.{kind}"'}
    return StreamingResponse(_write(read, first, head, write), media_type=media_type, headers=headers)


async def _write(read: Any, page: list[Row], head: str, write: Callable[[Iterable[Row]], str]) -> AsyncIterator[str]:
    yield head
    count = 0
    while page:
        yield write(page)
        count += len(page)
        page = await read(count) if len(page) == PAGE and count < MOST else []


async def _page(runtime: Runtime, session: BrowserSession, asked: dict[str, Any], offset: int) -> list[Row]:
    arguments = {"p_limit": PAGE, "p_offset": offset, **asked}
    rows: list[Row] = (await runtime.authorized.rpc(session, "list_events", arguments))["rows"]
    return rows
