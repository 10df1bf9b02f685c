"""The rows of the runners table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from app.jobs.view.words import ENGINE_WORDS
from app.runners.view.events import say_reason
from app.ui.view import Row, capitalised, count, duration, read

PREPARING = "being prepared"


class InstanceRow(TypedDict):
    id: str
    name: str
    host: str
    status: str
    why: str
    version: str
    capacity: int
    is_last: bool


class Condition(TypedDict):
    code: str
    word: str
    text: str


class RunnerRow(TypedDict):
    """A runner as the table shows it; load and last seen come with heartbeats (see Pulse)."""

    id: str
    name: str
    type: str
    region: str
    labels: list[str]
    status: str
    rest: str
    is_silent: bool
    why: str
    health: list[Condition]
    version: str
    is_outdated: bool
    created_at: str
    facts: str
    instance_count: int
    is_shared: bool
    is_disabled: bool
    is_draining: bool
    is_cloud: bool
    action: str


class Pulse(TypedDict):
    """The values that change with every heartbeat: apart from the rows, so that a heartbeat does not send whole rows."""

    at: str
    used: int
    capacity: int


class Counts(TypedDict):
    """The number of runners that each filter would show."""

    all: int
    ONLINE: int
    DRAINING: int
    OFFLINE: int


def read_counts(counts: Mapping[str, int]) -> Counts:
    return read(Counts, counts, all=sum(counts.get(status) or 0 for status in ("ONLINE", "DRAINING", "OFFLINE")))


def is_starting(worker: Row) -> bool:
    """Return whether a cloud-hosted runner was woken and has not connected yet."""
    return worker["status"] == "OFFLINE" and worker.get("status_reason") == "Starting"


# How the database's reason begins when a runner could not sign in, no matter who started it.
NO_CREDENTIAL = "No usable"


def rest_of(worker: Row) -> str:
    """Name why a runner is offline where nothing is wrong: it sleeps, it starts, or nobody has started it."""
    is_refused = str(worker.get("status_reason") or "").startswith(NO_CREDENTIAL)
    rests = {
        "asleep": worker.get("is_scaled_to_zero"),
        "starting": is_starting(worker),
        "new": worker.get("never_contacted") and not is_refused,
    }
    return next((name for name, is_so in rests.items() if is_so), "")


# Out of contact: how long counts up beside it, so the sentence itself has no number.
SILENT = "No heartbeat"
CONDITIONS = {
    "never_contacted": "Never contacted",
    "out_of_contact": "Out of contact",
    "degraded": "Degraded",
    "clock_off": "Clock off",
    "takes_no_jobs": "Takes no jobs",
    "outdated": "Outdated",
    "not_isolated": "Not isolated",
}


def current(worker: Row) -> Row:
    """A listed runner by its heartbeats: its row follows only after a sweep."""
    if worker.get("live_status") != "OFFLINE" or worker["status"] == "OFFLINE":
        return worker
    return {**worker, "status": "OFFLINE", "status_reason": SILENT}


def is_silent(worker: Row) -> bool:
    """Return whether a runner went silent without a reason."""
    return worker["status"] == "OFFLINE" and str(worker.get("status_reason") or "").startswith(SILENT)


def clock_words(worker: Row) -> str:
    """Describe how far a runner's clock is off, and to which side."""
    off = int(worker.get("clock_off") or 0)
    return f"{duration(abs(off))} {'ahead' if off > 0 else 'behind'}"


def conditions(worker: Row) -> list[Condition]:
    """Describe what is wrong with a runner, and what that means for jobs; the status shows the rest."""
    texts = {
        "degraded": str(worker.get("health_reason") or "").rstrip("."),
        "clock_off": clock_words(worker),
        "takes_no_jobs": "Jobs that it may take have waited for 2 min",
        "outdated": str(worker.get("version") or ""),
        "not_isolated": "Jobs run without a sandbox",
    }
    return [
        {"code": code, "word": CONDITIONS[code], "text": texts[code]}
        for code in map(str, worker.get("health") or [])
        if code in texts
    ]


def why(worker: Row, job_count: int = 0, note: str = "") -> str:
    """Explain a runner's status; of an online one, why it lacks its engines, if it does."""
    status = worker["status"]
    if status == "DRAINING" or worker.get("is_draining"):
        left = f"{count(job_count, 'job')} left" if job_count else "no running jobs"
        return ", ".join(part for part in (worker.get("drain_reason"), left) if part)
    if worker.get("is_disabled"):
        return "Disabled, takes no new jobs"
    if status != "OFFLINE":
        return note
    if worker.get("is_scaled_to_zero"):
        return "Starts on the next job"
    if is_starting(worker):
        return "Woken, waiting for its first heartbeat"
    reason = str(worker.get("status_reason") or "")
    if rest_of(worker):
        return CONDITIONS["never_contacted"]
    return capitalised(SILENT if is_silent(worker) else say_reason(reason))


