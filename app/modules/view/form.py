"""A module's or group's row as the fields of its form: the way back from spec.py."""

from collections.abc import Mapping
from typing import Any, TypedDict

from app.modules.view.spec import HOOKS

Row = Mapping[str, Any]


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


NEW_FILE = 'output "greeting" {\n  value = "hello"\n}\n'


def empty_form(group_path: str) -> ModuleForm:
    """Return the form of a module that does not exist yet."""
    module = {"group_path": group_path, "source_kind": "git", "engine": "tofu", "approval_timeout_seconds": 86_400}
    form = to_form(module)
    return {**form, "inline": [{"key": "0", "path": "main.tf", "content": NEW_FILE}]}


def to_form(module: Row) -> ModuleForm:
    """Return the form of a module."""
    source, kind = module.get("source") or {}, str(module.get("source_kind") or "git")
    fields = {
        "name": str(module.get("name") or ""),
        "group_path": str(module.get("group_path") or ""),
        "description": str(module.get("description") or ""),
        "source_kind": kind,
        "engine": str(module.get("engine") or "tofu"),
        "engine_version": str(module.get("engine_version") or ""),
        "labels": ", ".join(module.get("labels") or []),
        "runner_instance_name": str(module.get("runner_instance_name") or ""),
        "pinned_worker_id": str(module.get("pinned_worker_id") or "any"),
        "approvals_required": str(module.get("approvals_required") or 0),
        "approval_hours": str(max(1, int(module.get("approval_timeout_seconds") or 86_400) // 3600)),
        "auto_apply": "on" if module.get("auto_apply") else "",
        "can_apply_uploads": "on" if module.get("can_apply_uploads") else "",
        **_source_fields(kind, source),
        **hook_fields(module.get("hooks") or {}),
    }
    extra = [(str(row.get("path")), str(row.get("content") or "")) for row in module.get("extra_files") or []]
    inline = sorted((source.get("files") or {}).items()) if kind == "inline" else []
    return {"fields": fields, "inline": _files(inline), "extra": _files(extra)}


def _source_fields(kind: str, source: Row) -> dict[str, str]:
    names = {
        "git": ("url", "ref", "subfolder"),
        "archive": ("url", "sha256", "subfolder"),
        "local": ("path",),
    }
    every = {f"{name}_{key}": "" for name, keys in names.items() for key in keys}
    return {**every, **{f"{kind}_{key}": str(source.get(key) or "") for key in names.get(kind, ())}}


def hook_fields(hooks: Row) -> dict[str, str]:
    """Name the field of each hook."""
    return {f"hook:{hook}": str(hooks.get(hook) or "") for hook in HOOKS}


def _files(files: list[tuple[str, Any]]) -> list[FileRow]:
    return [{"key": str(at), "path": path, "content": str(content)} for at, (path, content) in enumerate(files)]
