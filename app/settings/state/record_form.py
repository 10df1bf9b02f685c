"""Records of the settings that are added and edited in a dialog."""

from typing import Any, ClassVar

import reflex as rx

from app.live.page import LivePage


class RecordForm(LivePage, mixin=True):
    """A page of records, each with an id and a name, and the form that is open or not."""

    EMPTY: ClassVar[Any] = {}

    is_open: bool = False
    is_new: bool = True
    errors: dict[str, str] = {}
    revision: int = 0

    def _fill(self, chosen: Any, *, is_new: bool) -> None:
        """Open the form with a record; the form is drawn anew, so that nothing typed before stays in it."""
        self.chosen, self.is_new, self.is_open, self.errors = chosen, is_new, True, {}
        self.revision += 1

    def _find(self, key: str) -> Any | None:
        return next((row for row in self.get_value("rows") if row["id"] == key), None)

    @rx.event
    def add(self) -> None:
        """Open an empty form."""
        self._fill(self.EMPTY, is_new=True)

    @rx.event
    def edit(self, key: str) -> None:
        """Open the form of a record."""
        found = self._find(key)
        if found is not None:
            self._fill(found, is_new=False)

    @rx.event
    def set_open(self, is_open: bool) -> None:
        """Close the form; nothing is saved."""
        self.is_open = is_open and self.is_open
