"""The audit log as a file: CSV for spreadsheets, JSON lines for programs."""

from collections.abc import AsyncIterator, Callable, Iterable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from app.api.guard import guarded
from app.audit.export import csv_lines, header, json_lines
from app.audit.query import AuditFilter
from app.services.errors import NotThere
from app.services.models import Filter, Query, Row, Session
from app.services.runtime import Runtime

PAGE = 500
FORMATS: dict[str, tuple[str, str, Callable[[Iterable[Row]], str]]] = {
    "csv": ("text/csv; charset=utf-8", header(), csv_lines),
    "jsonl": ("application/x-ndjson", "", json_lines),
}


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    """Name the export's route."""
    return [Route("/api/audit.{format}", guarded(runtime, export))]


async def export(runtime: Runtime, session: Session, request: Request) -> Response:
    """Return the audit events of the organisation being looked at, newest first, filtered as on the page."""
    chosen = FORMATS.get(request.path_params["format"])
    if chosen is None or not session.org_id:
        raise NotThere("There is no such export.", "CSV and JSON lines are on offer.")
    media_type, first, write = chosen
    wanted = AuditFilter.of(request.query_params)
    # The first page is read before anything is sent, so that a refusal is a refusal and not half a file.
    page = await _page(runtime, session, wanted, None)
    name = f"runyard-audit.{request.path_params['format']}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    body = _write(runtime, session, wanted, page, first, write)
    return StreamingResponse(body, media_type=media_type, headers=headers)


async def _write(
    runtime: Runtime,
    session: Session,
    wanted: AuditFilter,
    page: list[Row],
    first: str,
    write: Callable[[Iterable[Row]], str],
) -> AsyncIterator[str]:
    yield first
    while page:
        yield write(page)
        page = await _page(runtime, session, wanted, int(page[-1]["id"])) if len(page) == PAGE else []


async def _page(runtime: Runtime, session: Session, wanted: AuditFilter, before: int | None) -> list[Row]:
    conditions = [Filter(*condition) for condition in wanted.conditions()]
    filters = [Filter("org_id", "eq", session.org_id), *conditions]
    if before is not None:
        filters.append(Filter("id", "lt", str(before)))
    query = Query(filters=tuple(filters), order="id", is_descending=True, limit=PAGE)
    return (await runtime.gate.select(session, "audit_events", query)).rows
