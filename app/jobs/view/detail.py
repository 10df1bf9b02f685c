"""A job's own page: its facts, what can be done about it, and what happened to it."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from app.jobs.view import timeline, words
from app.jobs.view.events import CANCEL_REASON, DECISIONS, JOB_EVENTS, actor_words
from app.jobs.view.facts import GitFacts, git_facts
from app.jobs.view.rows import span, target
from app.ui.view import TYPE_WORDS, Row, as_sentence, count, read

MAIN_STEP = {
    "PLAN": "plan", "DRIFT": "plan", "APPLY": "apply", "DESTROY": "destroy", "OUTPUT": "output", "STATE": "change-state",
}  # fmt: skip
# Characters of an output's value.
MOST_SHOWN = 2000
# Two heartbeats and a little.
SILENT_SECONDS = 35.0
# The isolation that an instance reports when its jobs run without a sandbox.
NOT_ISOLATED = ("none", "off")
PRIORITIES = ((50, "High"), (100, "Normal"))


class JobView(TypedDict):
    id: int
    number: int
    message: str
    title: str
    type: str
    status: str
    path: str
    module_id: str
    time_label: str
    since: str
    until: str
    created_at: str
    ended_at: str
    runner: str
    worker_id: str
    instance: str
    attempt: str
    engine: str
    source: str
    by: str
    priority: str
    labels: list[str]
    cancelling: str
    problem: str
    problem_hint: str
    problem_code: str
    problem_place: str
    planned_by: int
    retry_of: int
    inspects: int
    is_refresh_only: bool
    again_type: str
    phase: str
    left: str
    is_interrupted: bool
    lost_at: str
    slimmed_at: str
    is_open: bool
    can_cancel: bool
    can_choose_cancel: bool
    can_retry: bool
    can_apply: bool
    is_discarded: bool
    was_killed: bool
    is_kill: bool
    is_waiting: bool
    is_before_run: bool
    git: GitFacts


class OutputView(TypedDict):
    name: str
    value: str
    is_secret: bool


class EventView(TypedDict):
    key: str
    name: str
    at: str
    icon: str
    words: str


def build_view(
    job: Row,
    names: Mapping[str, str],
    events: Sequence[Row],
    instance: Row | None = None,
    numbers: Mapping[str, int] | None = None,
) -> JobView:
    """Put a job's facts into words; `instance` is the one at work, `numbers` are those of the jobs it names."""
    at_work = instance or {}
    built = {**_what(job, names), **_times(job, events), **_whose(job), **_offers(job), **_others(job, numbers or {})}
    if any(event.get("event") == "marked_failed" or event.get("reason") == "mark_failed" for event in events):
        # It lists what to decide, and the decision was made.
        built["problem_hint"] = ""
    if discarded_at(events):
        built["can_apply"], built["is_discarded"] = False, job["type"] == "PLAN" or bool(job.get("plan_job_id"))
    built["is_open"] = at_work.get("isolation") in NOT_ISOLATED
    more = {"engine": engine(job, at_work.get("engines") or {}), "source": source(job), "git": git_facts(job)}
    return read(JobView, job, **built, **more)


def _what(job: Row, names: Mapping[str, str]) -> dict[str, Any]:
    error = job.get("error") or {}
    message = str(error.get("message") or "")
    return {
        "title": title(job),
        "path": target({"target_name": names.get(str(job.get("target_worker_id"))), **job}),
        "cancelling": words.CANCEL_WORDS.get(str(job.get("cancel_kind"))) if job["status"] in words.RUNNING else "",
        "problem": message if _place(message) else as_sentence(message),
        "problem_hint": error.get("hint"),
        "problem_code": error.get("code"),
        "problem_place": _place(message),
        "is_refresh_only": bool(_option(job, "refresh_only")) or job["type"] == "DRIFT",
        "again_type": "DESTROY" if _option(job, "destroy") else str(job["type"]),
        "phase": words.PHASE_WORDS.get(str(job.get("phase")), "").lower(),
        "left": words.left(job),
        "is_interrupted": words.left(job) != "" and job["status"] in ("FAILED", "CANCELLED"),
    }


def _place(message: str) -> str:
    """Return the place in the code that ends an engine's error, as the log writes it."""
    found = re.search(r" · (\S+):(\d+)$", message)
    return f"{found[1]} line {found[2]}" if found else ""


def _others(job: Row, numbers: Mapping[str, int]) -> dict[str, int]:
    """Number the other jobs that a job's facts lead to."""
    ids = {
        "planned_by": job.get("plan_job_id"),
        "retry_of": job.get("retry_of"),
        "inspects": _option(job, "inspects"),
    }
    found = {name: numbers.get(str(one), 0) for name, one in ids.items()}
    # A plan of the same number is on this page.
    return {name: 0 if number == job.get("number") else number for name, number in found.items()}


