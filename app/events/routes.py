"""The fleet's events as a file: what the page filters, newest first; CSV for spreadsheets, JSON lines for programs."""

from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.http.api_routes import guarded, org_of, wanted
from app.http.export import export_rows
from app.project.models import BrowserSession, Row
from app.project.runtime import Runtime

# The number of events on a page of list_events, and the most events that its pages reach.
PAGE = 200
MOST = 10_000
COLUMNS = (
    "at", "kind", "event", "reason", "actor", "worker_name", "worker_id", "job_number", "module_path", "attempt", "to_status",
)  # fmt: skip


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    return [Route("/api/events.{format}", guarded(runtime, export))]


async def export(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Return the events of the current organisation; `search` and `filters` are list_events' own."""
    asked = {"p_limit": PAGE, "p_org": await org_of(runtime, session, request), **wanted(request)}
    # New events would push others from one page to the next.
    asked["p_filters"] = {"until": datetime.now(UTC).isoformat(), **asked["p_filters"]}

    async def read(_last: Row | None, count: int) -> list[Row]:
        rows: list[Row] = (await runtime.authorized.rpc(session, "list_events", {"p_offset": count, **asked}))["rows"]
        return rows

    return await export_rows("events", request.path_params["format"], COLUMNS, read, PAGE, MOST)
