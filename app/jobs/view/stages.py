"""The stages of a run, plan, review and apply, each with how far it got."""

from collections.abc import Sequence
from typing import TypedDict

from app.jobs.view import words
from app.jobs.view.detail import discarded_at, lost_at
from app.ui.view import STATUS_WORDS, TYPE_WORDS, Row, read

NO_RUN = "NOT_STARTED"
# The events that end a review, the first that is found decides; without words, those of the approvals.
DECISIONS = {
    "rejected": ("CANCELLED", "discarded"),
    "outdated": ("CANCELLED", "out of date"),
    "approval_expired": ("CANCELLED", "expired"),
    "approved": ("SUCCEEDED", ""),
    "confirmed": ("SUCCEEDED", ""),
}


class Stage(TypedDict):
    """One stage: `status` is a job's, or that it has not started; without `until` its time still counts."""

    name: str
    status: str
    words: str
    since: str
    until: str


def build(job: Row, plan: Row, events: Sequence[Row]) -> list[Stage]:
    """Draw the stages of a plan that is meant to be applied, from the start; of any other job there are none."""
    if plan:
        return [_plan(plan), _review(job, events), _apply(job, lost_at(events))]
    options = (job.get("payload") or {}).get("options") or {}
    last = TYPE_WORDS["DESTROY" if options.get("destroy") else "APPLY"]
    discarded = discarded_at(events)
    if job["type"] == "PLAN" and discarded:
        review = _reviewed(*DECISIONS["rejected"], str(job.get("finished_at") or ""), discarded)
        return [_plan(job), review, _ahead(last, "not reached")]
    if job["type"] != "PLAN" or not options.get("confirm"):
        return []
    is_over = job["status"] in words.FINISHED
    later = "not needed" if job["status"] == "SUCCEEDED" else "not reached" if is_over else "after the plan"
    return [_plan(job), _ahead("Review", later), _ahead(last, "not started" if not is_over else later)]


def _ahead(name: str, said: str) -> Stage:
    return {"name": name, "status": NO_RUN, "words": said, "since": "", "until": ""}


def _plan(plan: Row) -> Stage:
    changes = words.changes(plan.get("plan_summary"))
    found = sum(changes) if changes else 0
    said = f"{found} {'change' if found == 1 else 'changes'}" if changes and plan["status"] == "SUCCEEDED" else ""
    return _stage("Plan", plan, said or _status_words(plan))


def _stage(name: str, job: Row, said: str) -> Stage:
    return read(Stage, job, name=name, words=said, since=job.get("claimed_at"), until=job.get("finished_at"))


def _review(job: Row, events: Sequence[Row]) -> Stage:
    decided = {event.get("event"): str(event.get("at") or "") for event in events}
    since, given = str(job.get("created_at") or ""), _approvals(job)
    if job["status"] == "AWAITING_APPROVAL":
        return _reviewed("AWAITING_APPROVAL", given or "to confirm", since, "")
    for event, (status, said) in DECISIONS.items():
        if event in decided:
            return _reviewed(status, said or given or "confirmed", since, decided[event])
    if job["status"] == "CANCELLED" and not job.get("queued_at"):
        return _reviewed("CANCELLED", "cancelled", since, str(job.get("finished_at") or ""))
    return _reviewed("SUCCEEDED", "not required", "", "")


def _approvals(job: Row) -> str:
    required = int(job.get("approvals_required") or 0)
    return f"{job.get('approvals_received') or 0} of {required} approvals" if required else ""


def _reviewed(status: str, said: str, since: str, until: str) -> Stage:
    return {"name": "Review", "status": status, "words": said, "since": since, "until": until}


def _apply(job: Row, lost: str) -> Stage:
    name = TYPE_WORDS.get(str(job["type"]), str(job["type"]))
    if not job.get("queued_at"):
        is_over = job["status"] in words.FINISHED
        return _ahead(name, "not reached" if is_over else "starts when confirmed")
    stage = _stage(name, job, _status_words(job))
    # A job that was lost ran until then; the time after it belongs to the person who decides.
    return {**stage, "until": lost or stage["until"]}


def _status_words(job: Row) -> str:
    return STATUS_WORDS.get(str(job["status"]), str(job["status"])).lower()
