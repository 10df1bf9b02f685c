"""The points of the figures page's charts as a file."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.http.api_routes import BadQuery, guarded, org_of
from app.http.export import header, lines
from app.project.models import BrowserSession
from app.project.runtime import Runtime

COLUMNS = ("at", "jobs", "succeeded", "failed", "p50", "p95", "p99", "share")


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    return [Route("/api/figures.csv", guarded(runtime, export))]


async def export(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Return what the charts of a span are drawn from, of the current organisation."""
    hours = request.query_params.get("hours", "24")
    if not hours.isascii() or not hours.isdigit() or len(hours) > 4:
        raise BadQuery
    org = await org_of(runtime, session, request)
    answer = await runtime.authorized.rpc(session, "fleet_figures", {"p_org": org, "p_hours": int(hours)})
    headers = {"Content-Disposition": 'attachment; filename="runyard-figures.csv"'}
    text = header(COLUMNS) + lines(COLUMNS, answer["points"])
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)
