"""The actions on a rollout: pause, resume, abort."""

from typing import Any

import reflex as rx

from app.frame.session import AppState, acts, puts, takes


class RolloutState(AppState, rx.State):
    aborting: str = ""

    ask_abort = takes("aborting")
    keep = puts(aborting="")
    pause = acts("pause_rollout", "p_rollout", "The rollout is paused", "Updates that have begun continue.")
    resume = acts("resume_rollout", "p_rollout", "The rollout continues", "Runners that failed stay as they are.")

    @rx.event
    async def abort(self) -> Any:
        """End the rollout; runners that were updated stay updated."""
        rollout_id, self.aborting = self.aborting, ""
        if not rollout_id:
            return None
        args = {"p_rollout": rollout_id}
        return await self._act("abort_rollout", args, "The rollout is aborted", "Updated runners stay updated.")
