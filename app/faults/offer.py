"""Whether something may be broken here: only in the demo organisation, where what started it answers."""

from typing import Any

import reflex as rx

from app.frame.session import AppState
from app.project.errors import AppError
from app.project.launcher import ask
from app.project.runtime import runtime

PAGE = "/dashboard/break-something"


async def read_faults(org_id: str) -> dict[str, Any]:
    """Read the launcher's answer about its demo; empty in another organisation, or where there is no launcher."""
    try:
        answer = await ask(runtime().settings.faults_socket, {"do": "read"})
    except AppError:
        return {}
    return answer if org_id and answer.get("organisation") == org_id else {}


class FaultsOfferState(AppState, rx.State):
    """Whether the button is shown."""

    is_offered: bool = False

    @rx.event
    async def load(self) -> None:
        """Ask when the page opens."""
        self._assign("is_offered", bool(await read_faults(await self._org_id())))
