"""A module's state as the page lists it: who has it locked, with proof, and its versions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.jobs.view.words import size
from app.ui.view import Row

MAX_VERSIONS = 20


@dataclass(frozen=True)
class Version:
    serial: int
    at: str
    writer: str
    resources: int
    size: str
    is_oldest: bool = False


@dataclass(frozen=True)
class StateView:
    """The state; `lock_job` and `lock_attempt` are the proof of whose lock it is, `lock_id` is the engine's own."""

    is_known: bool = False
    # -1 while there is none: 0 is a serial.
    serial: int = -1
    updated_at: str = ""
    # The version that this job wrote last.
    own_serial: int = 0
    own_at: str = ""
    is_locked: bool = False
    lock_id: str = ""
    lock_job: int = 0
    lock_attempt: int = 0
    lock_who: str = ""
    lock_at: str = ""
    versions: tuple[Version, ...] = ()


def build(answer: object, job_id: int = 0) -> StateView:
    """Read what state_info answered; `job_id` is the job whose own version is shown."""
    if not isinstance(answer, Mapping):
        return StateView()
    lock = answer.get("lock")
    held = lock if isinstance(lock, Mapping) else {}
    info = held.get("info") if isinstance(held.get("info"), Mapping) else held
    versions = [row for row in answer.get("versions") or [] if isinstance(row, Mapping)]
    own = next((row for row in versions if job_id and _number(row.get("job_id")) == job_id), {})
    return StateView(
        is_known=True,
        own_serial=_number(own.get("serial")),
        own_at=str(own.get("created_at") or ""),
        serial=_number(answer["serial"]) if answer.get("serial") is not None else -1,
        updated_at=str(answer.get("updated_at") or ""),
        is_locked=bool(held),
        lock_id=_text(held, info, "lock_id", "ID", "id"),
        lock_job=_number(held.get("job_number")),
        lock_attempt=_number(held.get("attempt")),
        lock_who=_text(held, info, "who", "Who"),
        lock_at=_text(held, info, "locked_at", "created_at", "Created"),
        versions=_versions(versions[:MAX_VERSIONS]),
    )


def _versions(rows: Sequence[Row]) -> tuple[Version, ...]:
    oldest = min((_number(row.get("serial")) for row in rows), default=0)
    return tuple(_version(row, oldest) for row in rows)


def _version(row: Row, oldest: int) -> Version:
    return Version(
        serial=_number(row.get("serial")),
        at=str(row.get("created_at") or row.get("at") or ""),
        writer=f"pushed by {row['written_by']}" if row.get("written_by") else f"#{_number(row.get('job_number'))}",
        resources=_number(row.get("resources") or row.get("resource_count")),
        size=size(_number(row.get("bytes") or row.get("size"))),
        is_oldest=_number(row.get("serial")) == oldest,
    )


def _text(held: Row, info: object, *names: str) -> str:
    places = [held, info if isinstance(info, Mapping) else {}]
    return next((str(place[name]) for place in places for name in names if place.get(name)), "")


def _number(value: object) -> int:
    return int(value) if isinstance(value, (int, str)) and str(value).isdigit() else 0
