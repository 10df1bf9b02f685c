"""The audit log as a file: CSV for spreadsheets, JSON lines for programs."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.http.api_routes import guarded, org_of
from app.http.export import export_rows
from app.project.models import BrowserSession, Filter, Query, Row
from app.project.runtime import Runtime
from app.settings.view.audit import AuditFilter

PAGE = 500
COLUMNS = ("at", "actor_kind", "actor_label", "action", "target_kind", "target_id", "target_label", "address", "detail")


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    return [Route("/api/audit.{format}", guarded(runtime, export))]


async def export(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Return the audit events of the current organisation, newest first, filtered as on the page."""
    chosen = [Filter(*condition) for condition in AuditFilter.of(request.query_params).conditions()]
    mine = (Filter("org_id", "eq", await org_of(runtime, session, request)), *chosen)

    async def read(last: Row | None, _count: int) -> list[Row]:
        filters = mine if last is None else (*mine, Filter("id", "lt", str(last["id"])))
        query = Query(filters=filters, order="id", is_descending=True, limit=PAGE)
        return (await runtime.authorized.select(session, "audit_events", query)).rows

    return await export_rows("audit", request.path_params["format"], COLUMNS, read, PAGE)
