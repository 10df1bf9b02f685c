"""The explanation of a waiting job: the database's answer, one line per runner."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.ui.view import Row, as_sentence, read


@dataclass(frozen=True)
class Runner:
    """One runner and what keeps it from this job; `tone` is the colour class of its mark."""

    id: str
    name: str
    code: str
    reason: str
    help: str
    icon: str
    tone: str
    can_enable: bool = False


@dataclass(frozen=True)
class Why:
    """The whole answer; `is_known` is false before the first answer."""

    job_id: str = ""
    is_known: bool = False
    summary: str = ""
    help: str = ""
    position: str = ""
    checked_at: str = ""
    runners: tuple[Runner, ...] = ()


def build(answer: Row, checked_at: str = "") -> Why:
    rows = [row for row in answer.get("runners") or [] if isinstance(row, Mapping)]
    # A place in line means something only where some runner will reach the job without help.
    is_moving = any(row.get("reason_code") in ("ok", "busy", "nearer") for row in rows)
    return read(
        Why,
        answer,
        is_known=True,
        position=in_line(answer.get("position")) if is_moving else "",
        checked_at=checked_at,
        runners=map(_runner, rows),
    )


def in_line(position: object) -> str:
    """Format a place in the queue as an ordinal; nothing when there is none."""
    if not isinstance(position, int) or position < 1:
        return ""
    if position == 1:
        return "next in line"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(position % 10, "th")
    if position % 100 in (11, 12, 13):
        ending = "th"
    return f"{position}{ending} in line"


def _runner(row: Row) -> Runner:
    code = str(row.get("reason_code") or "")
    icon, tone = _mark(code, str(row.get("status") or ""))
    return read(
        Runner,
        row,
        id=row.get("worker_id"),
        code=code,
        reason=as_sentence(row.get("reason") or ""),
        help=as_sentence(row.get("help") or ""),
        icon=icon,
        tone=tone,
        can_enable=code == "disabled",
    )


def _mark(code: str, status: str) -> tuple[str, str]:
    marks = {"ok": ("circle-check", "t-grn"), "busy": ("hourglass", "t-amb"), "disabled": ("circle-slash", "t-red")}
    return marks.get(code, ("circle-slash", "t-amb" if status == "DRAINING" else "mut"))
