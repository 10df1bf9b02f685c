"""The contents of a module's state, its files, its locks and the results of its last jobs, built from rows alone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import TypedDict

from app.jobs.view.detail import OutputView, read_outputs
from app.ui.view import STATUS_WORDS, Row, count, parse_time, read

FEW_TYPES = 6
FEW_RESOURCES = 8
BARS = 30
DRIFTED = "Drifted"
LOST = "NEEDS_ATTENTION"
_STYLES = {"SUCCEEDED": "", "FAILED": "x", "CANCELLED": "c", LOST: "x"}
VERDICTS = {
    "safe": ("green", "Safe to break: nothing that could write this state is left."),
    "unclear": (
        "amber",
        "Not clear: look at the job first, and break it only when you know that nothing writes any more.",
    ),
    "unsafe": ("red", "Not safe: the attempt that holds it may still write this state."),
}


class TypeCount(TypedDict):
    """The number of resources of one type; `share` is its percentage of the most frequent type's number."""

    name: str
    number: int
    share: str


class ResourceRow(TypedDict):
    """One resource of the state; `drift` is the result of the last check."""

    address: str
    drift: str
    id: str


class SourceFile(TypedDict):
    name: str
    text: str


class Evidence(TypedDict):
    weighs: str
    text: str
    at: str


class Bar(TypedDict):
    href: str
    style: str
    height: str
    title: str


@dataclass(frozen=True)
class Contents:
    total: int = 0
    types: tuple[TypeCount, ...] = ()
    resources: tuple[ResourceRow, ...] = ()
    more: int = 0
    outputs: tuple[OutputView, ...] = ()


@dataclass(frozen=True)
class Drift:
    """The result of the last check for drift: the job, and the addresses that differ."""

    job: str = ""
    addresses: frozenset[str] = frozenset()
    is_checked: bool = False


@dataclass(frozen=True)
class LockView:
    """The engine's lock with the answer to "is it safe to break?", and the lock of a person."""

    is_held: bool = False
    verdict: str = ""
    colour: str = ""
    words: str = ""
    evidence: tuple[Evidence, ...] = ()
    by: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Chart:
    bars: tuple[Bar, ...] = ()
    words: str = ""
    most: str = ""
    half: str = ""
    counts: str = ""
    middle: str = ""


def contents(answer: object, drifted: Drift, *, is_all: bool) -> Contents:
    """Read what state_resources answered; what has drifted comes first."""
    found = answer if isinstance(answer, Mapping) else {}
    rows = [_resource(row, drifted) for row in found.get("resources") or [] if isinstance(row, Mapping)]
    rows.sort(key=lambda row: row["drift"] != DRIFTED)
    shown = rows if is_all else rows[:FEW_RESOURCES]
    return Contents(
        total=int(found.get("total") or 0),
        types=_types(found.get("types") or {}),
        resources=tuple(shown),
        more=int(found.get("found") or 0) - len(shown),
        outputs=tuple(read_outputs(found.get("outputs") or {})),
    )


def _resource(row: Row, drifted: Drift) -> ResourceRow:
    address = str(row.get("address"))
    calm = "In sync" if drifted.is_checked else "Not checked"
    return {
        "address": address,
        "drift": DRIFTED if address in drifted.addresses else calm,
        "id": str(row.get("id") or "–"),
    }


def drift(module: Row, jobs: Iterable[Row]) -> Drift:
    """Read the drift that is known of a module from the job that found it; without drift there is nothing to show."""
    is_checked = bool(module.get("drift_checked_at"))
    found = next(iter(jobs), None) if module.get("drift_since") else None
    if found is None:
        return Drift(is_checked=is_checked)
    rows = (found.get("plan_summary") or {}).get("resources") or []
    addresses = frozenset(str(row.get("address")) for row in rows if isinstance(row, Mapping))
    return Drift(job=str(int(found["number"])), addresses=addresses, is_checked=is_checked)


def _types(numbers: Mapping[str, int]) -> tuple[TypeCount, ...]:
    ranked = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    listed = ranked[:FEW_TYPES]
    rest = ranked[FEW_TYPES:]
    if rest:
        listed.append((f"{count(len(rest), 'other type')}", sum(number for _, number in rest)))
    most = max((number for _, number in listed), default=1)
    return tuple({"name": name, "number": number, "share": f"{100 * number // most}%"} for name, number in listed)


def lock(answer: object, own: Row | None) -> LockView:
    """Read what lock_evidence answered, and a member's lock."""
    found = answer if isinstance(answer, Mapping) else {}
    colour, words = VERDICTS.get(str(found.get("verdict")), ("", ""))
    held = own or {}
    return read(
        LockView,
        found,
        is_held=found.get("is_locked"),
        colour=colour,
        words=words,
        evidence=(read(Evidence, row) for row in found.get("evidence") or [] if isinstance(row, Mapping)),
        by=held.get("user_label"),
        reason=held.get("reason"),
    )


def files(module: Row) -> list[SourceFile]:
    """List the files that a module carries itself, its extra files after them."""
    source = module.get("source") or {}
    own = source.get("files") if module.get("source_kind") == "inline" else None
    found: list[SourceFile] = [{"name": name, "text": str(text)} for name, text in sorted((own or {}).items())]
    extra = [file for file in module.get("extra_files") or [] if isinstance(file, Mapping)]
    return found + [{"name": str(file.get("path")), "text": str(file.get("content") or "")} for file in extra]


def chart(jobs: Sequence[Row]) -> Chart:
    """Draw the last jobs that have ended, newest last, each as high as it was long."""
    run = [job for job in reversed(jobs[:BARS]) if job.get("finished_at") or job["status"] == LOST]
    if not run:
        return Chart()
    long = [_seconds(job) for job in run]
    # Even, so that the line in the middle is a whole number too.
    most = 2.0 * max(1, ceil(max(long) / 2))
    counted = _counted(run)
    middle = spoken(median(long))
    return Chart(
        bars=tuple(_bar(job, seconds, most) for job, seconds in zip(run, long, strict=True)),
        words=f"{count(len(run), 'job')}: {counted}. Median {middle}.",
        most=spoken(most),
        half=spoken(most / 2),
        counts=counted,
        middle=middle,
    )


def _counted(jobs: Iterable[Row]) -> str:
    words = Counter(STATUS_WORDS.get(str(job["status"]), str(job["status"])).lower() for job in jobs)
    return ", ".join(f"{number} {word}" for word, number in words.most_common())


def _bar(job: Row, seconds: float, most: float) -> Bar:
    status = str(job["status"])
    word = STATUS_WORDS.get(status, status)
    return {
        "href": f"/dashboard/jobs/{int(job['number'])}",
        "style": _STYLES.get(status, "n"),
        "height": f"{max(3, round(100 * seconds / most))}%",
        "title": f"#{int(job['number'])} {word}, {spoken(seconds)}",
    }


def _seconds(job: Row) -> float:
    begun = parse_time(job.get("started_at") or job.get("finished_at"))
    ended = parse_time(job.get("finished_at") or job.get("updated_at"))
    return max(0.0, (ended - begun).total_seconds()) if begun and ended else 0.0


def spoken(seconds: float) -> str:
    if seconds < 9.95 and seconds % 1:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"
