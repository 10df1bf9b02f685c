"""Rows of the database as the types that pages show, which are declared once."""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_origin, get_type_hints

Row = Mapping[str, Any]
View = TypeVar("View")

_types = cache(get_type_hints)


def read(view: type[View], row: Row, **made: Any) -> View:
    """Read a row as a view: `made` has the fields that are not the row's own; an absent one is empty, 0 or False."""
    kinds = _types(view).items()  # type: ignore[arg-type]
    found = {name: made[name] if name in made else row.get(name) for name, _ in kinds}
    return view(**{name: _as(get_origin(kind) or kind, found[name]) for name, kind in kinds})


def _as(kind: Any, value: Any) -> Any:
    return kind() if value is None else kind(value)
