"""A job's log in pieces. Row level security decides who reads it; the parser decides what is left of it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import date

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from app.http.api_routes import BadQuery, guarded, number
from app.jobs.log import pages
from app.project.errors import NotThere
from app.project.models import BrowserSession, Filter, Query, Row
from app.project.runtime import Runtime

_COLOURS = r"(\u001B\[[0-9;:]*m)*"

INDEX_ROWS = 1000
MAX_CHUNKS = 200
DOWNLOAD_CHUNKS = 100
FIND_CHUNKS = 500
# A live log grows by a chunk or two at a time: so many come with their lines, in one answer.
NEW_CHUNKS = 20
MAX_WORDS = 200
# One phase of a run in a download: its title, the filters for its chunks, and the number of the last chunk.
Part = tuple[str, tuple[Filter, ...], int]
_INDEX_COLUMNS = "seq,step,line_count,bytes,created_at"


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    return [
        Route("/api/jobs/{job}/log/index", guarded(runtime, index)),
        Route("/api/jobs/{job}/log/lines", guarded(runtime, lines)),
        Route("/api/jobs/{job}/log/find", guarded(runtime, find)),
        Route("/api/jobs/{job}/log.txt", guarded(runtime, download)),
    ]


async def _filters(runtime: Runtime, session: BrowserSession, request: Request) -> tuple[Filter, ...]:
    job, attempt = number(request, "job"), number(request, "attempt")
    of_attempt = (Filter("job_id", "eq", str(job)), Filter("attempt", "eq", str(attempt)))
    if day := request.query_params.get("day"):
        return (*of_attempt, Filter("log_day", "eq", _day(day)))
    query = Query(columns="attempt,created_at,log_day", filters=(Filter("id", "eq", str(job)),), limit=1)
    rows = (await runtime.authorized.select(session, "provision_jobs", query)).rows
    return (*of_attempt, *_days(rows, attempt))


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise BadQuery from error


def _days(rows: list[Row], attempt: int) -> tuple[Filter, ...]:
    """Name the days of the log: without them the database locks and reads the partition of every day."""
    last = rows[0]["log_day"] if rows else None
    if not last:
        return (Filter("log_day", "is", "null"),)
    first = last if attempt == rows[0]["attempt"] else str(rows[0]["created_at"])[:10]
    return (Filter("log_day", "gte", first), Filter("log_day", "lte", last))


async def index(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """List the chunks after one; a few new ones come with their lines when `lines` is given."""
    after, filters = number(request, "after"), await _filters(runtime, session, request)
    if request.query_params.get("lines"):
        # The chunk before is read as well: it may leave a colour switched on.
        since = (*filters, Filter("seq", "gte", str(after)))
        query = Query(columns=f"{_INDEX_COLUMNS},body", filters=since, order="seq", limit=NEW_CHUNKS + 2)
        rows = (await runtime.authorized.select(session, "job_log_chunks", query)).rows
        before = rows.pop(0) if rows and rows[0]["seq"] == after else None
        if len(rows) <= NEW_CHUNKS:
            parsed = await asyncio.to_thread(pages.page, rows, before)
            return JSONResponse({**pages.index(rows), "more": False, "pages": parsed})
    newer = (*filters, Filter("seq", "gt", str(after)))
    query = Query(columns=_INDEX_COLUMNS, filters=newer, order="seq", limit=INDEX_ROWS)
    rows = (await runtime.authorized.select(session, "job_log_chunks", query)).rows
    return JSONResponse({**pages.index(rows), "more": len(rows) == INDEX_ROWS})


async def lines(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    first, last = number(request, "from"), number(request, "to")
    if not 1 <= first <= last or last - first >= MAX_CHUNKS:
        raise BadQuery
    # The chunk before is read as well: it may leave a colour switched on.
    rows = await _read(runtime, session, await _filters(runtime, session, request), first - 1, last)
    before = rows.pop(0) if rows and rows[0]["seq"] < first else None
    # Parsing takes milliseconds that everybody else's events would wait for.
    return JSONResponse({"chunks": await asyncio.to_thread(pages.page, rows, before)})


async def _read(
    runtime: Runtime, session: BrowserSession, filters: tuple[Filter, ...], first: int, last: int
) -> list[Row]:
    span = (Filter("seq", "gte", str(first)), Filter("seq", "lte", str(last)))
    query = Query(columns="seq,step,body", filters=(*filters, *span), order="seq", limit=MAX_CHUNKS + 1)
    return (await runtime.authorized.select(session, "job_log_chunks", query)).rows


async def find(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """List the chunks of a span that contain these words; the browser then reads only those."""
    first, last, words = number(request, "from"), number(request, "to"), request.query_params.get("q", "")
    if not 1 <= first <= last or last - first >= FIND_CHUNKS or not 1 <= len(words) <= MAX_WORDS:
        raise BadQuery
    span = (Filter("seq", "gte", str(first)), Filter("seq", "lte", str(last)))
    filters = (*await _filters(runtime, session, request), *span, Filter("body", "imatch", pattern(words)))
    query = Query(columns="seq", filters=filters, order="seq", limit=FIND_CHUNKS)
    rows = (await runtime.authorized.select(session, "job_log_chunks", query)).rows
    return JSONResponse({"seqs": [int(row["seq"]) for row in rows]})


async def download(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Return the whole log of a run as plain text, its plan's before its own, read while it is sent."""
    job, attempt = number(request, "job"), number(request, "attempt")
    rows = await _phases(runtime, session, job)
    parts = []
    for row in rows:
        own = attempt if row["id"] == job else int(row["attempt"])
        filters = (Filter("job_id", "eq", str(row["id"])), Filter("attempt", "eq", str(own)), *_days([row], own))
        newest = Query(columns="seq", filters=filters, order="seq", is_descending=True, limit=1)
        found = (await runtime.authorized.select(session, "job_log_chunks", newest)).rows
        parts += [(str(row["type"]).capitalize(), filters, int(found[0]["seq"]))] if found else []
    if not parts:
        raise NotThere("This job has no log.", "It may be past its retention period.")
    last = rows[-1]
    name = f"job-{last['number']}-{str(last['type']).lower()}-attempt-{attempt}.log"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    body = _texts(runtime, session, parts)
    return StreamingResponse(body, media_type="text/plain; charset=utf-8", headers=headers)


