"""What belongs to a job's row: the plan that it applies, who looked after it, what was said, which states were kept."""

from app.frame.session import OPERATORS, AppState
from app.jobs.view import detail, kept_states, reviews
from app.project.models import Filter, Query, Row

CHANGING = ("APPLY", "DESTROY")
MOST_COMMENTS = 200


async def read_plan(page: AppState, job: Row) -> Row:
    """Read the plan that a job applies: until it runs, that is what there is to see of it."""
    if not job.get("plan_job_id"):
        return {}
    it = (Filter("id", "eq", str(job["plan_job_id"])),)
    rows = (await page._select("provision_jobs", Query(filters=it, limit=1))).rows
    return rows[0] if rows else {}


async def read_own_rule(page: AppState, job: Row) -> str:
    """Say what keeps who looks from approving: "" nothing; "others" having requested it; "alone" that too, but a reason will do."""
    me = await page._who()
    is_asked = job.get("status") == "AWAITING_APPROVAL" and int(job.get("approvals_required") or 0) > 0
    if not is_asked or not me.user_id or str(job.get("created_by") or "") != me.user_id:
        return ""
    org = Query(columns="can_approve_own_jobs", filters=(Filter("id", "eq", me.org_id),), limit=1)
    rows = (await page._select("organizations", org)).rows
    if rows and rows[0]["can_approve_own_jobs"]:
        return ""
    may_approve = Filter("role", "in", f"({','.join(sorted(OPERATORS))})")
    filters = (Filter("org_id", "eq", me.org_id), Filter("user_id", "neq", me.user_id), may_approve)
    others = await page._select("memberships", Query(columns="user_id", filters=filters, limit=1))
    return "others" if others.rows else "alone"


async def read_comments(page: AppState, job: Row) -> list[reviews.Comment]:
    """Read what members said about a job."""
    rows = (await page._select("job_comments", Query(filters=(of_run(job),), order="id", limit=MOST_COMMENTS))).rows
    return [reviews.comment(row) for row in rows]


async def read_check(page: AppState, job: Row) -> int:
    """Name the job that looked at what this one left behind; 0 when none did."""
    if job.get("type") not in CHANGING or not job.get("module_id"):
        return 0
    of_module = Filter("module_id", "eq", str(job["module_id"]))
    inspecting = Filter("payload->options->>inspects", "eq", str(job["id"]))
    query = Query(columns="number", filters=(of_module, inspecting), order="id", is_descending=True, limit=1)
    rows = (await page._select("provision_jobs", query)).rows
    return int(rows[0]["number"]) if rows else 0


def of_run(job: Row) -> Filter:
    """Select what belongs to a job and to the plan that it applies."""
    return Filter("job_id", "in", f"({','.join(str(one) for one in (job['id'], job.get('plan_job_id')) if one)})")


async def read_numbers(page: AppState, job: Row) -> dict[str, int]:
    """Read the numbers of the jobs that a job's facts lead to, by their ids."""
    ids = ",".join(sorted(set(detail.named_jobs(job).values())))
    if not ids:
        return {}
    query = Query(columns="id,number", filters=(Filter("id", "in", f"({ids})"),))
    return {str(row["id"]): int(row["number"]) for row in (await page._select("provision_jobs", query)).rows}


async def read_kept(page: AppState, job: Row) -> list[kept_states.KeptState]:
    """Read which states of a job were not stored; only what changes things writes any."""
    if not job.get("module_id") or job.get("type") not in CHANGING:
        return []
    return kept_states.build(await page._rpc("kept_states", {"p_job": int(job["id"])}))
