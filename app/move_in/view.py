"""The root modules of a reading, and how the state of each came, in words."""

from typing import TypedDict

from app.jobs.view.words import ACTIVE, ENGINE_WORDS
from app.ui.view import Row, count, read

BACKENDS = {"s3": "S3", "gcs": "GCS", "azurerm": "Azure", "http": "HTTP", "local": "Local file", "pg": "PostgreSQL",
            "cloud": "HCP workspace", "remote": "HCP workspace"}  # fmt: skip


class RootRow(TypedDict):
    folder: str
    path: str
    backend: str
    engine: str
    note: str
    can_come: bool


class BroughtRow(TypedDict):
    id: str
    path: str
    state: str
    verdict: str
    color: str
    why: str
    number: int


def failure_words(survey: Row) -> str:
    """Return the reason why a reading found nothing; empty while it runs and when it succeeded."""
    if survey["status"] in (*ACTIVE, "SUCCEEDED"):
        return ""
    return str((survey.get("error") or {}).get("message") or "The source was not read.")


def root_rows(roots: list[Row]) -> list[RootRow]:
    return [
        read(
            RootRow,
            root,
            backend=backend_words(str(root.get("backend") or "")),
            engine=_engine(root),
            note=_note(root),
            can_come=not root.get("problem"),
        )
        for root in roots
        if not root.get("module_id")
    ]


def backend_words(backend: str) -> str:
    """A backend as people call it."""
    return BACKENDS.get(backend, backend.capitalize() if "://" not in backend else backend) or "None"


def _engine(root: Row) -> str:
    name = str(root["engine"])
    return f"{ENGINE_WORDS.get(name, name.capitalize())} {root.get('required_version') or ''}".strip()


def _note(root: Row) -> str:
    spaces = ", ".join(root.get("workspaces") or [])
    named = "Stacks" if root["engine"] == "pulumi" else "Workspaces"
    return str(root.get("problem") or "") or (f"{named}: {spaces}" if spaces else "")


def brought_rows(roots: list[Row]) -> list[BroughtRow]:
    """List the modules that are here, with the proof."""
    return [_brought(root) for root in roots if root.get("module_id")]


def _brought(root: Row) -> BroughtRow:
    plan: Row = root.get("plan") or {}
    verdict, color, why = _verdict(root, plan)
    state = _state(plan.get("brought") or {}, str(root.get("backend") or ""))
    made = {"state": state, "verdict": verdict, "color": color, "why": why, "number": plan.get("number")}
    return read(BroughtRow, root, id=root["module_id"], **made)


def _state(brought: Row, backend: str) -> str:
    if not brought:
        return "Not yet" if backend else "No backend, no state"
    backend = str(brought["backend"])
    place = "the local file" if backend == "local" else backend_words(backend)
    return f"serial {brought['serial']}, {count(int(brought['resources']), 'resource')}, from {place}"


def _verdict(root: Row, plan: Row) -> tuple[str, str, str]:
    """The result of the first plan: "No changes" is the proof that everything came."""
    status = str(plan.get("status") or "")
    if not status:
        is_pulumi = root["engine"] == "pulumi"
        return "Not planned", "gray", "Push its state: pulumi stack export | runyard state push" if is_pulumi else ""
    if status in ACTIVE:
        return "Copying and planning", "blue", ""
    if status != "SUCCEEDED":
        return "Failed", "red", str((plan.get("error") or {}).get("message") or "")
    summary: Row = plan.get("summary") or {}
    if not summary.get("has_changes"):
        return "No changes", "green", ""
    words = {"create": "to create", "update": "to update", "replace": "to replace", "delete": "to delete"}
    counts = ", ".join(f"{summary[key]} {said}" for key, said in words.items() if summary.get(key))
    return counts or "Changes", "amber", "The plan shows what differs. Nothing was applied."
