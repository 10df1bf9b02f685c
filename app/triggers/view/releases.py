"""Runner versions: published by CI, newest first."""

import re
from collections.abc import Mapping
from typing import Any, TypedDict

from app.frame.versions import latest, published
from app.project.store import OrgStore
from app.ui.view import read


class ReleaseRow(TypedDict):
    version: str
    first_line: str
    runners: int
    published_at: str
    is_latest: bool
    is_breaking: bool
    channel: str


def build_rows(store: OrgStore) -> list[ReleaseRow]:
    """Read all published versions, with the number of runners on each."""
    releases = store.rows("worker_releases")
    newest = latest(releases)
    runners = (store.facets.get("counts") or {}).get("version") or {}
    return [_row(row, newest, int(runners.get(str(row["version"])) or 0)) for row in published(releases)]


def _row(row: Mapping[str, Any], newest: str, runners: int) -> ReleaseRow:
    return read(
        ReleaseRow,
        row,
        first_line=first_line(str(row.get("notes") or "")),
        runners=runners,
        is_latest=row["version"] == newest,
        channel=row.get("channel") or "stable",
    )


def first_line(notes: str) -> str:
    """Take the first sentence of notes that is not a heading, without its marks."""
    for line in notes.splitlines():
        text = re.sub(r"[*_`]", "", line.strip().lstrip("-*+ "))
        if text and not line.lstrip().startswith("#"):
            return text[:120]
    return ""
