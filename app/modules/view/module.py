"""A module in words: facts, source and the runner that would take its jobs."""

from collections.abc import Iterable, Sequence
from typing import TypedDict

from app.jobs.view.words import ENGINE_WORDS
from app.ui.view import Row, count, is_below, read


class Pair(TypedDict):
    label: str
    value: str


class ModuleView(TypedDict):
    id: str
    name: str
    path: str
    group_path: str
    crumbs: list[Pair]
    description: str
    status: str
    engine: str
    source: str
    runner: str
    runner_note: str
    approvals: str
    is_auto_apply: bool
    can_apply_uploads: bool
    backend: str
    drift_since: str
    drift: str
    source_rows: list[Pair]


def build_view(module: Row, workers: Sequence[Row], assignments: Iterable[Row]) -> ModuleView:
    runner, note = runner_of(module, workers, assignments)
    engine = ENGINE_WORDS.get(str(module.get("engine")), str(module.get("engine") or ""))
    approvals = int(module.get("approvals_required") or 0)
    return read(
        ModuleView,
        module,
        crumbs=crumbs(str(module.get("group_path") or "")),
        status=module.get("last_job_status"),
        engine=f"{engine} {module.get('engine_version') or ''}".strip(),
        source=source_words(module),
        runner=runner,
        runner_note=note,
        approvals=f"{approvals} for apply and destroy" if approvals else "None",
        is_auto_apply=module.get("auto_apply"),
        drift=count(int(module.get("drift_resources") or 0), "resource"),
        source_rows=source_rows(module, workers),
    )


def crumbs(path: str) -> list[Pair]:
    parts = path.split("/") if path else []
    return [{"label": part, "value": "/".join(parts[: at + 1])} for at, part in enumerate(parts)]


def source_words(module: Row) -> str:
    """Describe in two words where the files come from."""
    source, kind = module.get("source") or {}, str(module.get("source_kind") or "")
    if kind == "git":
        return f"git, {source.get('ref') or 'main'}"
    return {"archive": "archive", "inline": "inline", "local": "on the runner"}.get(kind, kind)


def source_rows(module: Row, workers: Sequence[Row]) -> list[Pair]:
    """List everything about a module's files and where they run; what is not set is not listed."""
    source = module.get("source") or {}
    names = {"url": "Address", "ref": "Revision", "subfolder": "Folder", "sha256": "SHA-256", "path": "Path"}
    rows = [(label, str(source[key])) for key, label in names.items() if source.get(key)]
    if module.get("source_kind") == "inline":
        rows.append(("Files", ", ".join(sorted(source.get("files") or {}))))
    rows.append(("Extra files", ", ".join(str(file.get("path")) for file in module.get("extra_files") or [])))
    rows.append(("Hooks", ", ".join(str(name).replace("_", " ") for name in module.get("hooks") or {})))
    rows.append(("Labels", ", ".join(module.get("labels") or [])))
    rows.append(("Pinned to", _pin(module, workers) or "Not pinned"))
    return [{"label": label, "value": value or "None"} for label, value in rows]


def _pin(module: Row, workers: Sequence[Row]) -> str:
    names = {str(worker["id"]): str(worker["name"]) for worker in workers}
    parts = [names.get(str(module.get("pinned_worker_id")), ""), str(module.get("runner_instance_name") or "")]
    return " / ".join(part for part in parts if part)


def runner_of(module: Row, workers: Sequence[Row], assignments: Iterable[Row]) -> tuple[str, str]:
    """Name the runner that would take this module's jobs, and why that one; the database decides for real."""
    pinned = str(module.get("pinned_worker_id") or "")
    found = [worker for worker in workers if str(worker["id"]) == pinned]
    if found:
        return str(found[0]["name"]), "pinned"
    ranked = sorted(_fits(module, workers, assignments), key=lambda fit: (-fit[0], str(fit[1]["name"])))
    if not ranked:
        return "None", "no runner serves this path"
    nearest = [worker for rank, worker in ranked if rank == ranked[0][0]]
    if len(nearest) > 1:
        return str(nearest[0]["name"]), f"or {count(len(nearest) - 1, 'other')}"
    return str(nearest[0]["name"]), "shared" if nearest[0].get("is_shared") else "nearest"


def _fits(module: Row, workers: Sequence[Row], assignments: Iterable[Row]) -> list[tuple[int, Row]]:
    path, wanted = str(module["path"]), set(module.get("labels") or [])
    paths: dict[str, list[str]] = {}
    for row in assignments:
        paths.setdefault(str(row["worker_id"]), []).append(str(row["path"]))
    fits = []
    for worker in workers:
        if worker.get("is_disabled") or not wanted <= set(worker.get("labels") or []):
            continue
        served = [at for at in paths.get(str(worker["id"]), []) if is_below(path, at)]
        if worker.get("is_shared"):
            fits.append((-1, worker))
        elif served:
            fits.append((max(at.count("/") + 1 if at else 0 for at in served), worker))
        elif worker.get("is_assigned_to_all_modules"):
            fits.append((0, worker))
    return fits


def drift_words(module: Row) -> tuple[str, str]:
    """Describe what is known of a module's drift, and when somebody last looked for it."""
    checked = str(module.get("drift_checked_at") or "")
    if module.get("drift_since"):
        return f"In {count(int(module.get('drift_resources') or 0), 'resource')}", checked
    return ("None" if checked else "Never checked"), checked
