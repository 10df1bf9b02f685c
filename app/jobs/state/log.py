"""The log on a job's page: the plan's, then that of the job that applies it."""

import json

from app.frame.session import AppState
from app.jobs.view import detail
from app.project.models import Row
from app.ui.view import TYPE_WORDS


class LogPart(AppState, mixin=True):
    log_job: int = 0
    log_attempt: int = 0
    log_day: str = ""
    log_status: str = ""
    log_steps: str = "[]"
    log_seq: int = 0
    log_main: str = ""
    log_note: str = ""
    log_plan: str = ""
    log_phase: str = ""
    _job: Row = {}
    _plan_job: Row = {}
    _events: list[Row] = []

    def _show_log(self) -> None:
        """Show the job's own log after its plan's; while it has none, the plan's alone."""
        has_own = bool(self._job.get("attempt"))
        job = self._job if has_own or not self._plan_job else self._plan_job
        self._assign("log_plan", self._plan_log() if has_own else "")
        self._assign("log_phase", TYPE_WORDS.get(str(self._job["type"]), ""))
        self._assign("log_job", int(job["id"]))
        self._assign("log_attempt", int(job.get("attempt") or 0))
        # All chunks of an attempt have the day of its claim, so that a read touches one partition.
        self._assign("log_day", str(job.get("log_day") or ""))
        self._assign("log_status", str(job["status"]))
        self._assign("log_steps", json.dumps(detail.log_steps(job, self._events_of(job))))
        self._assign("log_note", detail.log_note(self._job))
        self._assign("log_main", detail.MAIN_STEP.get(str(job["type"]), ""))

    def _plan_log(self) -> str:
        """The log of the run's plan as the browser reads it; empty without one."""
        plan = self._own_plan()
        if not plan.get("attempt"):
            return ""
        steps = detail.log_steps(plan, self._events_of(plan))
        found = {"job": plan["id"], "attempt": plan["attempt"], "day": str(plan.get("log_day") or ""), "steps": steps}
        return json.dumps(found)

    def _events_of(self, job: Row) -> list[Row]:
        return [event for event in self._events if event["job_id"] == job["id"]]

    def _own_plan(self) -> Row:
        """The plan with the job's own number; a retry applies another run's."""
        return self._plan_job if self._plan_job.get("number") == self._job.get("number") else {}
