"""An icon and a word for each event of a runner that the database records."""

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
    """Explain why a runner is away without repeating that it is."""
    return reason.removeprefix("Stopped: ")
