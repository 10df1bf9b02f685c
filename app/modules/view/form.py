"""A module's or group's row as the fields of its form: the way back from spec.py."""

from typing import Any, TypedDict

from app.modules.view.spec import HOOKS, write_drift_rules
from app.ui.view import Row
from wire.spans import write_time_limits


class FileRow(TypedDict):
    """One file of a form; the key names its two fields."""

    key: str
    path: str
    content: str


class ModuleForm(TypedDict):
    """The contents of the fields when the form opens."""

    fields: dict[str, str]
    inline: list[FileRow]
    extra: list[FileRow]


# The fields that have a value of the module as it is, and what stands in one that has none.
USUAL = {
    "name": "",
    "group_path": "",
    "description": "",
    "engine": "tofu",
    "engine_version": "",
    "runner_instance_name": "",
    "pinned_worker_id": "any",
    "approvals_required": "0",
}
NEW_FILE = 'output "greeting" {\n  value = "hello"\n}\n'


def empty_form(group_path: str) -> ModuleForm:
    """Return the form of a module that does not exist yet."""
    module = {"group_path": group_path, "source_kind": "git", "engine": "tofu", "approval_timeout_seconds": 86_400}
    form = to_form(module)
    return {**form, "inline": [{"key": "0", "path": "main.tf", "content": NEW_FILE}]}


def to_form(module: Row) -> ModuleForm:
    source, kind = module.get("source") or {}, str(module.get("source_kind") or "git")
    seconds = int(module.get("approval_timeout_seconds") or 86_400)
    fields = {
        **{name: str(module.get(name) or usual) for name, usual in USUAL.items()},
        "source_kind": kind,
        "labels": ", ".join(module.get("labels") or []),
        "time_limits": write_time_limits(module.get("time_limits") or {}),
        "drift_ignores": write_drift_rules(module.get("drift_ignores") or []),
        "approval_hours": str(max(1, seconds // 3600)),
        **{name: "on" if module.get(name) else "" for name in ("auto_apply", "can_apply_uploads")},
        **_source_fields(kind, source),
        **hook_fields(module.get("hooks") or {}),
    }
    extra = [(str(row.get("path")), str(row.get("content") or "")) for row in module.get("extra_files") or []]
    inline = sorted((source.get("files") or {}).items()) if kind == "inline" else []
    return {"fields": fields, "inline": _files(inline), "extra": _files(extra)}


def _source_fields(kind: str, source: Row) -> dict[str, str]:
    names = {"git": ("url", "ref", "subfolder"), "archive": ("url", "sha256", "subfolder"), "local": ("path",)}
    every = {f"{name}_{key}": "" for name, keys in names.items() for key in keys}
    return {**every, **{f"{kind}_{key}": str(source.get(key) or "") for key in names.get(kind, ())}}


def hook_fields(hooks: Row) -> dict[str, str]:
    """Name the field of each hook."""
    return {f"hook:{hook}": str(hooks.get(hook) or "") for hook in HOOKS}


def _files(files: list[tuple[str, Any]]) -> list[FileRow]:
    return [{"key": str(at), "path": path, "content": str(content)} for at, (path, content) in enumerate(files)]
