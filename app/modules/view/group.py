"""A group's page: who serves it in which order, and how its modules are."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from app.modules.view.module import is_below
from app.modules.view.tree import result

Row = Mapping[str, Any]

MOST_MODULES = 200


class GroupRunner(TypedDict):
    """A runner that serves a group, with why it stands where it does."""

    id: str
    name: str
    status: str
    why: str


class GroupModule(TypedDict):
    """A module below a group."""

    path: str
    name: str
    status: str
    words: str
    drift: str
    job: str
    ended_at: str


def prefixes(path: str) -> list[str]:
    """List a path and everything above it, nearest first; the empty one is all modules."""
    parts = path.split("/")
    return ["/".join(parts[:at]) for at in range(len(parts), 0, -1)] + [""]


def runners(path: str, workers: Sequence[Row], assignments: Iterable[Row]) -> list[GroupRunner]:
    """Order the runners that serve a group as they are tried: the nearest first, shared ones last."""
    served: dict[str, list[str]] = {}
    for row in assignments:
        served.setdefault(str(row["worker_id"]), []).append(str(row["path"]))
    ranked = [(_rank(path, worker, served.get(str(worker["id"]), [])), worker) for worker in workers]
    fits = sorted(
        ((rank, worker) for rank, worker in ranked if rank), key=lambda fit: (-fit[0][0], str(fit[1]["name"]))
    )
    return [_runner(worker, rank[1]) for rank, worker in fits]


def _rank(path: str, worker: Row, served: Iterable[str]) -> tuple[int, str] | None:
    above = [at for at in served if is_below(path, at)]
    if worker.get("is_shared"):
        return -1, "Shared: tried when no own runner can"
    if above:
        nearest = max(above, key=lambda at: at.count("/") + 1 if at else 0)
        depth = nearest.count("/") + 1 if nearest else 0
        return depth, f"Assigned to {nearest}" if nearest else "Assigned to all modules"
    return (0, "Serves all modules") if worker.get("is_assigned_to_all_modules") else None


def _runner(worker: Row, why: str) -> GroupRunner:
    is_off = bool(worker.get("is_disabled"))
    return {
        "id": str(worker["id"]),
        "name": str(worker["name"]),
        "status": str(worker.get("status") or ""),
        "why": f"{why}. Disabled." if is_off else f"{why}.",
    }


def modules(path: str, rows: Iterable[Row]) -> list[GroupModule]:
    """List the modules below a group."""
    below = [row for row in rows if str(row["path"]).startswith(f"{path}/")]
    return [_module(row) for row in below[:MOST_MODULES]]


def summary(rows: Sequence[Row], total: int) -> str:
    """Say what is wrong below a group; nothing where not all of its modules are known."""
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
    return {
        "path": str(row["path"]),
        "name": str(row["name"]),
        "status": status,
        "words": result(status, str(last.get("type") or "")),
        "drift": f"Drift in {drifted}" if row.get("drift_since") else "",
        "job": str(last.get("number") or ""),
        "ended_at": str(last.get("finished_at") or ""),
    }
