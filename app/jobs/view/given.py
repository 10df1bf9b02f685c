"""The variables that a job was given: names, paths and versions, never values."""

from typing import TypedDict

from app.project.models import Row


class GivenView(TypedDict):
    name: str
    source: str
    note: str


def build_given(row: Row) -> GivenView:
    path = row.get("path")
    source = "given with the request" if path is None else f"{path or 'the organisation'}, version {row['version']}"
    marks = (("enforced", row.get("is_enforced")), ("sealed", row.get("is_sealed")))
    # A value of a request is never current; so that needs no mark.
    later = ["changed since"] if path is not None and not row.get("is_current") else []
    return {
        "name": str(row["name"]),
        "source": source,
        "note": ", ".join([word for word, is_so in marks if is_so] + later),
    }
