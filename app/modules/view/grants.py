"""Which modules' jobs read a module's outputs; from rows alone."""

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

Row = Mapping[str, Any]


class Reader(TypedDict):
    """A module whose jobs may read the outputs."""

    id: str
    path: str
    since: str


def readers(grants: Iterable[Row], modules: Iterable[Row]) -> list[Reader]:
    """Name the readers, by path; a module that was removed reads nothing."""
    paths = {str(row["id"]): str(row["path"]) for row in modules}
    found: list[Reader] = [
        {"id": str(row["reader_id"]), "path": paths[str(row["reader_id"])], "since": str(row.get("created_at") or "")}
        for row in grants
        if str(row["reader_id"]) in paths
    ]
    return sorted(found, key=lambda reader: reader["path"])
