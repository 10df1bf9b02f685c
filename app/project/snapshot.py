"""Reads and receives an organisation's live rows: the few that are kept whole, and single rows."""

import asyncio

from app.project.authorized_client import AuthorizedClient
from app.project.models import BrowserSession, Filter, Query, Row
from app.project.realtime_client import Binding

JOB_COLUMNS = (
    "id,org_id,number,type,status,phase,module_id,module_path,group_path,target_worker_id,target_identity_id,"
    "pinned_worker_id,pinned_instance_name,labels,priority,attempt,max_attempts,worker_id,"
    "worker_name,instance_id,instance_name,cancel_kind,cancel_requested_at,cancel_requested_by,steps,"
    "plan_summary,error,approvals_required,approvals_received,approval_deadline_at,"
    "needs_confirmation,message,plan_job_id,is_followed,"
    "retry_of,rollout_id,is_quarantined,last_log_seq,not_before_at,created_by,created_by_label,"
    "created_at,queued_at,claimed_at,started_at,finished_at,updated_at"
)
# Frozen at enqueue and large: read by the job's page, never kept for everybody.
HEAVY_COLUMNS = frozenset({"payload", "result", "late_report"})
WAKE_UPS = ("log", "changed")


def bindings_of(org_id: str) -> tuple[Binding, ...]:
    """Name the postgres_changes an organisation's channel listens to."""
    mine, shared = f"org_id=eq.{org_id}", "is_shared=eq.true"
    return (
        Binding("workers", mine),
        Binding("workers", shared),
        Binding("worker_instances", mine),
        Binding("worker_instances", shared),
        Binding("provision_jobs", mine),
        Binding("rollouts", mine),
        Binding("worker_releases"),
    )


def slim(row: Row) -> Row:
    """Leave out what only one page reads."""
    return {key: value for key, value in row.items() if key not in HEAVY_COLUMNS}


def _queries(org_id: str) -> list[tuple[str, Query]]:
    mine = (Filter("org_id", "eq", org_id),)
    return [
        ("worker_releases", Query(order="published_at", is_descending=True, limit=200)),
        ("rollouts", Query(filters=mine, order="created_at", is_descending=True, limit=20)),
    ]


async def read_snapshot(authorized: AuthorizedClient, session: BrowserSession, org_id: str) -> dict[str, list[Row]]:
    """Read the tables that are held whole, as this member sees them."""
    queries = _queries(org_id)
    pages = await asyncio.gather(*(authorized.select(session, table, query) for table, query in queries))
    snapshot: dict[str, list[Row]] = {}
    for (table, _), page in zip(queries, pages, strict=True):
        snapshot.setdefault(table, []).extend(page.rows)
    return snapshot


async def read_row(authorized: AuthorizedClient, session: BrowserSession, table: str, row_id: str) -> Row | None:
    """Read one row again, when its change arrived without all of its columns."""
    columns = JOB_COLUMNS if table == "provision_jobs" else "*"
    query = Query(columns=columns, filters=(Filter("id", "eq", row_id),), limit=1)
    page = await authorized.select(session, table, query)
    return page.rows[0] if page.rows else None
