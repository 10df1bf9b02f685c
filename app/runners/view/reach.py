"""The reach of a runner: the modules that it serves, and those that only it serves."""

from collections.abc import Iterable
from dataclasses import dataclass

from app.ui.view import Row, is_below


@dataclass(frozen=True)
class Reach:
    """The number of modules that a runner serves: those with another runner, and those without."""

    shared: int = 0
    alone: int = 0


def serves(worker: Row, paths: Iterable[str], module: Row) -> bool:
    """Return whether a runner may take the jobs of a module, whatever state it is in."""
    if not set(module.get("labels") or []) <= set(worker.get("labels") or []):
        return False
    pinned = module.get("pinned_worker_id")
    if pinned and str(pinned) != str(worker["id"]):
        return False
    if worker.get("is_shared") or worker.get("is_assigned_to_all_modules"):
        return True
    return any(is_below(str(module["path"]), path) for path in paths)


def is_willing(worker: Row) -> bool:
    """Return whether a runner would take new jobs while it is online."""
    return not (worker.get("is_disabled") or worker.get("is_draining") or worker.get("removed_at"))


def reach_of(worker_id: str, workers: Iterable[Row], assignments: Iterable[Row], modules: Iterable[Row]) -> Reach:
    """Count the modules that would have another runner without this one, and those that would not."""
    paths: dict[str, list[str]] = {}
    for row in assignments:
        paths.setdefault(str(row["worker_id"]), []).append(str(row["path"]))
    fleet = [(worker, paths.get(str(worker["id"]), [])) for worker in workers]
    mine = [pair for pair in fleet if str(pair[0]["id"]) == worker_id]
    others = [pair for pair in fleet if str(pair[0]["id"]) != worker_id and is_willing(pair[0])]
    served = [module for module in modules if any(serves(*pair, module) for pair in mine)]
    shared = sum(any(serves(*pair, module) for pair in others) for module in served)
    return Reach(shared, len(served) - shared)


def say_reach(reach: Reach) -> str:
    """Describe who takes over: '4 modules have another runner, 2 have none and will wait.'"""
    if reach.shared + reach.alone == 0:
        return "No module depends on it."
    if reach.alone == 0:
        return f"Every module it serves ({reach.shared}) has another runner."
    verb = "has" if reach.shared == 1 else "have"
    noun = "module" if reach.shared == 1 else "modules"
    if reach.shared == 0:
        alone = "1 module it serves has" if reach.alone == 1 else f"The {reach.alone} modules it serves have"
        return f"{alone} no other runner and will wait."
    none = "1 has none" if reach.alone == 1 else f"{reach.alone} have none"
    return f"{reach.shared} {noun} {verb} another runner, {none} and will wait."