def _option(job: Row, name: str) -> Any:
    return ((job.get("payload") or {}).get("options") or {}).get(name)


def title(job: Row) -> str:
    """Name what a job does; a plan that only looks is called what it is."""
    if job["type"] == "PLAN":
        options = (("inspects", "Check"), ("preview", "Preview"))
        names = (*options, ("refresh_only", "Refresh-only plan"), ("destroy", "Destroy plan"))
        found = next((name for option, name in names if _option(job, option)), "")
        if found:
            return found
    return TYPE_WORDS.get(str(job["type"]), str(job["type"]))


def _times(job: Row, events: Sequence[Row]) -> dict[str, Any]:
    since, until = span(job)
    lost = lost_at(events)
    return {
        "time_label": _time_label(job),
        "since": since,
        # A job that was lost ran until then; the time after it belongs to the person who decided.
        "until": lost if lost and job["status"] not in words.ACTIVE else until,
        "ended_at": job.get("finished_at"),
        "lost_at": lost,
    }


def _whose(job: Row) -> dict[str, Any]:
    return {
        "runner": job.get("worker_name"),
        "instance": _instance(job),
        "attempt": words.attempt(job) or f"0 of {job.get('max_attempts') or 1}",
        "by": job.get("created_by_label"),
        "priority": priority(int(job.get("priority") or 100)),
    }


def _offers(job: Row) -> dict[str, bool]:
    status, is_asked = str(job["status"]), bool(job.get("cancel_kind"))
    summary = job.get("plan_summary") or {}
    # A check beside a held job shows what that job left behind, a preview has values that are only planned: neither is applied.
    is_only_shown = _option(job, "inspects") or _option(job, "preview")
    is_plan = job["type"] == "PLAN" and bool(job.get("module_id")) and not is_only_shown
    return {
        "can_cancel": status in words.ACTIVE,
        # After a request to cancel, only a harder kind makes sense; before a runner has it, there is only one kind.
        "can_choose_cancel": status in words.RUNNING,
        # The details of a slimmed job are past their retention period.
        "can_retry": status in ("FAILED", "CANCELLED") and not job.get("slimmed_at"),
        "can_apply": status == "SUCCEEDED" and is_plan and bool(summary.get("has_changes")),
        "is_waiting": status == "QUEUED" and not is_asked,
        "is_before_run": status in ("AWAITING_APPROVAL", "QUEUED"),
        "was_killed": was_killed_while_changing(job),
        "is_kill": job.get("cancel_kind") == "KILL" or _code(job) == "engine_killed",
    }


def _code(job: Row) -> str:
    return str((job.get("error") or {}).get("code") or "")


def was_killed_while_changing(job: Row) -> bool:
    """Return whether nobody knows how far a job got because its engine was killed: as grave as a lost runner."""
    is_changing = str(job.get("phase")) in ("APPLY", "DESTROY")
    return is_changing and job.get("cancel_kind") == "KILL" and job.get("status") in ("CANCELLED", "FAILED")


def _time_label(job: Row) -> str:
    status = str(job["status"])
    if status in ("QUEUED", "AWAITING_APPROVAL"):
        return "Waiting"
    if status in words.RUNNING:
        return "Duration"
    return "Ran for" if job.get("claimed_at") or job.get("started_at") else "Waited"


def _instance(job: Row) -> str:
    name = str(job.get("instance_name") or "")
    return "" if name == job.get("worker_name") else name


def lost_at(events: Iterable[Row]) -> str:
    """When a lost attempt gave its last sign; nothing once the runner is back, or another attempt has begun."""
    at = ""
    for event in events:
        if event.get("event") == "attention":
            at = str((event.get("detail") or {}).get("since") or event.get("at") or "")
        elif event.get("event") in ("resumed", "claimed"):
            at = ""
    return at


def discarded_at(events: Iterable[Row]) -> str:
    """When somebody discarded the plan, or its apply; nothing where nobody has."""
    return next((str(event["at"]) for event in events if event.get("event") == "rejected"), "")


def priority(value: int) -> str:
    """Format a priority as people do; a lower number runs sooner."""
    return next((word for limit, word in PRIORITIES if value <= limit), "Low")


def engine(job: Row, engines: Row) -> str:
    module, result = _module(job), job.get("result") or {}
    key = str(module.get("engine"))
    name = words.ENGINE_WORDS.get(key, "")
    version = result.get("engine_version") or module.get("engine_version") or engines.get(key) or ""
    return f"{name} {version}".strip()


def source(job: Row) -> str:
    """Describe where the module's files come from, as short as possible."""
    module = _module(job)
    where, kind = module.get("source") or {}, str(module.get("source_kind") or "")
    if kind == "git":
        ref, commit = str(where.get("ref") or "main"), str((job.get("result") or {}).get("commit") or "")[:7]
        return f"{ref}@{commit}" if commit else ref
    if kind == "archive":
        return str(where.get("url") or "").rsplit("/", 1)[-1] or "archive"
    if kind == "inline":
        return f"inline, {count(len(where.get('files') or {}), 'file')}"
    return str(where.get("path") or "")


