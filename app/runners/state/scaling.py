"""Scaling on a cloud-hosted runner's page: its limits, and what was decided."""

from typing import Any

import reflex as rx

from app.frame.session import AppState
from app.project.models import Row
from app.runners.view.scaling import Decision, Limits, build_decisions, check_limits, read_limits


class RunnerScalingState(AppState, rx.State):
    worker_id: str = ""
    limits: Limits = {"min": "", "max": "", "jobs_per_task": "", "idle_seconds": ""}
    errors: dict[str, str] = {}
    decisions: list[Decision] = []
    revision: int = 0

    def _show(self, worker: Row, decisions: list[Row]) -> None:
        """Show the runner's limits and its newest decisions; called by the runner's page."""
        limits = read_limits(worker)
        if (self.worker_id, self.limits) != (str(worker["id"]), limits):
            self.worker_id, self.limits, self.errors = str(worker["id"]), limits, {}
            # A new key, so that the inputs show what is stored and not what was typed.
            self.revision += 1
        self._assign("decisions", build_decisions(decisions))

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        checked = check_limits(form)
        self.errors = checked.errors
        if checked.errors or not self.worker_id:
            return None
        args = {"p_worker": self.worker_id, "p_options": {"scaling": checked.spec}}
        return await self._act("update_worker", args, "Saved", "The next decision follows it.")
