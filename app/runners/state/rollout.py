"""The actions on a rollout: pause, resume, abort."""

from typing import Any

import reflex as rx

from app.frame.session import AppState, say_error
from app.project.errors import AppError


class RolloutState(AppState, rx.State):
    """The confirmation before a rollout is aborted."""

    aborting: str = ""

    async def _do(self, name: str, rollout_id: str, said: str, more: str) -> rx.event.EventSpec:
        try:
            await self._rpc(name, {"p_rollout": rollout_id})
        except AppError as error:
            return say_error(error)
        return rx.toast.success(said, description=more)

    @rx.event
    async def pause(self, rollout_id: str) -> rx.event.EventSpec:
        """Begin no further wave."""
        return await self._do("pause_rollout", rollout_id, "The rollout is paused", "Updates that have begun continue.")

    @rx.event
    async def resume(self, rollout_id: str) -> rx.event.EventSpec:
        """Go on; what failed stays as it is."""
        return await self._do(
            "resume_rollout", rollout_id, "The rollout continues", "Runners that failed stay as they are."
        )

    @rx.event
    def ask_abort(self, rollout_id: str) -> None:
        """Ask before it is aborted."""
        self.aborting = rollout_id

    @rx.event
    def keep(self) -> None:
        """Abort nothing."""
        self.aborting = ""

    @rx.event
    async def abort(self) -> Any:
        """End the rollout; runners that were updated stay updated."""
        rollout_id, self.aborting = self.aborting, ""
        if not rollout_id:
            return None
        return await self._do("abort_rollout", rollout_id, "The rollout is aborted", "Updated runners stay updated.")