async def _phases(runtime: Runtime, session: BrowserSession, job: int) -> list[Row]:
    """List a job after the plan with its number; a retry applies the plan of another run."""
    columns = "id,number,type,plan_job_id,attempt,created_at,log_day"
    query = Query(columns=columns, filters=(Filter("id", "eq", str(job)),), limit=1)
    rows = (await runtime.authorized.select(session, "provision_jobs", query)).rows
    if not rows or not rows[0]["plan_job_id"]:
        return rows
    of_plan = (Filter("id", "eq", str(rows[0]["plan_job_id"])), Filter("number", "eq", str(rows[0]["number"])))
    query = Query(columns=columns, filters=of_plan, limit=1)
    return [*(await runtime.authorized.select(session, "provision_jobs", query)).rows, *rows]


async def _texts(runtime: Runtime, session: BrowserSession, parts: list[Part]) -> AsyncIterator[str]:
    for title, filters, last in parts:
        if len(parts) > 1:
            yield f"--- {title} ---\n"
        for first in range(1, last + 1, DOWNLOAD_CHUNKS):
            rows = await _read(runtime, session, filters, first, min(last, first + DOWNLOAD_CHUNKS - 1))
            yield await asyncio.to_thread(pages.text, rows)


def pattern(words: str) -> str:
    """Write a regular expression that finds words also where a colour changes within them.

    Every character that could mean something is escaped, so the reader's text is only ever text.
    """
    return _COLOURS.join(char if char.isalnum() else f"\\{char}" for char in words)
