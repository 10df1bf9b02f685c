"""A module as a TOML file: everything that a person decides about it, and nothing that the database maintains."""

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.client.organization import Organization, Row
from cli.command import read_text
from cli.errors import CommandError, Missing

# The columns that a person decides; the database maintains the others.
FIELDS = frozenset({
    "description", "source_kind", "source", "engine", "engine_version", "inputs", "env", "extra_files", "hooks", "labels",
    "runner_instance_name", "pinned_worker_id", "approvals_required", "approval_timeout_seconds", "auto_apply",
    "can_apply_uploads", "is_temporary", "backend", "time_limits", "drift_ignores",
})  # fmt: skip
PINNED, RUNNER = "pinned_worker_id", "pinned_runner"
# The value of a field that nobody set; a file always contains the first three.
ALWAYS: dict[str, Any] = {"engine": "tofu", "source_kind": "inline", "source": {"files": {}}}
USUAL: dict[str, Any] = {
    **ALWAYS,
    "description": "",
    "approvals_required": 0,
    "approval_timeout_seconds": 86400,
    "auto_apply": False,
    "can_apply_uploads": False,
    "is_temporary": False,
}


def with_variables(org: Organization, rows: list[Row]) -> list[Row]:
    """Rows of modules or groups with their plain variables; HCL expressions, files and enforced ones are not in files of modules."""
    found = org.api.call("list_variables", org=org.id, path=rows[0]["path"] if len(rows) == 1 else None)
    values: dict[tuple[str, str], dict[str, Any]] = {}
    for each in found:
        if not (each["key_id"] or each["is_hcl"] or each["is_enforced"]):
            values.setdefault((each["path"], each["kind"]), {})[each["name"]] = each["value"]
    return [
        {**row, "inputs": values.get((row["path"], "input"), {}), "env": values.get((row["path"], "env"), {})}
        for row in rows
    ]


def document_of(org: Organization, row: Row) -> dict[str, Any]:
    """The module as in its file; a runner is named, not numbered."""
    spec = {name: value for name, value in row.items() if name in FIELDS}
    if worker := spec.pop(PINNED, None):
        spec[RUNNER] = org.runner(worker)["name"]
    return normal({"path": row["path"], **spec})


def normal(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same in the one form that two files of the same module share: what is as usual is left out."""
    said = {name: value for name, value in document.items() if name in ALWAYS or _is_said(name, value)}
    return {"path": document["path"], **ALWAYS, **said}


def spec_of(org: Organization, document: Mapping[str, Any], before: Row | None) -> dict[str, Any]:
    """Build the specification for the database: the file's fields, and the usual value of those that it no longer names."""
    spec = {name: value for name, value in document.items() if name not in ("path", RUNNER)}
    if RUNNER in document:
        spec[PINNED] = org.runner(str(document[RUNNER]))["id"]
    for name, value in (before or {}).items():
        if name in FIELDS and name not in spec and _is_said(name, value):
            spec[name] = USUAL.get(name, type(value)() if isinstance(value, dict | list) else None)
    return spec


def write_toml(document: Mapping[str, Any]) -> str:
    """The file's text."""
    import tomli_w

    return tomli_w.dumps(_without_nulls(dict(document)), multiline_strings=True)


def read_document(text: str, place: str) -> dict[str, Any]:
    """A file's text as a document; a mistake is named with its place."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CommandError(f"{place} is not valid TOML: {error}") from error
    path = document.get("path")
    if not isinstance(path, str) or "/" not in path.strip("/"):
        raise CommandError(
            f'{place} names no module: "path" is missing, or has no group.', 'Write: path = "group/name"'
        )
    return {**document, "path": path.strip("/")}


def read_files(places: list[Path]) -> list[dict[str, Any]]:
    """Every module of these files; a folder means all of its *.toml."""
    documents = []
    for place in places:
        files = sorted(place.rglob("*.toml")) if place.is_dir() else [place]
        if not files:
            raise Missing(f"There is no *.toml in {place}.")
        documents += [read_document(read_text(file), str(file)) for file in files]
    return documents


def difference(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> str:
    """Return the changes in the format of `diff -u`; empty when nothing would change."""
    old = write_toml(normal(before)).splitlines() if before else []
    new = write_toml(normal(after)).splitlines()
    path = after["path"]
    return "\n".join(difflib.unified_diff(old, new, f"{path} (now)" if before else "(none)", path, lineterm=""))


def _is_said(name: str, value: Any) -> bool:
    return value not in (None, [], {}) and value != USUAL.get(name)


def _without_nulls(value: Any) -> Any:
    """TOML has no null: what is not set is not there."""
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value if inner is not None] if isinstance(value, list) else value
