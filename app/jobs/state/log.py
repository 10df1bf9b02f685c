"""The log on a job's page: of the job, or of the plan that it applies."""

import reflex as rx

from app.frame.session import AppState
from app.jobs.view import detail
from app.project.models import Row


class LogPart(AppState, mixin=True):
    """What the log is of."""

    log_job: int = 0
    log_attempt: int = 0
    log_day: str = ""
    log_status: str = ""
    log_steps: str = "[]"
    log_seq: int = 0
    log_main: str = ""
    log_note: str = ""
    phase: str = ""
    phases: list[str] = []
    _job: Row = {}
    _plan_job: Row = {}
    _events: list[Row] = []

    def _show_log(self) -> None:
        """Show the log of the phase that was chosen: the job's own, or while it has none, its plan's."""
        plan, has_own = self._own_plan(), bool(self._job.get("attempt"))
        self._assign("phases", ["PLAN", str(self._job["type"])] if plan and has_own else [])
        is_own = not (self._plan_job and (self.phase == "PLAN" or not has_own))
        job = self._job if is_own else self._plan_job
        self._assign("log_job", int(job["id"]))
        self._assign("log_attempt", int(job.get("attempt") or 0))
        # All chunks of an attempt have the day of its claim, so that a read touches one partition.
        self._assign("log_day", str(job.get("log_day") or ""))
        self._assign("log_status", str(job["status"]))
        self._assign("log_steps", detail.log_steps(job, self._events_of(job)))
        self._assign("log_note", detail.log_note(self._job))
        self._assign("log_main", detail.MAIN_STEP.get(str(job["type"]), ""))

    def _events_of(self, job: Row) -> list[Row]:
        return [event for event in self._events if event["job_id"] == job["id"]]

    def _own_plan(self) -> Row:
        """The plan with the job's own number; a retry applies another run's."""
        return self._plan_job if self._plan_job.get("number") == self._job.get("number") else {}

    @rx.event
    def show_phase(self, phase: str | list[str]) -> None:
        """Show the log of the plan, or of what applies it."""
        if phase in self.phases:
            self.phase = str(phase)
            self._show_log()
