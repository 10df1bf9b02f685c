"""The content of a runner's own page, built from rows alone."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from app.runners.view.curves import NO_CURVE, Curve, smooth
from app.runners.view.events import RUNNER_EVENTS, say_reason
from app.runners.view.rows import engines_of, say_note
from app.ui.view import Row, count, duration, parse_time, read

TICK = timedelta(minutes=15)
TICKS = 96
LOG_LINES = 30


class InstanceDetail(TypedDict):
    id: str
    name: str
    host: str
    engines: str
    status: str
    capacity: int
    connected_at: str
    epoch: int
    error: str
    isolation: str


class Assignment(TypedDict):
    path: str
    kind: str
    icon: str


class TokenRow(TypedDict):
    """A token: never more than its hint."""

    id: str
    hint: str
    word: str
    is_live: bool
    last_used_at: str
    ends_at: str
    created_at: str


class EventRow(TypedDict):
    id: str
    name: str
    at: str
    icon: str
    text: str
    by: str


class Strip(TypedDict):
    """Twenty-four hours: a mark for each quarter of an hour, and the load on the same axis."""

    marks: list[str]
    load: Curve
    words: str
    axis: list[str]


NO_STRIP: Strip = {"marks": [], "load": NO_CURVE, "words": "", "axis": []}


def build_instances(instances: Iterable[Row]) -> list[InstanceDetail]:
    ordered = sorted(instances, key=lambda row: (row["status"] == "OFFLINE", str(row["name"]).casefold()))
    return [
        read(
            InstanceDetail,
            row,
            host=row.get("hostname") or "–",
            engines=say_note(row) or engines_of(row) or "–",
            error=_trouble(row),
            isolation=ISOLATION.get(str((row.get("facts") or {}).get("isolation")), "–"),
        )
        for row in ordered
    ]


# How far the processes of a job are kept from their runner and from each other, in the words of its heartbeat.
ISOLATION = {
    "bubblewrap": "Sandbox (bubblewrap)",
    "namespaces": "Sandbox (namespaces)",
    "user": "A user per job",
    "landlock": "Files only (Landlock)",
    "container": "A container per job",
    "none": "Not isolated",
    "off": "Switched off",
}


class LogLine(TypedDict):
    """A warning or an error that a process of the runner reported."""

    key: str
    at: str
    instance: str
    level: str
    text: str


def build_log(instances: Iterable[Row]) -> list[LogLine]:
    """List the newest problems of all processes, the newest first."""
    lines = [
        read(LogLine, line, key=f"{row['id']}-{place}", instance=row["name"])
        for row in instances
        for place, line in enumerate(_lines(row))
    ]
    return sorted(lines, key=lambda line: line["at"], reverse=True)[:LOG_LINES]


def _lines(row: Row) -> list[Row]:
    """Read what a process reported; it may be of any shape."""
    lines = (row.get("facts") or {}).get("log")
    return [line for line in lines if isinstance(line, Mapping)] if isinstance(lines, list) else []


def _trouble(row: Row) -> str:
    """Describe why an instance cannot work: it is degraded, or its last error."""
    degraded = (row.get("facts") or {}).get("degraded")
    reason = degraded.get("reason") if isinstance(degraded, Mapping) else None
    return str(reason or row.get("last_error") or "")


def sentence(worker: Row, connected: int) -> str:
    """Describe in one sentence how this runner works."""
    if worker.get("is_shared"):
        return (
            "Serves every organisation where no nearer runner does. Only the installation's configuration changes it."
        )
    if connected > 1:
        return f"{count(connected, 'instance')} of one runner. Jobs go to whichever answers first."
    if worker["type"] == "cloud-hosted":
        return "Deployed in your cloud account. It can sleep when nothing is queued."
    return "Runs on a machine of yours, with the permissions of its host."


def cloud_rights(worker: Row) -> tuple[str, str]:
    """Name the role of a cloud-hosted runner's jobs in AWS, and what it permits; empty where nothing is deployed."""
    cloud = worker.get("cloud") or {}
    given = str((cloud.get("task") or {}).get("task_role_arn") or "")
    if given:
        return given, "Jobs may do what this role may: it was given with the deployment."
    own = str(cloud.get("task_role_arn") or "")
    return own, own and "Jobs may protect their own task, and do what was attached to this role by hand."


def build_assignments(rows: Iterable[Row]) -> list[Assignment]:
    return [_assignment(row) for row in rows]


def _assignment(row: Row) -> Assignment:
    path = str(row["path"])
    if row["is_module"]:
        return {"path": path, "kind": "Module", "icon": "module"}
    return {"path": path, "kind": f"Group, {count(int(row['modules']), 'module')}", "icon": "group"}


