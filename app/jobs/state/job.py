"""A job's own page: what it is doing now, and everything it has done. One call answers it all: job_page()."""

import contextlib
import dataclasses
import json
import re
import time
from typing import Any, ClassVar

import reflex as rx

from app.jobs.state.log import LogPart
from app.jobs.state.plan import PlanPart
from app.jobs.view import checks as policy_checks
from app.jobs.view import detail, kept_states, queue, reviews, timeline, words
from app.jobs.view import policy_test as policy_tests
from app.jobs.view import state_versions as module_states
from app.jobs.view.detail import EMPTY_VIEW, EventView, JobView, OutputView
from app.jobs.view.facts import NO_RECORD, GivenView, RecordView, build_given, build_record
from app.jobs.view.stages import Stage
from app.jobs.view.stages import build as build_stages
from app.live.page import RIGHTS, LivePage
from app.project.errors import AppError, NotThere
from app.project.live_queries import Held, LiveQuery, live_query
from app.project.models import BrowserSession, Row
from app.project.runtime import runtime
from app.project.store import AGAIN, Changed, OrgStore
from app.ui.view import STATUS_WORDS

FEW_EVENTS = 8
# No row changes when the engine locks the state between two reports, or when the queue moves.
RENEW_SECONDS = 3.0


class JobState(PlanPart, LogPart, LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = RIGHTS | {"provision_jobs", "log", "overview"}

    view: JobView = EMPTY_VIEW
    is_found: bool = False
    line: str = ""
    lease_at: str = ""
    silent_since: str = ""
    planned: reviews.Planned = reviews.Planned()
    given: list[GivenView] = []
    record: RecordView = NO_RECORD
    comments: list[reviews.Comment] = []
    approvals: list[reviews.ApprovalView] = []
    checks: list[policy_checks.Check] = []
    checks_words: str = ""
    checks_missing: str = ""
    policy_test: policy_tests.PolicyTest = policy_tests.PolicyTest()
    can_still_override: bool = False
    approvals_required: int = 0
    approvals_received: int = 0
    has_decided: bool = False
    own_rule: str = ""
    approvers: str = ""
    events: list[EventView] = []
    more_events: int = 0
    is_all_events: bool = False
    outputs: list[OutputView] = []
    late: str = ""
    late_at: str = ""
    late_status: str = ""
    late_attempt: int = 0
    why: queue.Why = queue.Why()
    state: module_states.StateView = module_states.StateView()
    checked_by: int = 0
    stages: list[Stage] = []
    is_line_open: bool = False
    kept: list[kept_states.KeptState] = []
    newer_serial: int = -1
    _answer: dict[str, Any] = {}
    _lease: LiveQuery | None = None

    def _query(self) -> LiveQuery:
        found = re.search(r"/jobs/(\d{1,18})/?$", self.router.url.path)
        if found is None:
            raise NotThere("There is no such job.", "The link may be wrong, or the job was removed.")
        topics = (f"job:{found[1]}", "approvals", "change_records", "job_comments", "memberships", AGAIN)
        return live_query("job_page", topics, number=int(found[1]))

    async def _prepare(self, session: BrowserSession) -> None:
        self.is_found, self.is_all_events, self.is_line_open = False, False, False
        self._answer, self._job, self._plan_job, self._events, self._lease = {}, {}, {}, [], None
        self.log_seq, self.view = 0, EMPTY_VIEW
        self._forget_plan()
        await self._ask(self._query())

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        held = store.live_queries.held(self._query())
        if held is None or not (held.answer or self._answer):
            return
        if not self.is_found:
            self.is_found = True
        await self._read(store, held)
        if self._is_old(store, held, changed):
            store.live_queries.renew(held.query)
        if changed.touches(RIGHTS):
            await (await self._who())._ask_verbs(str(self._job.get("module_path") or ""))
        if str(self.log_job) in changed.ids("log"):
            self.log_seq += 1
        await self._watch_lease()
        self._show_lease(store)

    async def _read(self, store: OrgStore, held: Held) -> None:
        """Read the answer, and the newest known row of the job."""
        answer, before = held.answer or self._answer, self._job
        job = store.newest("provision_jobs", answer["job"])
        if answer is self._answer and job == before:
            return
        self._answer, self._job = answer, job
        self._plan_job = store.newest("provision_jobs", answer["plan"]) if answer["plan"] else {}
        self._events = answer["events"]
        if any(job.get(name) != before.get(name) for name in ("id", "status", "attempt")):
            self.log_seq += 1
        self._show_around(answer, (await self._who()).user_id)
        self._show_job(answer)

    def _is_old(self, store: OrgStore, held: Held, changed: Changed) -> bool:
        """Return whether the answer may be old although the job's row is the same."""
        if self._job.get("status") in (*words.RUNNING, "QUEUED"):
            return time.monotonic() - held.ended_at > RENEW_SECONDS
        if self._job.get("type") != "PLAN" or self._job.get("status") != "SUCCEEDED":
            return False
        # Another job of the module may have used this plan up, or changed the state.
        rows = (store.row("provision_jobs", job_id) or {} for job_id in changed.ids("provision_jobs"))
        return any(row.get("module_id") == self._job.get("module_id") for row in rows)

    def _show_around(self, answer: Row, user_id: str) -> None:
        self._assign("approvals", [reviews.approval(row) for row in answer["approvals"]])
        checks = [policy_checks.build(row) for row in answer["checks"]]
        checks.sort(key=lambda each: each.verdict not in ("failed", "error"))
        self._assign("checks", checks)
        self._assign("checks_words", policy_checks.summary(checks))
        self._assign("checks_missing", policy_checks.missing(checks))
        self._assign("policy_test", policy_tests.build(answer["policy_test"]))
        is_open = self._job.get("status") == "AWAITING_APPROVAL" or self._job.get("type") == "PLAN"
        self._assign("can_still_override", is_open)
        self._assign("has_decided", any(str(row["user_id"]) == user_id for row in answer["approvals"]))
        self._assign("own_rule", answer["own_approval"] if user_id in answer["requesters"] else "")
        self._assign("approvers", answer["approvers"] or "")
        self._assign("given", [build_given(row) for row in answer["variables"]])
        self._assign("record", build_record(answer["record"]))
        self._assign("comments", [reviews.comment(row) for row in answer["comments"]])
        self._assign("state", module_states.build(answer["state"], int(self._job["id"])))
        self._assign("kept", kept_states.build(answer["kept"]))
        self._assign("checked_by", int(answer["checked_by"] or 0))
        is_plan = self._job.get("type") == "PLAN" and self._job.get("status") == "SUCCEEDED"
        moved_on = is_plan and self._job.get("planned_serial") not in (None, self.state.serial)
        self._assign("newer_serial", self.state.serial if moved_on else -1)
        why = answer["why"] if self._job.get("status") == "QUEUED" else None
        self._assign("why", queue.build(why, str(why["checked_at"])) if why else queue.Why())

    def _show_job(self, answer: Row) -> None:
        job, own_events = self._job, self._events_of(self._job)
        names = {str(job.get("target_worker_id")): str(answer["target"])} if answer["target"] else {}
        view = detail.build_view(job, names, own_events, answer["instance"] or {}, answer["numbers"])
        self._assign("view", view)
        self._assign("stages", build_stages(job, self._own_plan(), own_events))
        self._assign("line", json.dumps(dataclasses.asdict(timeline.build(job, own_events))))
        self._show_log()
        self._assign("approvals_required", int(job.get("approvals_required") or 0))
        self._assign("approvals_received", int(job.get("approvals_received") or 0))
        self._assign("outputs", detail.build_outputs(job))
        self._show_late(job.get("late_report"))
        self._planned = dict(reviews.with_plan(job, self._plan_job))
        self._show_plan()
        self._assign("planned", reviews.planned(job, self._plan_job, self.state.serial))
        self._show_events()

    def _show_events(self) -> None:
        built = detail.build_events(self._events, *filter(None, (self._plan_job, self._job)))
        shown = built if self.is_all_events else built[:FEW_EVENTS]
        self._assign("events", shown)
        self._assign("more_events", len(built) - len(shown))

    def _show_late(self, report: object) -> None:
        found = report if isinstance(report, dict) else {}
        self._assign("late", json.dumps(found, indent=2, ensure_ascii=False) if found else "")
        self._assign("late_at", str(found.get("at") or found.get("reported_at") or ""))
        self._assign("late_attempt", int(found.get("attempt") or 0))
        self._assign("late_status", STATUS_WORDS.get(str(found.get("status")), "").lower())

    def _lease_query(self) -> LiveQuery | None:
        """Ask for the heartbeats of the runner at work; nobody's while nobody is."""
        worker = self._job.get("worker_id") if self._job.get("status") in words.RUNNING else None
        return live_query("fleet_overview", ("overview",), workers=[str(worker)]) if worker else None

    async def _watch_lease(self) -> None:
        wanted = self._lease_query()
        if self._lease != wanted:
            self._lease = wanted
            await self._ask(self._query(), *([wanted] if wanted is not None else []))

    def _show_lease(self, store: OrgStore) -> None:
        """A heartbeat of the instance renews the lease; the overview knows when the last one came."""
        wanted, asked = str(self._job.get("instance_id")), self._lease_query()
        held = store.live_queries.held(asked) if asked is not None else None
        heartbeats = [
            str(instance.get("last_seen_at") or "")
            for worker in (held.answer.get("workers") if held is not None else None) or []
            for instance in worker.get("instances") or []
            if str(instance.get("id")) == wanted
        ]
        lease_at = heartbeats[0] if heartbeats and self._job.get("status") in words.RUNNING else ""
        self._assign("lease_at", lease_at)
        now = runtime().authorized.project_clock.now()
        self._assign("silent_since", lease_at if detail.is_silent(lease_at, now) else "")

    @rx.event
    def fold_line(self) -> None:
        """Show each step of the timeline, or all of it on one line."""
        self.is_line_open = not self.is_line_open

    @rx.event
    def show_events(self) -> None:
        self.is_all_events = not self.is_all_events
        self._show_events()

    @rx.event
    async def check_again(self) -> None:
        """Ask once more why the job waits; without an answer the last one stays."""
        with contextlib.suppress(AppError):
            await self._renew()
