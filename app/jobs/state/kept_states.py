"""A person's decision about a state that was not stored."""

from typing import Any

import reflex as rx

from app.frame.session import AppState, puts
from app.jobs.state.job import JobState

QUESTIONS = {
    "store": "It becomes the module's state, as its newest version. Later versions stay in the history.",
    "discard": "It is deleted for good. Resources that only it knew of are not destroyed, and no state tracks them.",
}


class KeptStatesState(AppState, rx.State):
    kind: str = ""
    kept_id: str = ""
    title: str = ""
    effect: str = ""

    # Decide nothing; also called when a page opens, because page states outlive a reload.
    close = puts(kind="", kept_id="", title="", effect="")

    @rx.event
    async def ask(self, kind: str, kept_id: str) -> None:
        page = await self.get_state(JobState)
        kept = next((kept for kept in page.kept if kept["id"] == kept_id and kept["is_open"]), None)
        if kind in QUESTIONS and kept is not None:
            self.kind, self.kept_id, self.title, self.effect = kind, kept_id, kept["title"], QUESTIONS[kind]

    @rx.event
    async def store(self) -> Any:
        return await self._decide("store_kept_state", "Stored", "It is the module's state now.")

    @rx.event
    async def discard(self) -> Any:
        return await self._decide("discard_kept_state", "Discarded", "")

    async def _decide(self, name: str, title: str, text: str) -> Any:
        kept_id = self.kept_id
        self.close()
        if not kept_id:
            return None
        await self._rpc(name, {"p_id": kept_id})
        await (await self.get_state(JobState))._renew()
        return rx.toast.success(title, description=text)
