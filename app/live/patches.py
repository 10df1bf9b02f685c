"""Keeps a table's page cheap to send: sends a few changed rows alone, over the page that the browser already has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

Row = TypeVar("Row", bound=Mapping[str, Any])

MAX_PATCHES = 8
MAX_FLASHES = 10
# One object for everybody: tabs that have the very same one are handled together.
NO_PATCHES: dict[str, Any] = {}
NO_FLASHES: dict[str, str] = {}


def over(page: list[Row], rows: list[Row]) -> tuple[list[Row], dict[str, Row]]:
    """Return what the browser needs to show `rows`: its page with patches, or another page without."""
    if len(page) != len(rows):
        return rows, {}
    patches: dict[str, Row] = {}
    for held, row in zip(page, rows, strict=True):
        if held["id"] != row["id"]:
            return rows, {}
        if held is not row and held != row:
            patches[str(row["id"])] = row
    return (rows, {}) if len(patches) > MAX_PATCHES else (page, patches)


def shown(page: Sequence[Row], patches: Mapping[str, Row]) -> dict[str, Row]:
    """The rows as the browser shows them: the page, and the patches over it."""
    return {**{str(row["id"]): row for row in page}, **patches}


def tint(flashes: Mapping[str, str], ids: Iterable[str]) -> dict[str, str]:
    """Tint rows that changed, by turns with another name, so that the same row fades once more; many are not tinted."""
    changed = list(ids)
    if not 0 < len(changed) <= MAX_FLASHES:
        return {}
    return {key: "ry-changed2" if flashes.get(key) == "ry-changed" else "ry-changed" for key in changed}


class Drawn(NamedTuple):
    """The rows and patches that bring a tab up to date, and the keys of the rows that differ."""

    rows: list[Any]
    patches: dict[str, Any]
    differing: list[str]


def draw(page: list[Row], patched: dict[str, Row], rows: list[Row]) -> Drawn:
    """Return what to send for `rows` to a tab that has `page` and the patches over it, and what differs; a new row does, too."""
    fresh, patches = over(page, rows)
    before, after = shown(page, patched), shown(fresh, patches)
    differing = [key for key, row in after.items() if before.get(key) != row]
    return Drawn(fresh, NO_PATCHES if not patches else patched if patches == patched else patches, differing)
