"""A module's state as the page lists it: who has it locked, with proof, and its versions."""

from dataclasses import dataclass

from app.jobs.view.words import size
from app.ui.view import Row, read

MAX_VERSIONS = 20


@dataclass(frozen=True)
class Version:
    serial: int
    at: str
    writer: str
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


def build(answer: Row | None, job_id: int = 0) -> StateView:
    """Read what state_info answered; `job_id` is the job whose own version is shown."""
    if answer is None:
        return StateView()
    lock, versions = answer.get("lock") or {}, answer.get("versions") or []
    own: Row = next((row for row in versions if job_id and row.get("job_id") == job_id), {})
    listed = versions[:MAX_VERSIONS]
    oldest = min((row["serial"] for row in listed), default=0)
    return read(
        StateView,
        answer,
        is_known=True,
        own_serial=own.get("serial"),
        own_at=own.get("created_at"),
        serial=-1 if answer.get("serial") is None else answer["serial"],
        is_locked=bool(lock),
        lock_id=lock.get("id"),
        lock_job=lock.get("job_number"),
        lock_attempt=lock.get("attempt"),
        lock_who=(lock.get("info") or {}).get("Who"),
        lock_at=lock.get("created_at"),
        versions=(_version(row, oldest) for row in listed),
    )


def _version(row: Row, oldest: int) -> Version:
    return read(
        Version,
        row,
        at=row.get("created_at"),
        writer=f"pushed by {row['written_by']}" if row.get("written_by") else f"#{row.get('job_number') or 0}",
        size=size(row.get("size") or 0),
        is_oldest=row["serial"] == oldest,
    )
