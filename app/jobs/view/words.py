"""The words of jobs: types, steps, sizes and the reason beside a status."""

from app.ui.view import Row

PHASE_WORDS = {
    "PREPARE": "Prepare",
    "FETCH": "Fetch source",
    "INPUTS": "Write inputs",
    "INIT": "Init",
    "PLAN": "Plan",
    "APPLY": "Apply",
    "DESTROY": "Destroy",
    "OUTPUT": "Output",
    "REPORT": "Report",
}
CANCEL_WORDS = {"AFTER_STEP": "Stops after this step", "GRACEFUL": "Stopping", "KILL": "Being killed"}
ACTIVE = frozenset({"AWAITING_APPROVAL", "QUEUED", "CLAIMED", "PROCESSING"})
RUNNING = frozenset({"CLAIMED", "PROCESSING"})
FINISHED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
ENGINE_WORDS = {"tofu": "OpenTofu", "terraform": "Terraform", "pulumi": "Pulumi", "terragrunt": "Terragrunt"}

_REASON_LENGTH = 80
_MOST_NAMED = 3
_DOING = {
    "create": "was being created", "update": "was being updated", "replace": "was being replaced",
    "delete": "was being deleted",
}  # fmt: skip


def size(count: int) -> str:
    """Format a number of bytes in the unit a person would use."""
    if count < 1_000:
        return f"{count} B"
    if count < 1_000_000:
        return f"{count / 1_000:.0f} KB"
    return f"{count / 1_000_000:.1f} MB"


def attempt(job: Row) -> str:
    """Format which try of how many this is; nothing before the first."""
    number = int(job.get("attempt") or 0)
    return f"{number} of {int(job.get('max_attempts') or 1)}" if number else ""


def changes(summary: Row | None) -> tuple[int, int, int] | None:
    """Count what a plan adds, changes and destroys; a replacement counts on both sides."""
    if not summary:
        return None
    counts = {name: int(summary.get(name) or 0) for name in ("create", "update", "replace", "delete")}
    return (counts["create"] + counts["replace"], counts["update"], counts["delete"] + counts["replace"])


def reason(job: Row) -> str:
    """Explain a job's status; empty when the badge is enough."""
    speaks = {
        "NEEDS_ATTENTION": _of_error,
        "AWAITING_APPROVAL": _of_approval,
        "QUEUED": _of_queue,
        "CLAIMED": _of_run,
        "PROCESSING": _of_run,
        "SUCCEEDED": _of_success,
        "FAILED": _of_error,
        "CANCELLED": _of_cancel,
    }.get(str(job.get("status")))
    return _short(speaks(job)) if speaks else ""


def _of_error(job: Row) -> str:
    error = job.get("error") or {}
    return str(error.get("message") or "")


def _of_approval(job: Row) -> str:
    if not job.get("approvals_required"):
        return "Plan to confirm"
    return f"{job.get('approvals_received') or 0} of {job.get('approvals_required') or 0} approvals"


def _of_queue(job: Row) -> str:
    if job.get("is_quarantined"):
        return "Held back: it took down two runners"
    number = int(job.get("attempt") or 0)
    return f"Attempt {number} was lost, it starts again" if number else ""


def _of_run(job: Row) -> str:
    asked = CANCEL_WORDS.get(str(job.get("cancel_kind")))
    if asked:
        return asked
    phase = PHASE_WORDS.get(str(job.get("phase")), "")
    done, total = progress(job)
    is_counted = total and job.get("phase") in ("APPLY", "DESTROY")
    return f"{phase}, {done} of {total}" if is_counted else phase


def _of_success(job: Row) -> str:
    summary = job.get("plan_summary") or {}
    found = sum(changes(summary) or (0,))
    if job.get("type") != "DRIFT" or not summary:
        return "No changes" if summary and not found else ""
    return f"Drift in {found} {'resource' if found == 1 else 'resources'}" if found else "No drift"


def _of_cancel(job: Row) -> str:
    who = job.get("cancel_requested_by")
    return f"By {who}" if who else _of_error(job)


def progress(job: Row) -> tuple[int, int]:
    """Count the resources an apply has finished, of those it will change."""
    resources = (job.get("plan_summary") or {}).get("resources") or []
    touched = [item for item in resources if item.get("action") not in ("read", "no-op", "no_op")]
    return sum(item.get("status") == "SUCCEEDED" for item in touched), len(touched)


def left(job: Row) -> str:
    """Count the changes that a job has done, and name the resources in the middle of theirs."""
    done, total = progress(job)
    if not total or job.get("phase") not in ("APPLY", "DESTROY"):
        return ""
    resources = (job.get("plan_summary") or {}).get("resources") or []
    begun = [item for item in resources if item.get("status") in ("RUNNING", "FAILED")]
    named = [f"{item.get('address')} {_DOING.get(str(item.get('action')), 'was being changed')}" for item in begun]
    more = [f"{len(named) - _MOST_NAMED} more had begun"] if len(named) > _MOST_NAMED else []
    return "; ".join([f"{done} of {total} changes done", *named[:_MOST_NAMED], *more])


def _short(text: str) -> str:
    first = text.strip().split("\n", 1)[0]
    sentence = first.split(". ", 1)[0].rstrip(".")
    return sentence if len(sentence) <= _REASON_LENGTH else sentence[: _REASON_LENGTH - 1].rstrip() + "…"
