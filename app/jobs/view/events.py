"""An icon and a word for each event of a job that the database records; its reason and who did it in words."""

from app.jobs.view.words import PHASE_WORDS

JOB_EVENTS: dict[str, tuple[str, str]] = {
    "enqueued": ("plus", "Requested"),
    "approved": ("hand", "Approved"),
    "confirmed": ("hand", "Confirmed"),
    "check_overridden": ("hand", "Check overridden"),
    "outdated": ("ban", "Out of date"),
    "approval": ("hand", "Approved"),
    "rejected": ("ban", "Discarded"),
    "approval_expired": ("ban", "Approval expired"),
    "claimed": ("circle-dot", "Claimed"),
    "started": ("play", "Started"),
    "returned": ("undo-2", "Returned to the queue before it started"),
    "lost": ("unplug", "Runner lost"),
    "attention": ("triangle-alert", "Runner lost during the change"),
    "exhausted": ("circle-x", "Runner lost, and no attempt is left"),
    "quarantined": ("circle-x", "Quarantined: two runners were lost with it"),
    "succeeded": ("circle-check", "Succeeded"),
    "failed": ("circle-x", "Failed"),
    "cancelled": ("ban", "Cancelled"),
    "cancel_requested": ("square", "Stop requested"),
    "log_mismatch": ("triangle-alert", "Log incomplete"),
    "late_report": ("inbox", "Late report recorded, not applied"),
    "retried": ("rotate-cw", "Run again"),
    "retried_as": ("rotate-cw", "Run again as a new job"),
    "marked_failed": ("circle-x", "Marked as failed"),
    "resolved": ("check", "Decided"),
    "lock_released": ("lock-open", "State lock released"),
    "state_kept": ("history", "A state was not stored"),
    "resumed": ("play", "Runner back in contact"),
}
# A person's decisions about a lost job.
DECISIONS = {
    "refresh_plan": "Check requested",
    "retry": "Run again",
    "mark_failed": "Marked as failed",
    "release_lock": "State lock released",
}
# How a job is stopped; nothing was stopped where it still waited.
CANCEL_REASON = {"AFTER_STEP": "After this step", "GRACEFUL": "Stop now", "KILL": "Kill"}


def reason_words(name: str, reason: str, who: str) -> str:
    """Put the reason of an event into words: a decision, a phase, a process of another name than its runner."""
    if name == "claimed":
        place = reason.removeprefix("Instance ")
        return f"on {place}" if place not in ("", who) else ""
    return {"resolved": DECISIONS, "phase": PHASE_WORDS}.get(name, {}).get(reason, reason)


def actor_words(label: object) -> str:
    """Name who did it; what the database does on its own is Runyard's."""
    return "Runyard" if label == "system" else str(label or "")
