"""The connected repository that a module follows: its panel, and the fields of its form."""

from collections.abc import Iterable
from typing import Any, TypedDict

from app.triggers.view.triggers import APPLY_MODES, watched_folders
from app.ui.view import Row, count, read

# The choice that removes a mode: the group above decides.
INHERIT = "inherit"


class RepositoryView(TypedDict):
    """The repository panel of a module, and the fields of its form; without a name there is none."""

    id: str
    name: str
    branch: str
    own_branch: str
    own_paths: str
    own_apply: str
    is_on: bool
    watched: list[str]
    seen: str
    seen_at: str
    applied: str
    applied_at: str
    ahead: str
    applies: str
    seen_href: str
    applied_href: str
    note: str
    folder: str
    moved_to: str


def build(row: Row | None) -> RepositoryView:
    """Read the repository of module_page's answer; none is for a module whose repository is not connected."""
    row = row or {}
    is_own = bool(row.get("path")) and row.get("apply_from") == row.get("path")
    return read(
        RepositoryView,
        row,
        name=row.get("repository"),
        branch=row.get("branch") or "the default branch",
        own_branch=row.get("branch"),
        own_paths="\n".join(row.get("paths") or []),
        own_apply=str(row.get("apply")) if is_own else INHERIT,
        is_on=row.get("is_on", True),
        watched=watched_folders(row),
        seen=str(row.get("seen_commit") or "")[:7],
        applied=str(row.get("applied_commit") or "")[:7],
        ahead=_ahead(row),
        applies=_applies(row.get("apply"), row.get("apply_from"), str(row.get("path") or "")),
        seen_href=_change(row, "seen_commit"),
        applied_href=_change(row, "applied_commit"),
        note=_note(row),
    )


def read_form(view: RepositoryView, form: Row) -> dict[str, Any]:
    """Return what a person changed, as set_module_git expects it: an unchanged branch stays the one of the source."""
    branch, apply = str(form.get("branch") or "").strip(), str(form.get("apply") or INHERIT)
    paths = [line.strip() for line in str(form.get("paths") or "").splitlines() if line.strip()]
    said = {
        "branch": (branch or None, view["own_branch"] or None),
        "paths": (paths, view["own_paths"].splitlines()),
        "apply": (None if apply == INHERIT else apply, None if view["own_apply"] == INHERIT else view["own_apply"]),
        "is_on": (bool(form.get("is_on")), view["is_on"]),
    }
    return {name: new for name, (new, old) in said.items() if new != old}


def group_applies(groups: Iterable[Row], path: str) -> str:
    """When modules of a group apply, and which group above it decides so."""
    above = [row for row in groups if row.get("git_apply") and f"{path}/".startswith(f"{row['path']}/")]
    nearest = max(above, key=lambda row: len(str(row["path"])), default=None)
    return _applies(nearest["git_apply"], nearest["path"], path) if nearest else _applies(None, None, path)


def _applies(mode: Any, source: Any, path: str) -> str:
    words = APPLY_MODES.get(str(mode or "after_merge"), str(mode))
    return f"{words}, set by {source}" if source and source != path else words


def _change(row: Row, key: str) -> str:
    return f"/dashboard/changes/{row.get('connection_id')}/{row[key]}" if row.get(key) else ""


def _ahead(row: Row) -> str:
    ahead = row.get("commits_ahead")
    if not ahead:
        return ""
    return f"{row.get('branch') or 'The default branch'} is {count(int(ahead), 'commit')} ahead"


def _note(row: Row) -> str:
    if not row.get("is_on", True):
        return "Pushes do not plan it: it is switched off."
    if row.get("error"):
        return f"The repository cannot be read: {row['error']}"
    if row.get("problem"):
        return f"{row['problem']} Until it has a folder again, pushes plan nothing."
    return "Pushes plan it; such plans are never applied." if row.get("apply") == "never" else ""
