"""The palette, open or not, and what it found."""

import asyncio

import reflex as rx

from app.project.errors import AppError
from app.shared.palette import view
from app.shared.palette.view import Group
from app.shared.session import AppState


class PaletteState(AppState, rx.State):
    """What was typed, and what there is of it."""

    is_open: bool = False
    text: str = ""
    groups: list[Group] = []
    problem: str = ""

    @rx.event
    async def show(self) -> None:
        """Open it, with the actions."""
        self.is_open = True
        await self._find("")

    @rx.event
    def set_open(self, is_open: bool) -> None:
        """Close it."""
        self.is_open = is_open and self.is_open

    @rx.event
    async def search_for(self, text: str) -> None:
        """Look for modules, runners, jobs and actions."""
        if self.is_open:
            await self._find(text[:100].strip())

    async def _find(self, text: str) -> None:
        self.text, self.problem = text, ""
        who = await self._who()
        wanted = text.removeprefix(view.ACTIONS_ONLY).strip()
        acts = view.actions(wanted, can_operate=who.can_operate, can_admin=who.can_admin)
        found = [] if not text or text.startswith(view.ACTIONS_ONLY) else await self._look(text)
        self._assign("groups", [*found, *view.group("Actions", acts, len(acts))])

    async def _look(self, text: str) -> list[Group]:
        """Ask the three lists at once; what is not answered is said, and the actions stay."""
        some = {"p_org": await self._org_id(), "p_search": text, "p_limit": view.FEW}
        try:
            modules, runners, jobs = await asyncio.gather(
                *(self._rpc(name, some) for name in ("list_modules", "list_runners", "list_jobs"))
            )
        except AppError as error:
            self.problem = error.message
            return []
        return [
            *view.group("Modules", view.modules(modules), modules["total"]),
            *view.group("Runners", view.runners(runners), runners["total"]),
            *view.group("Jobs", view.jobs(jobs), jobs["total"]),
        ]
