"""Items that are added, edited and removed in dialogs."""

from dataclasses import dataclass
from typing import Any, ClassVar

import reflex as rx

from app.frame.session import AppState, puts
from app.live.page import LivePage
from app.project.models import BrowserSession
from app.ui.form.fields import Checked


class Listed(AppState, mixin=True):
    """A list, `rows`, whose items have an id and a name."""

    def _find(self, key: str) -> Any | None:
        return next((row for row in self.get_value("rows") if row["id"] == key), None)


class OpenForm(Listed, mixin=True):
    """A form that is open or not, with the fields that are wrong."""

    is_open: bool = False
    errors: dict[str, str] = {}
    revision: int = 0

    def _draw_form(self) -> None:
        """Open the form; it is drawn again, so that nothing typed before stays in it."""
        self.is_open, self.errors = True, {}
        self.revision += 1

    @rx.event
    def set_open(self, is_open: bool) -> None:
        self.is_open = is_open and self.is_open


class ItemForm(OpenForm, LivePage, mixin=True):
    """A page of items, each with an id and a name, and the form that is open or not."""

    EMPTY: ClassVar[Any] = {}

    is_new: bool = True

    def _fill(self, chosen: Any, *, is_new: bool) -> None:
        self.chosen, self.is_new = chosen, is_new
        self._draw_form()

    def _is_refused(self, checked: Checked) -> bool:
        """Show what is wrong with the form; one that was closed meanwhile is not saved either."""
        self.errors = checked.errors
        return bool(checked.errors) or not self.is_open

    @rx.event
    def add(self) -> None:
        self._fill(self.EMPTY, is_new=True)

    @rx.event
    def edit(self, key: str) -> None:
        found = self._find(key)
        if found is not None:
            self._fill(found, is_new=False)


@dataclass(frozen=True)
class Removal:
    """The removal of an item: the database's function, the argument that takes the item's id, and the toast."""

    function: str
    argument: str
    said: str
    text: str = ""


class Removing(Listed, mixin=True):
    """A list whose items are removed after a question; the toast may name the item."""

    REMOVAL: ClassVar[Removal]

    removing: str = ""
    removing_name: str = ""

    keep = puts(removing="", removing_name="")

    async def _removal_arguments(self, found: Any) -> dict[str, Any]:
        return {self.REMOVAL.argument: found["id"]}

    @rx.event
    def ask_remove(self, key: str) -> None:
        found = self._find(key)
        if found is not None:
            self.removing, self.removing_name = key, found["name"]

    @rx.event
    async def remove(self) -> rx.event.EventSpec | None:
        found, self.removing = self._find(self.removing), ""
        if found is None:
            return None
        how, args = self.REMOVAL, await self._removal_arguments(found)
        return await self._act(how.function, args, how.said.format(found["name"]), how.text)


class Items(Removing, ItemForm, mixin=True):
    async def _prepare(self, session: BrowserSession) -> None:
        """Close what was open before a reload: states outlive it."""
        self.is_open, self.removing = False, ""