def build_tokens(rows: Iterable[Row]) -> list[TokenRow]:
    """List tokens; the one in use is the live one that was used last, whatever was made after it."""
    tokens = list(rows)
    used = [row for row in tokens if row.get("is_live") and parse_time(row.get("last_used_at"))]
    newest = max(used, key=lambda row: str(row["last_used_at"]), default=None)
    return [_token(row, is_in_use=row is newest) for row in tokens]


def _token(row: Row, *, is_in_use: bool) -> TokenRow:
    is_live, last_used = bool(row.get("is_live")), str(row.get("last_used_at") or "")
    waiting = "old" if last_used else "new, not used yet"
    return read(
        TokenRow,
        row,
        word="in use" if is_in_use else waiting if is_live else "ended",
        is_live=is_live,
        last_used_at=last_used,
        ends_at=row.get("revoked_at") or row.get("expires_at") or "",
    )


def say_revocation(token: TokenRow, connected: int, jobs: int) -> str:
    """Describe what stops when a token is revoked: the processes it connected, and their jobs."""
    if token["word"] == "new, not used yet" or not connected:
        return "Nothing is connected with it now. A runner that starts with it later is refused."
    stops = f"{count(connected, 'instance')} {'is' if connected == 1 else 'are'} connected with this token and "
    stops += "stops now" if connected == 1 else "stop now"
    if token["word"] == "old":
        stops = f"Instances that still use this token stop now ({connected} connected in all)"
    lost = f", and {count(jobs, 'running job')} {'is' if jobs == 1 else 'are'} lost" if jobs else ""
    return f"{stops}{lost}. This cannot be undone."


# The database's word for a runner that has nothing to say.
READY = "Ready"


def build_events(rows: Iterable[Row]) -> list[EventRow]:
    return [_event(row) for row in rows]


def _event(row: Row) -> EventRow:
    name = str(row["event"])
    icon, words = RUNNER_EVENTS.get(name, ("info", name.replace("_", " ").capitalize()))
    instance = str(row.get("instance_name") or "")
    reason, by = _split_reason(say_reason(str(row.get("reason") or "")))
    text = f"{instance} {words}" if instance else words
    return read(EventRow, row, name=name, icon=icon, text=text if reason in ("", READY) else f"{text}: {reason}", by=by)


def _split_reason(reason: str) -> tuple[str, str]:
    """Separate the person in 'Registered by ops@example.com' from the rest, so that the name has its own column."""
    at = reason.lower().rfind("by ")
    before, found, by = (reason[:at], "by ", reason[at + 3 :]) if at >= 0 else (reason, "", "")
    is_only_who = found and before.strip().lower() in ("", "registered", "rotated", "revoked", "removed")
    return ("", by) if is_only_who else (reason, "")


def build_strip(quarters: Iterable[Row], since: datetime | None, now: datetime | None = None) -> Strip:
    """Make the last 24 hours of worker_history(); hours before it was registered stay blank."""
    now = now or datetime.now(UTC)
    by_start = {parse_time(str(row["at"])): row for row in quarters}
    last = now.replace(minute=now.minute // 15 * 15, second=0, microsecond=0)
    starts = [last - TICK * at for at in range(TICKS - 1, -1, -1)]
    marks = [_mark(by_start.get(start), start, since) for start in starts]
    loads = [_load(by_start.get(start), mark) for start, mark in zip(starts, marks, strict=True)]
    axis = [f"{start:%H:%M}" for start in starts[:: TICKS // 6]]
    return {
        "marks": marks,
        "load": smooth(loads, width=900, height=84, top=18, bottom=2, ceiling=1.0),
        "words": _strip_words(marks),
        "axis": axis,
    }


def _load(quarter: Row | None, mark: str) -> float | None:
    """Return the load in a quarter of an hour; None before the runner existed, when nothing is known."""
    return None if mark == "z" and quarter is None else float((quarter or {}).get("load") or 0)


def _mark(quarter: Row | None, start: datetime, since: datetime | None) -> str:
    if quarter is None or not quarter.get("heartbeats"):
        is_before = since is None or start + TICK <= since
        return "z" if is_before else "o"
    if quarter.get("status") == "DRAINING":
        return "d"
    if quarter.get("status") == "ASLEEP":
        return "z"
    return "o" if quarter.get("status") == "OFFLINE" else ""


def _strip_words(marks: Sequence[str]) -> str:
    known = [mark for mark in marks if mark != "z"]
    if not known:
        return "Nothing is known yet"
    online = sum(mark != "o" for mark in known)
    outages = [
        run for run in "".join(mark or "-" for mark in marks).replace("d", "-").replace("z", "-").split("-") if run
    ]
    # An absence of a minute does not show in a quarter of an hour, so a percentage would promise too much.
    said = f"Online in {online} of {len(known)} quarter hours"
    if not outages:
        return said
    longest = duration(max(map(len, outages)) * TICK.total_seconds()).removesuffix(" 00 s")
    return (
        f"{said}, 1 outage of {longest}" if len(outages) == 1 else f"{said}, {len(outages)} outages, longest {longest}"
    )
