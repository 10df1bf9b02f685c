"""What is said of events: an icon and a word for each that the database records."""

JOB_EVENTS: dict[str, tuple[str, str]] = {
    "enqueued": ("plus", "Requested"),
    "approved": ("hand", "Approved"),
    "confirmed": ("hand", "Confirmed"),
    "outdated": ("ban", "Out of date"),
    "approval": ("hand", "Approved"),
    "rejected": ("ban", "Rejected"),
    "approval_expired": ("ban", "Approval expired"),
    "claimed": ("circle-dot", "Claimed"),
    "started": ("play", "Started"),
    "returned": ("undo-2", "Returned to the queue before it started"),
    "lost": ("unplug", "The runner was lost"),
    "attention": ("triangle-alert", "The runner was lost while it was changing things"),
    "exhausted": ("circle-x", "The runner was lost and no attempt was left"),
    "quarantined": ("circle-x", "Taken out: it took down two runners"),
    "succeeded": ("circle-check", "Succeeded"),
    "failed": ("circle-x", "Failed"),
    "cancelled": ("ban", "Cancelled"),
    "cancel_requested": ("square", "Stop requested"),
    "log_mismatch": ("triangle-alert", "Log incomplete"),
    "late_report": ("inbox", "Late report kept, not believed"),
    "retried": ("rotate-cw", "Run again"),
    "retried_as": ("rotate-cw", "Run again as a new job"),
    "marked_failed": ("circle-x", "Marked as failed"),
    "resolved": ("check", "Decided"),
    "lock_released": ("lock-open", "State lock released"),
    "state_kept": ("history", "A state was not stored"),
    "resumed": ("play", "The runner is back"),
}
RUNNER_EVENTS: dict[str, tuple[str, str]] = {
    "registered": ("plus", "Registered"),
    "connected": ("plug", "connected"),
    "disconnected": ("unplug", "disconnected"),
    "online": ("wifi", "Online"),
    "offline": ("wifi-off", "Offline"),
    "draining": ("log-out", "Draining"),
    "drained": ("log-out", "Drain requested"),
    "resumed": ("play", "Takes jobs again"),
    "disabled": ("circle-pause", "Disabled"),
    "enabled": ("circle-play", "Enabled"),
    "sessions_ended": ("unplug", "Disconnected by the administrator"),
    "token_rotated": ("key-round", "Token rotated"),
    "token_revoked": ("key-round", "Token revoked"),
    "removed": ("trash-2", "Removed"),
    "updated": ("circle-arrow-up", "Updated"),
    "assigned": ("folder-tree", "Assigned"),
    "unassigned": ("folder-tree", "No longer assigned"),
}


def say_reason(reason: str) -> str:
    """Say why a runner is away without saying twice that it is."""
    return reason.removeprefix("Stopped: ")