def _module(job: Row) -> dict[str, Any]:
    return (job.get("payload") or {}).get("module") or {}


EMPTY_VIEW: JobView = build_view({"id": 0, "type": "", "status": ""}, {}, ())

_OF_PHASE = frozenset({"claimed", "started", "succeeded", "failed", "cancelled"})
_SAYS_WHO = frozenset((
    "enqueued", "approval", "approved", "confirmed", "rejected", "cancel_requested", "retried", "retried_as",
    "marked_failed", "resolved", "lock_released",
))  # fmt: skip


def build_events(events: Iterable[Row], *jobs: Row) -> list[EventView]:
    """List what happened, newest first; of several jobs in one list each names its own."""
    ordered = sorted(events, key=lambda event: -int(event.get("id") or 0))
    types = {job["id"]: TYPE_WORDS[str(job["type"])] for job in jobs} if len(jobs) > 1 else {}
    # Phases are in the timeline already.
    shown = (event for event in ordered if event.get("event") != "phase")
    return [_event(event, types.get(event.get("job_id"), "")) for event in shown]


def _event(event: Row, job: str) -> EventView:
    name, who = str(event.get("event") or ""), actor_words(event.get("actor_label"))
    icon, said = JOB_EVENTS.get(name, ("dot", name.replace("_", " ").capitalize()))
    if name == "cancel_requested" and (event.get("detail") or {}).get("kind") == "KILL":
        icon, said = "octagon-x", "Kill requested"
    reason = str(event.get("reason") or "").rstrip(".")
    if name == "cancelled" and reason in CANCEL_REASON.values():
        reason = f"Cancelled by {who}"
    if name == "claimed" or name in _SAYS_WHO:
        said += f" by {who}"
    said = _with_reason(name, said, reason)
    if job and name in _OF_PHASE:
        said = f"{job} {said[0].lower()}{said[1:]}"
    at = str(event.get("at") or "")
    return {"key": str(event.get("id")), "name": name, "at": at, "icon": icon, "words": said}


def _with_reason(name: str, said: str, reason: str) -> str:
    """Add why, without saying anything twice."""
    if name == "resumed":
        return said
    if name == "enqueued" and re.fullmatch(r"Plan \d+ has changes", reason):
        return "Plan has changes: the apply follows"
    if name == "resolved" and reason in DECISIONS:
        return said.replace(JOB_EVENTS["resolved"][1], DECISIONS[reason], 1)
    if not reason or reason.lower() in said.lower() or said.endswith(f" by {reason.removeprefix('Instance ')}"):
        return said
    if reason.lower().startswith(said.lower()):
        return reason
    if name in ("claimed", "cancel_requested"):
        return f"{said} ({reason.removeprefix('Instance ')})"
    return f"{said}: {reason}"


def log_note(job: Row) -> str:
    """Explain an unusual end of the log; empty when it ends as logs do."""
    if job.get("status") != "NEEDS_ATTENTION" or _code(job) != "OUT_OF_CONTACT":
        return ""
    return "The log ends where the runner was lost. Later lines are on its disk, and are sent if it returns."


def log_steps(job: Row, events: Sequence[Row] = ()) -> list[dict[str, Any]]:
    bars = [bar for bar in timeline.build(job, events).bars if bar.is_step]
    names = (str(step.get("name") or "") for step in job.get("steps") or [])
    return [
        {"name": name, "title": bar.label, "status": bar.status, "from_ms": bar.from_ms, "to_ms": bar.to_ms}
        for name, bar in zip(names, bars, strict=False)
    ]


def is_silent(last_seen_at: str, now: float) -> bool:
    """Return whether a runner at work missed two heartbeats: out of contact, and not yet called lost."""
    seen = timeline.to_ms(last_seen_at)
    return bool(seen) and now - seen / 1000 > SILENT_SECONDS


def build_outputs(job: Row) -> list[OutputView]:
    outputs = (job.get("result") or {}).get("outputs")
    return read_outputs(outputs) if isinstance(outputs, Mapping) else []


def read_outputs(outputs: Mapping[str, Any]) -> list[OutputView]:
    """List outputs of a job or of a state, in one form: a text without quotes, anything else as JSON."""
    return [_output(str(name), entry) for name, entry in sorted(outputs.items()) if isinstance(entry, Mapping)]


def _output(name: str, entry: Row) -> OutputView:
    is_secret = bool(entry.get("sensitive"))
    given = entry.get("value")
    value = "" if is_secret else given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    shown = "too long to show" if entry.get("is_truncated") else value[:MOST_SHOWN]
    return {"name": name, "value": shown, "is_secret": is_secret}