def likely_action(worker: Row, is_outdated: bool) -> str:
    """Name the one action that stands in the row; the others are in its menu."""
    if worker.get("is_shared"):
        return ""
    if worker.get("is_disabled"):
        return "enable"
    if worker.get("is_draining"):
        return "resume"
    # One that sleeps or starts comes online without help.
    is_absent = worker["status"] == "OFFLINE" and not (worker.get("is_scaled_to_zero") or is_starting(worker))
    if worker["type"] == "cloud-hosted" and is_absent:
        return "deploy"
    return "update" if is_outdated else ""


def build_row(listed: Row) -> RunnerRow:
    """Make the table's row of one runner that list_runners answered."""
    worker = current(listed)
    processes = [row for row in worker.get("processes") or [] if isinstance(row, Mapping)]
    is_outdated = "outdated" in (worker.get("health") or [])
    is_degraded = "degraded" in (worker.get("health") or [])
    reason = why(worker, int(worker.get("used") or 0), "" if is_degraded else engine_note(processes))
    parts = (worker["type"], worker.get("region"), worker.get("version"), reason)
    return read(
        RunnerRow,
        worker,
        region=worker.get("region") or "–",
        labels=[str(label) for label in worker.get("labels") or []],
        rest=rest_of(worker),
        is_silent=is_silent(worker),
        why=reason,
        health=conditions(worker),
        version=worker.get("version") or "–",
        is_outdated=is_outdated,
        facts=" · ".join(str(part) for part in parts if part),
        instance_count=len(processes),
        is_cloud=worker["type"] == "cloud-hosted",
        action=likely_action(worker, is_outdated),
    )


def engines_of(instance: Row) -> str:
    """List the engines that an instance found: terraform 1.5.7, tofu 1.12.6 and 1.9.1."""
    engines = instance.get("engines") or {}
    return ", ".join(f"{name} {versions(found)}" for name, found in sorted(engines.items()) if found)


def versions(found: str | list[str]) -> str:
    """List the versions of an engine: one, or several side by side."""
    return found if isinstance(found, str) else " and ".join(found)


def say_note(instance: Row) -> str:
    """Describe what an instance reports of its engines, by their full names: OpenTofu is being prepared, 40 %."""
    note = str(instance.get("engine_note") or "")
    engine, found, rest = note.partition(" ")
    return f"{ENGINE_WORDS.get(engine, engine.capitalize())}{found}{rest}"


def engine_note(instances: Sequence[Row]) -> str:
    """Explain why a runner's connected instances lack an engine; empty when they do not."""
    note = next((note for note in map(say_note, instances) if note), "")
    is_idle = note and not any(instance.get("engines") for instance in instances)
    return f"{note}; its jobs wait for that" if is_idle and PREPARING in note else note


def preparing(instances: Sequence[Row]) -> str:
    """Name the engine that is being prepared, with its progress; empty when none is."""
    return next((note for note in map(say_note, instances) if PREPARING in note), "")


def instance_why(instance: Row) -> str:
    """Describe an instance: its engines, or why it lacks them."""
    if instance.get("status") == "OFFLINE":
        return str(instance.get("last_error") or "")
    return say_note(instance) or engines_of(instance) or "No engine found yet"


def build_instances(instances: Iterable[Row]) -> list[InstanceRow]:
    ordered = sorted(instances, key=lambda row: str(row["name"]).casefold())
    return [
        read(
            InstanceRow,
            row,
            host=row.get("hostname") or "–",
            why=instance_why(row),
            version=row.get("version") or "–",
            is_last=at == len(ordered) - 1,
        )
        for at, row in enumerate(ordered)
    ]


def is_connected(instance: Row) -> bool:
    return instance.get("status") != "OFFLINE"


def read_pulses(listed: Row) -> dict[str, Pulse]:
    """Read last seen and load of a listed runner and of its processes."""
    worker = current(listed)
    is_there = worker["status"] != "OFFLINE"
    of_runner = {
        "at": worker.get("last_seen_at") or worker.get("left_at"),
        "used": worker.get("used"),
        "capacity": worker.get("slots"),
    }
    pulses = {str(worker["id"]): _pulse(of_runner, is_there)}
    for key, pulse in (worker.get("pulses") or {}).items():
        pulses[str(key)] = _pulse(pulse, is_there)
    return pulses


def _pulse(row: Row, is_there: bool) -> Pulse:
    """Read one; nobody can use the slots of a runner that is not there."""
    return read(Pulse, row if is_there else {"at": row.get("at")})
