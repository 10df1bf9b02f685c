"""The audit log as a file: CSV for spreadsheets, JSON lines for programs."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from app.http import csv_file
from app.http.api_routes import guarded, org_of
from app.project.errors import NotThere
from app.project.models import BrowserSession, Filter, Query, Row
from app.project.runtime import Runtime
from app.settings.view.audit import AuditFilter

PAGE = 500
COLUMNS = ("at", "actor_kind", "actor_label", "action", "target_kind", "target_id", "target_label", "address", "detail")


def json_lines(rows: Iterable[Row]) -> str:
    return "".join(
        json.dumps({column: row.get(column) for column in COLUMNS}, ensure_ascii=False) + "\n" for row in rows
    )


FORMATS: dict[str, tuple[str, str, Callable[[Iterable[Row]], str]]] = {
    "csv": ("text/csv; charset=utf-8", csv_file.header(COLUMNS), partial(csv_file.lines, COLUMNS)),
    "jsonl": ("application/x-ndjson", "", json_lines),
}


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    return [Route("/api/audit.{format}", guarded(runtime, export))]


async def export(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Return the audit events of the current organisation, newest first, filtered as on the page."""
    chosen = FORMATS.get(request.path_params["format"])
    if chosen is None:
        raise NotThere("There is no such export.", "Choose CSV or JSON Lines.")
    org_id = await org_of(runtime, session, request)
    media_type, first, write = chosen
    wanted = AuditFilter.of(request.query_params)
    # The first page is read before anything is sent, so that a refusal is a refusal and not half a file.
    read = partial(_page, runtime, session, org_id, wanted)
    page = await read(None)
    name = f"runyard-audit.{request.path_params['format']}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    body = _write(read, page, first, write)
    return StreamingResponse(body, media_type=media_type, headers=headers)


async def _write(
    read: Callable[[int], Awaitable[list[Row]]], page: list[Row], first: str, write: Callable[[Iterable[Row]], str]
) -> AsyncIterator[str]:
    yield first
    while page:
        yield write(page)
        page = await read(int(page[-1]["id"])) if len(page) == PAGE else []


async def _page(
    runtime: Runtime, session: BrowserSession, org_id: str, wanted: AuditFilter, before: int | None
) -> list[Row]:
    conditions = [Filter(*condition) for condition in wanted.conditions()]
    filters = [Filter("org_id", "eq", org_id), *conditions]
    if before is not None:
        filters.append(Filter("id", "lt", str(before)))
    query = Query(filters=tuple(filters), order="id", is_descending=True, limit=PAGE)
    return (await runtime.authorized.select(session, "audit_events", query)).rows
