"""The sessions of a person: each browser in words."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypedDict

from app.project.models import KeptSession

# The first that is found names it: nearly every browser also calls itself by the names of those below.
BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
)
UNKNOWN = "Unknown browser"


class SessionView(TypedDict):
    """A session as the table shows it; its key lets nobody in."""

    key: str
    device: str
    created_at: str
    last_used_at: str
    is_this: bool


def device_of(user_agent: str) -> str:
    """Name the browser and its system: 'Firefox on Linux'."""
    browser, system = _first(BROWSERS, user_agent) or UNKNOWN, _first(SYSTEMS, user_agent)
    return f"{browser} on {system}" if system else browser


def _first(names: tuple[tuple[str, str], ...], user_agent: str) -> str:
    return next((name for mark, name in names if mark in user_agent), "")


def build_views(found: Iterable[KeptSession], this: str) -> list[SessionView]:
    """Show this one first, then what was used last."""
    ordered = sorted(found, key=lambda kept: (kept.key != this, -kept.last_used_at))
    return [
        {
            "key": kept.key,
            "device": device_of(kept.session.user_agent),
            "created_at": _moment(kept.session.created_at),
            "last_used_at": _moment(kept.last_used_at),
            "is_this": kept.key == this,
        }
        for kept in ordered
    ]


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
