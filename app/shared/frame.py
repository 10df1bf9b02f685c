"""What every page behind the sign-in begins with."""

import reflex as rx

from app.shared.palette.state import PaletteState
from app.shared.runner.actions import RunnerActionState
from app.shared.session import Sparing


class FrameState(Sparing, rx.State):
    """The frame around a page, with the dialogs that all pages have."""

    @rx.event
    async def open(self) -> rx.event.EventSpec | None:
        """Close what was asked on another page or before a reload; what was opened here, before the page was loaded, stays."""
        (await self.get_state(PaletteState))._leave()
        return (await self.get_state(RunnerActionState))._leave()
