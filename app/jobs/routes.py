"""The jobs of a list as a file: what the page filters, newest first."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.http.api_routes import guarded, org_of, wanted
from app.http.export import export_rows
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
    asked = {"p_sort": "newest", "p_limit": PAGE, "p_org": await org_of(runtime, session, request), **wanted(request)}

    async def read(last: Row | None, _count: int) -> list[Row]:
        before = None if last is None else int(last["id"])
        rows: list[Row] = (await runtime.authorized.rpc(session, "list_jobs", {"p_before": before, **asked}))["rows"]
        return rows

    return await export_rows("jobs", "csv", COLUMNS, read, PAGE, MOST)
