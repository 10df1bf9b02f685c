"""The actions on a rollout: pause, resume, abort."""

from typing import Any

import reflex as rx

from app.frame.session import AppState, puts, takes


class RolloutState(AppState, rx.State):
    aborting: str = ""

    ask_abort = takes("aborting")
    keep = puts(aborting="")

    @rx.event
    async def pause(self, rollout_id: str) -> rx.event.EventSpec | None:
        """Begin no further wave."""
        args = {"p_rollout": rollout_id}
        return await self._act("pause_rollout", args, "The rollout is paused", "Updates that have begun continue.")

    @rx.event
    async def resume(self, rollout_id: str) -> rx.event.EventSpec | None:
        """Go on; what failed stays as it is."""
        args, text = {"p_rollout": rollout_id}, "Runners that failed stay as they are."
        return await self._act("resume_rollout", args, "The rollout continues", text)

    @rx.event
    async def abort(self) -> Any:
        """End the rollout; runners that were updated stay updated."""
        rollout_id, self.aborting = self.aborting, ""
        if not rollout_id:
            return None
        args = {"p_rollout": rollout_id}
        return await self._act("abort_rollout", args, "The rollout is aborted", "Updated runners stay updated.")
