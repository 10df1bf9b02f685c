"""The jobs of a list as a file, and one job: all that happened to it, how long each part took, its plan, its signed record."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from app.http.api_routes import guarded, number, org_of, wanted
from app.http.export import export_rows
from app.jobs.log import routes as log
from app.project.errors import NotThere
from app.project.models import BrowserSession, Filter, Query, Row
from app.project.runtime import Runtime

# A job's inputs and results stay on its page: a record is about times and people.
RECORD_COLUMNS = (
    "id,number,type,status,module_path,worker_name,instance_name,attempt,max_attempts,plan_job_id,retry_of,created_by_label,"
    "created_at,queued_at,claimed_at,started_at,finished_at,updated_at,steps,error,approvals_required"
)
MOST_EVENTS = 5000

# The rows that list_jobs returns at a time, and the most rows of a file: more than that is a query, not a spreadsheet.
PAGE = 200
MOST = 10_000
COLUMNS = (
    "number", "type", "status", "module_path", "target_name", "worker_name", "instance_name", "attempt", "created_by_label",
    "created_at", "queued_at", "claimed_at", "started_at", "finished_at", "error",
)  # fmt: skip


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    """Name the routes of the jobs: the list as a file, a job's record and plan, and its log."""
    return [
        Route("/api/jobs.csv", guarded(runtime, export)),
        Route("/api/jobs/{job}/record.json", guarded(runtime, download)),
        Route("/api/jobs/{job}/record.dsse.json", guarded(runtime, download_signed)),
        Route("/api/jobs/{job}/plan.json", guarded(runtime, download_plan)),
        *log.build_routes(runtime),
    ]


async def export(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Return the jobs of the current organisation; `search` and `filters` are list_jobs' own."""
    asked = {"p_sort": "newest", "p_limit": PAGE, "p_org": await org_of(runtime, session, request), **wanted(request)}

    async def read(last: Row | None, _count: int) -> list[Row]:
        before = None if last is None else int(last["id"])
        rows: list[Row] = (await runtime.authorized.rpc(session, "list_jobs", {"p_before": before, **asked}))["rows"]
        return rows

    return await export_rows("jobs", "csv", COLUMNS, read, PAGE, MOST)


async def download_plan(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Return what a job's plan changes, attribute by attribute; sensitive values are masked."""
    job = number(request, "job")
    changes = await runtime.authorized.rpc(session, "plan_changes", {"p_job": job})
    return JSONResponse(changes, headers={"Content-Disposition": f'attachment; filename="plan-{job}.json"'})


async def download_signed(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Return the signed record of a job's change, as `runyard record verify` reads it."""
    job = number(request, "job")
    envelope = (await runtime.authorized.rpc(session, "change_record", {"p_job": job}))["envelope"]
    if envelope is None:
        raise NotThere("The record is not signed yet.", "It takes seconds, as a rule.")
    headers = {"Content-Disposition": f'attachment; filename="record-{job}.dsse.json"'}
    return JSONResponse(envelope, headers=headers)


async def download(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Return a job's events, and its states and steps with their times."""
    job = str(number(request, "job"))
    rows = (
        await runtime.authorized.select(
            session, "provision_jobs", Query(columns=RECORD_COLUMNS, filters=(Filter("id", "eq", job),), limit=1)
        )
    ).rows
    if not rows:
        raise NotThere("There is no such job.", "The link may be wrong, or the job was removed.")
    of_job = (Filter("job_id", "eq", job),)
    events = (
        await runtime.authorized.select(session, "job_events", Query(filters=of_job, order="id", limit=MOST_EVENTS))
    ).rows
    record = {"job": rows[0], "events": events, "waterfall": waterfall(rows[0], events)}
    headers = {"Content-Disposition": f'attachment; filename="job-{rows[0]["number"]}.json"'}
    return JSONResponse(record, headers=headers)


def waterfall(job: Row, events: Sequence[Row]) -> list[dict[str, Any]]:
    """List the states that a job went through and its steps, each with its two ends; null for one that still runs."""
    moves = [event for event in events if event.get("to_status")]
    ends = [event["at"] for event in moves[1:]] + [job.get("finished_at")]
    states = [
        {"kind": "state", "name": move["to_status"], "attempt": move["attempt"], "from": move["at"], "to": end}
        for move, end in zip(moves, ends, strict=True)
    ]
    steps = [
        {
            "kind": "step",
            "name": step.get("name"),
            "status": step.get("status"),
            "from": step.get("started_at"),
            "to": step.get("finished_at"),
        }
        for step in job.get("steps") or []
    ]
    return states + steps
