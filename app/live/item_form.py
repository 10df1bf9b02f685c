"""Items that are added, edited and removed in dialogs."""

from typing import Any, ClassVar

import reflex as rx

from app.frame.session import AppState, say_error
from app.live.page import LivePage
from app.project.errors import AppError


class OpenForm(AppState, mixin=True):
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
        """Close the form; nothing is saved."""
        self.is_open = is_open and self.is_open


class ItemForm(OpenForm, LivePage, mixin=True):
    """A page of items, each with an id and a name, and the form that is open or not."""

    EMPTY: ClassVar[Any] = {}

    is_new: bool = True

    def _fill(self, chosen: Any, *, is_new: bool) -> None:
        """Open the form with an item."""
        self.chosen, self.is_new = chosen, is_new
        self._draw_form()

    def _find(self, key: str) -> Any | None:
        return next((row for row in self.get_value("rows") if row["id"] == key), None)

    @rx.event
    def add(self) -> None:
        """Open an empty form."""
        self._fill(self.EMPTY, is_new=True)

    @rx.event
    def edit(self, key: str) -> None:
        """Open the form of an item."""
        found = self._find(key)
        if found is not None:
            self._fill(found, is_new=False)


class Items(ItemForm, mixin=True):
    """Items that are removed here, too, after a question."""

    removing: str = ""
    removing_name: str = ""

    @rx.event
    def ask_remove(self, key: str) -> None:
        """Ask before an item is removed."""
        found = self._find(key)
        if found is not None:
            self.removing, self.removing_name = key, found["name"]

    @rx.event
    def keep(self) -> None:
        """Remove nothing."""
        self.removing = self.removing_name = ""

    async def _act(self, name: str, args: dict[str, Any], said: str) -> rx.event.EventSpec | None:
        """Change an item, and show the result if there is one to show."""
        try:
            await self._rpc(name, args)
            await self._again()
        except AppError as error:
            return say_error(error)
        return rx.toast.success(said) if said else None
