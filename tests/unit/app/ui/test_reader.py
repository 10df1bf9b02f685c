"""Rows of the database as the types that pages show."""

from dataclasses import dataclass
from typing import TypedDict

from app.ui.view import read


class Seen(TypedDict):
    """A view with a field of each kind."""

    name: str
    number: int
    is_on: bool
    labels: list[str]


def test_absent_and_null_fields_are_empty_values_of_their_type() -> None:
    assert read(Seen, {"name": None}) == {"name": "", "number": 0, "is_on": False, "labels": []}


def test_fields_have_the_declared_types_and_others_are_left_out() -> None:
    row = {"name": 7, "number": "12", "is_on": 1, "labels": ("a", "b"), "secret": "x"}
    assert read(Seen, row) == {"name": "7", "number": 12, "is_on": True, "labels": ["a", "b"]}


def test_made_fields_win_over_the_row_and_are_read_alike() -> None:
    row = {"name": "old", "number": 1}
    assert read(Seen, row, name="new", number=None)["name"] == "new"
    assert read(Seen, row, name="new", number=None)["number"] == 0


@dataclass(frozen=True)
class Kept:
    """A view that is an object."""

    name: str = ""
    parts: tuple[str, ...] = ()


def test_an_object_is_read_like_a_dict() -> None:
    assert read(Kept, {"name": 7, "parts": ["a"], "secret": "x"}) == Kept("7", ("a",))
    assert read(Kept, {}) == Kept()
