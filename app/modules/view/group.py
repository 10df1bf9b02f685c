"""A group's page: who serves it in which order, and how its modules are."""

from collections.abc import Iterable, Sequence
from typing import TypedDict

from app.ui.view import Row, read

MOST_MODULES = 200
# So many are on the first page of a group.
FIRST = 8


class GroupRunner(TypedDict):
    """A runner that serves a group, with why it stands where it does."""

    id: str
    name: str
    status: str
    why: str
    is_here: bool


class GroupModule(TypedDict):
    path: str
    name: str
    status: str
    drift: str
    job: str
    ended_at: str


def runner(row: Row, path: str) -> GroupRunner:
    """Explain a runner's place in the order in which runners are tried."""
    assigned = row.get("path")
    if row.get("is_shared"):
        why = "Shared: tried when no own runner can"
    elif assigned:
        why = f"Assigned to {assigned}"
    else:
        why = "Assigned to all modules" if assigned == "" else "Serves all modules"
    return read(
        GroupRunner, row, why=f"{why}. Disabled." if row.get("is_disabled") else f"{why}.", is_here=assigned == path
    )


def modules(path: str, rows: Iterable[Row]) -> list[GroupModule]:
    below = [row for row in rows if str(row["path"]).startswith(f"{path}/")]
    return [_module(row) for row in below[:MOST_MODULES]]


def first(modules: Iterable[GroupModule]) -> list[GroupModule]:
    """Pick what needs somebody, and then what changed last."""

    def rank(one: GroupModule) -> tuple[bool, str]:
        return one["status"] in ("FAILED", "NEEDS_ATTENTION") or one["drift"] != "", one["ended_at"]

    return sorted(modules, key=rank, reverse=True)[:FIRST]


def summary(rows: Sequence[Row], total: int) -> str:
    """Describe what is wrong below a group; nothing where not all of its modules are known."""
    if total > len(rows):
        return ""
    ends = [str((row.get("last_job") or {}).get("status") or "") for row in rows]
    drifted = sum(1 for row in rows if row.get("drift_since"))
    failed, lost = ends.count("FAILED"), ends.count("NEEDS_ATTENTION")
    said = [
        (drifted, f"{drifted} {'has' if drifted == 1 else 'have'} drift"),
        (failed, f"{failed} failed"),
        (lost, f"{lost} {'needs' if lost == 1 else 'need'} attention"),
    ]
    return ", ".join(words for number, words in said if number)


def _module(row: Row) -> GroupModule:
    last = row.get("last_job") or {}
    status, drifted = str(last.get("status") or ""), int(row.get("drift_resources") or 0)
    return read(
        GroupModule,
        row,
        status=status,
        drift=f"Drift in {drifted}" if row.get("drift_since") else "",
        job=last.get("number"),
        ended_at=last.get("finished_at"),
    )
