"""A job's own page: what it is doing now, and everything it has done."""

import dataclasses
import json
import re
import time
from datetime import UTC, datetime
from typing import ClassVar

import reflex as rx

from app.frame.palette import view as palette
from app.frame.palette.recent import note_visit
from app.frame.session import say_error
from app.jobs.state import related
from app.jobs.view import detail, kept_states, queue, reviews, timeline, words
from app.jobs.view import plan as plans
from app.jobs.view import state_versions as module_states
from app.jobs.view.detail import EMPTY_VIEW, EventView, JobView, OutputView
from app.jobs.view.stages import Stage
from app.jobs.view.stages import build as build_stages
from app.live.page import LivePage
from app.project.errors import AppError, NotThere
from app.project.live_queries import LiveQuery, live_query
from app.project.models import BrowserSession, Filter, Query, Row
from app.project.runtime import runtime
from app.project.store import AGAIN, EVERYTHING, Changed, OrgStore
from app.ui.words import STATUS_WORDS

FEW_RESOURCES = 7
FEW_EVENTS = 8
ASK_EVERY_SECONDS = 4.0
# The engine locks the state between two reports: nothing wakes the page for it.
STATE_EVERY_SECONDS = 3.0


class JobState(LivePage, rx.State):
    """What the job's page shows."""

    TOPICS: ClassVar[frozenset[str]] = frozenset(
        {"provision_jobs", "log", "approvals", "job_comments", "workers", "overview"}
    )

    view: JobView = EMPTY_VIEW
    is_found: bool = False
    line: str = ""
    log_job: int = 0
    log_attempt: int = 0
    log_status: str = ""
    log_steps: str = "[]"
    log_seq: int = 0
    log_main: str = ""
    log_note: str = ""
    lease_at: str = ""
    silent_since: str = ""
    plan: plans.Plan = plans.Plan()
    more_resources: int = 0
    is_all_resources: bool = False
    plan_words: str = ""
    planned: reviews.Planned = reviews.Planned()
    comments: list[reviews.Comment] = []
    approvals: list[reviews.ApprovalView] = []
    approvals_required: int = 0
    approvals_received: int = 0
    has_decided: bool = False
    own_rule: str = ""
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
    phase: str = ""
    phases: list[str] = []
    is_line_open: bool = False
    kept: list[kept_states.KeptState] = []
    newer_serial: int = 0
    _job: Row = {}
    _events: list[Row] = []
    _plan_events: list[Row] = []
    _numbers: dict[str, int] = {}
    _plan_job: Row = {}
    _opened: dict[str, Row] = {}
    _asked_at: float = 0.0
    _state_at: float = 0.0
    _read_for: tuple[str, ...] = ()
    _named: dict[str, str] = {}
    _instance: tuple[str, Row] = ("", {})
    _lease: LiveQuery | None = None

    def _number(self) -> int:
        found = re.search(r"/dashboard/jobs/(\d{1,18})/?$", self.router.url.path)
        if found is None:
            raise NotThere("There is no such job.", "The link may be wrong, or the job was removed.")
        return int(found[1])

    async def _prepare(self, session: BrowserSession) -> None:
        self.is_found, self.is_all_resources, self.is_all_events = False, False, False
        self._job, self._events, self._asked_at, self.log_seq, self._read_for = {}, [], 0.0, 0, ()
        self._plan_job, self._opened, self.is_line_open, self.phase = {}, {}, False, ""
        self.why, self.state = queue.Why(), module_states.StateView()
        self._named, self._instance, self._lease = {}, ("", {}), None
        if not await self._read_job():
            self.view = EMPTY_VIEW
            return
        self.is_found = True
        await note_visit(self, palette.job(self._job))
        await self._read_around()

    async def _read_job(self) -> bool:
        """Read the newest job of the number, and the plan that it follows; says whether there is one."""
        found = await self._rpc("job_by_number", {"p_org": await self._org_id(), "p_number": self._number()})
        if not found:
            return False
        *earlier, newest = found
        if newest["id"] != self._job.get("id"):
            self._events, self._read_for, self.phase = [], (), ""
        self._job, self._plan_job = newest, earlier[0] if earlier else self._plan_job
        return True

    async def _read_around(self) -> None:
        """Read what belongs to the row, and remember for which row it was read."""
        read_for = _mark_of(self._job)
        await self._read_events()
        self._read_for = read_for

    async def _read_events(self) -> None:
        """Read events, decisions, the state and its lock."""
        of_job = (Filter("job_id", "eq", str(self._job["id"])),)
        events = (
            await self._select("job_events", Query(filters=(related.of_run(self._job),), order="id", limit=500))
        ).rows
        self._events = [event for event in events if event["job_id"] == self._job["id"]]
        self._plan_events = [event for event in events if event["job_id"] != self._job["id"]]
        self._numbers = await related.read_numbers(self, self._job)
        decisions = (await self._select("approvals", Query(filters=of_job, order="created_at"))).rows
        who = await self._who()
        self._assign("approvals", [reviews.approval(row) for row in decisions])
        self._assign("has_decided", any(str(row["user_id"]) == who.user_id for row in decisions))
        await self._read_own_rule()
        await self._read_state()
        self._read_use()
        self._assign("kept", await related.read_kept(self, self._job))
        self._plan_job = self._plan_job or await related.read_plan(self, self._job)
        self._assign("checked_by", await related.read_check(self, self._job))
        await self._read_comments()

    async def _read_own_rule(self) -> None:
        self._assign("own_rule", await related.read_own_rule(self, self._job))

    async def _read_comments(self) -> None:
        self._assign("comments", await related.read_comments(self, self._job))

    def _read_use(self) -> None:
        """Learn whether the state has moved on since a plan."""
        is_plan = self._job.get("type") == "PLAN" and self._job.get("status") == "SUCCEEDED"
        moved_on = is_plan and self._job.get("planned_serial") not in (None, self.state.serial)
        self._assign("newer_serial", self.state.serial if moved_on else 0)

    async def _read_state(self) -> None:
        module = self._job.get("module_id")
        if not module:
            return
        self._state_at = time.monotonic()
        try:
            answer = await self._rpc("state_info", {"p_module": str(module)})
        except NotThere:
            answer = None
        self._assign("state", module_states.build(answer))

    async def _read_heavy(self) -> None:
        """Read the columns that the live row does not carry, once the job has ended or was reported late."""
        mine = (Filter("id", "eq", str(self._job["id"])),)
        page = await self._select("provision_jobs", Query(columns="id,result,late_report", filters=mine, limit=1))
        self._job = {**self._job, **(page.rows[0] if page.rows else {})}

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        if not self.is_found:
            return
        key = str(self._job["id"])
        changed_ids = changed.ids("provision_jobs")
        is_mine = (
            changed.is_everything or key in changed_ids or ("provision_jobs" in changed.tables and not changed_ids)
        )
        if AGAIN in changed.tables:
            is_mine = await self._read_job()
        if key in changed.ids("log"):
            self.log_seq += 1
        if "memberships" in changed.tables:
            await self._read_own_rule()
        if is_mine or "approvals" in changed.tables:
            await self._renew(store, changed)
        elif "job_comments" in changed.tables:
            await self._read_comments()
        elif self._is_used_by(store, changed):
            await self._read_state()
            self._read_use()
        elif self._job.get("status") in words.RUNNING and time.monotonic() - self._state_at > STATE_EVERY_SECONDS:
            await self._read_state()
        await self._watch_lease()
        self._show_lease(store)
        await self._ask_why()

    def _is_used_by(self, store: OrgStore, changed: Changed) -> bool:
        """Say whether a job changed that may have used this plan up, or made its state another."""
        if self._job.get("type") != "PLAN" or self._job.get("status") != "SUCCEEDED":
            return False
        rows = (store.row("provision_jobs", job_id) or {} for job_id in changed.ids("provision_jobs"))
        return any(row.get("module_id") == self._job.get("module_id") for row in rows)

    async def _renew(self, store: OrgStore, changed: Changed) -> None:
        live = store.row("provision_jobs", str(self._job["id"]))
        if live is not None and str(live.get("updated_at")) >= str(self._job.get("updated_at")):
            self._job = {**self._job, **live}
        if self._job.get("is_followed"):
            await self._read_job()
        # What was read must belong to this row: also after a read that failed, or one that came too early. Before the
        # channel was joined nobody told of approvals, comments and members.
        if self._read_for != _mark_of(self._job) or {"approvals", AGAIN} & changed.tables.keys():
            await self._read_around()
            await self._read_heavy()
            self.log_seq += 1
        self._show_job(await self._names(), await self._at_work())

    async def _names(self) -> dict[str, str]:
        """Name the runner that a lifecycle job acts on."""
        target = str(self._job.get("target_worker_id") or "")
        if target and target not in self._named:
            query = Query(columns="name", filters=(Filter("id", "eq", target),), limit=1)
            rows = (await self._select("workers", query)).rows
            self._named = {target: str(rows[0]["name"])} if rows else {}
        return self._named

    async def _at_work(self) -> Row:
        """Know the engines and the isolation of the instance at work; one that connected later may have others."""
        instance = str(self._job.get("instance_id") or "")
        if not instance:
            return {}
        if instance != self._instance[0]:
            since = Filter("connected_at", "lte", str(self._job.get("claimed_at")))
            query = Query(
                columns="engines,isolation:facts->>isolation", filters=(Filter("id", "eq", instance), since), limit=1
            )
            rows = (await self._select("worker_instances", query)).rows
            self._instance = (instance, rows[0] if rows else {})
        return self._instance[1]

    def _show_job(self, names: dict[str, str], instance: Row) -> None:
        job = self._job
        self._assign("view", detail.build_view(job, names, self._events, instance, self._numbers))
        self._assign("stages", build_stages(job, self._own_plan(), self._events))
        self._assign("line", json.dumps(dataclasses.asdict(timeline.build(job, self._events))))
        self._show_log()
        self._assign("approvals_required", int(job.get("approvals_required") or 0))
        self._assign("approvals_received", int(job.get("approvals_received") or 0))
        self._assign("outputs", detail.build_outputs(job))
        self._show_late(job.get("late_report"))
        self._show_plan()
        self._show_events()

    def _show_log(self) -> None:
        """Show the log of the phase that was chosen: the job's own, or while it has none, its plan's."""
        plan, has_own = self._own_plan(), bool(self._job.get("attempt"))
        self._assign("phases", ["PLAN", str(self._job["type"])] if plan and has_own else [])
        is_own = not (self._plan_job and (self.phase == "PLAN" or not has_own))
        job = self._job if is_own else self._plan_job
        self._assign("log_job", int(job["id"]))
        self._assign("log_attempt", int(job.get("attempt") or 0))
        self._assign("log_status", str(job["status"]))
        self._assign("log_steps", detail.log_steps(job, self._events if is_own else self._plan_events))
        self._assign("log_note", detail.log_note(self._job))
        self._assign("log_main", detail.MAIN_STEP.get(str(job["type"]), ""))

    def _own_plan(self) -> Row:
        """The plan with the job's own number; a retry applies another run's."""
        return self._plan_job if self._plan_job.get("number") == self._job.get("number") else {}

    @rx.event
    def show_phase(self, phase: str | list[str]) -> None:
        """Show the log of the plan, or of what applies it."""
        if phase in self.phases:
            self.phase = str(phase)
            self._show_log()

    def _show_plan(self) -> None:
        shown_job = reviews.with_plan(self._job, self._plan_job)
        built = plans.build(shown_job, self._opened)
        self._assign("plan_words", plans.sentence(built))
        self._assign("planned", reviews.planned(self._job, self._plan_job, self.state.serial))
        shown = built.resources if self.is_all_resources else built.resources[:FEW_RESOURCES]
        self._assign("plan", dataclasses.replace(built, resources=shown))
        self._assign("more_resources", len(built.resources) - len(shown))

    def _show_events(self) -> None:
        built = detail.build_events([*self._plan_events, *self._events])
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
            await self._ask(*([wanted] if wanted is not None else []))

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

    async def _ask_why(self) -> None:
        if self._job.get("status") != "QUEUED":
            self._assign("why", queue.Why())
            return
        if time.monotonic() - self._asked_at < ASK_EVERY_SECONDS:
            return
        self._asked_at = time.monotonic()
        answer = await self._rpc("explain_queue", {"p_job": int(self._job["id"])})
        self.why = queue.build(answer, datetime.now(UTC).isoformat())

    async def _reload(self) -> None:
        """Read the job again after something was done to it, without waiting for the doorbell."""
        who = await self._who()
        session = await who._must_session()
        await self._read_job()
        await self._read_around()
        self._asked_at = 0.0
        await self._show(await runtime().hub.open(who.org_id, session), EVERYTHING)

    @rx.event
    def show_resources(self) -> None:
        """Show all resources of the plan, or only the first few again."""
        self.is_all_resources = not self.is_all_resources
        self._show_plan()

    @rx.event
    async def open_resource(self, address: str) -> rx.event.EventSpec | None:
        """Unfold a resource to what changes in it, or fold it again."""
        if not self.is_found:
            return None
        opened = {key: value for key, value in self._opened.items() if key != address}
        if len(opened) == len(self._opened):
            args = {"p_job": int(self._job["id"]), "p_address": address[:2000]}
            try:
                answer = await self._rpc("plan_changes", args)
            except AppError as error:
                return say_error(error)
            opened[address] = reviews.changes(answer)
        self._opened = opened
        self._show_plan()
        return None

    @rx.event
    def fold_line(self) -> None:
        """Show each step of the timeline, or all of it on one line."""
        self.is_line_open = not self.is_line_open

    @rx.event
    def show_events(self) -> None:
        """Show everything that happened, or only the newest again."""
        self.is_all_events = not self.is_all_events
        self._show_events()

    @rx.event
    async def check_again(self) -> None:
        """Ask once more why the job waits."""
        self._asked_at = 0.0
        try:
            await self._ask_why()
        except AppError:
            self._asked_at = time.monotonic()


def _mark_of(job: Row) -> tuple[str, ...]:
    """Name what events and decisions follow from: when it differs, there are new ones."""
    names = ("status", "attempt", "phase", "approvals_received", "cancel_kind")
    return tuple(str(job.get(name) or "") for name in names)
