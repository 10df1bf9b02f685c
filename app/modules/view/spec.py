"""A module's form, checked field by field, and the spec that the database takes."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict
from urllib.parse import urlsplit

from app.jobs.view.words import ENGINE_WORDS
from app.ui.form import fields
from app.ui.form.fields import MAX_DEPTH, Checked, Form, Wrong, texts, without_password
from app.ui.view import Row
from wire.spans import write_time_limits

MAX_FILES = 64
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")

# A rule of drift that is ignored: `address attribute until=2030-01-31 # reason`.
_DRIFT_RULE = re.compile(
    r"(?P<address>\S+)(?:\s+(?!until=)(?P<attribute>\S+))?(?:\s+until=(?P<until>\d{4}-\d\d-\d\d))?\s+#\s*(?P<reason>\S.*)"
)

SOURCE_KINDS = ("git", "archive", "inline", "local")
HOOKS = tuple(
    f"{when}_{step}" for step in ("init", "plan", "apply", "destroy", "output") for when in ("before", "after")
)
MAX_APPROVALS = 10
MAX_APPROVAL_HOURS = 24 * 30


def check(raw: object, *, is_new: bool) -> Checked:
    form, checked = texts(raw), Checked()
    if is_new:
        checked.take("name", form, fields.name, "")
        checked.take("group_path", form, fields.group_path, "")
    checked.spec = {
        "description": checked.take("description", form, lambda text: fields.text_of(text.strip(), 500), ""),
        "source_kind": _choice(checked, form, "source_kind", SOURCE_KINDS),
        "source": _source(checked, form),
        "engine": _choice(checked, form, "engine", tuple(ENGINE_WORDS)),
        "engine_version": checked.take("engine_version", form, engine_version, "") or None,
        "extra_files": _files(checked, form, "extra"),
        "hooks": _hooks(checked, form),
        **_running(checked, form),
    }
    return checked


def _choice(checked: Checked, form: Form, key: str, allowed: tuple[str, ...]) -> str:
    value = form.get(key) or allowed[0]
    if value not in allowed:
        checked.errors[key] = f"One of {', '.join(allowed)}."
    return value


def _running(checked: Checked, form: Form) -> dict[str, Any]:
    hours = checked.take(
        "approval_hours", form, lambda text: fields.whole_number(text or "24", 1, MAX_APPROVAL_HOURS), 24
    )
    pin = form.get("pinned_worker_id", "")
    return {
        "labels": checked.take("labels", form, fields.labels, []),
        "runner_instance_name": form.get("runner_instance_name", "").strip()[:128] or None,
        "pinned_worker_id": pin if pin not in ("", "any") else None,
        "approvals_required": checked.take(
            "approvals_required", form, lambda text: fields.whole_number(text, 0, MAX_APPROVALS), 0
        ),
        "drift_ignores": checked.take("drift_ignores", form, read_drift_rules, []),
        "time_limits": checked.take("time_limits", form, fields.time_limits, {}),
        "approval_timeout_seconds": hours * 3600,
        "auto_apply": form.get("auto_apply") in ("on", "true"),
        "can_apply_uploads": form.get("can_apply_uploads") in ("on", "true"),
    }


def _source(checked: Checked, form: Form) -> dict[str, Any]:
    kind = form.get("source_kind") or "git"
    if kind == "git":
        return {
            "url": checked.take("git_url", form, fields.git_url, ""),
            "ref": checked.take("git_ref", form, ref, ""),
            "subfolder": checked.take("git_subfolder", form, _optional_path, ""),
        }
    if kind == "archive":
        return {
            "url": checked.take("archive_url", form, archive_url, ""),
            "sha256": checked.take("archive_sha256", form, sha256, "") or None,
            "subfolder": checked.take("archive_subfolder", form, _optional_path, ""),
        }
    if kind == "inline":
        return {"files": _inline(checked, form)}
    if kind == "local":
        return {"path": checked.take("local_path", form, local_path, "")}
    return {}


def _optional_path(text: str) -> str:
    return relative_path(text, is_optional=True)


def _inline(checked: Checked, form: Form) -> dict[str, str]:
    files = {row["path"]: row["content"] for row in _files(checked, form, "inline")}
    if not files and not any(key.startswith("inline") for key in checked.errors):
        checked.errors["inline"] = "At least one file is needed, for example main.tf."
    return files


def _files(checked: Checked, form: Form, prefix: str) -> list[dict[str, Any]]:
    """Read the rows `<prefix>_path:<n>` and `<prefix>_content:<n>`; a row without both is left out."""
    start = f"{prefix}_path:"
    numbers = [key.removeprefix(start) for key in form if key.startswith(start)]
    rows: dict[str, dict[str, Any]] = {}
    for number in numbers[:MAX_FILES]:
        path_key, content_key = f"{start}{number}", f"{prefix}_content:{number}"
        if not form[path_key].strip() and not form.get(content_key, "").strip():
            continue
        path = checked.take(path_key, form, relative_path, "")
        content = checked.take(content_key, form, fields.text_of, "")
        if path in rows:
            checked.errors[path_key] = f"{path} is listed twice."
        rows[path] = {"path": path, "content": content}
    if len(numbers) > MAX_FILES:
        checked.errors[prefix] = f"At most {MAX_FILES} files."
    return list(rows.values())


def _hooks(checked: Checked, form: Form) -> dict[str, str]:
    scripts = {hook: checked.take(f"hook:{hook}", form, fields.text_of, "") for hook in HOOKS}
    return {hook: script for hook, script in scripts.items() if script.strip()}


def read_drift_rules(text: str) -> list[dict[str, str]]:
    """Read the lines; what is missing of a rule is left out."""
    rules = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if not (found := _DRIFT_RULE.fullmatch(line)):
            raise Wrong(f'"{line[:60]}" is not a rule. Write: aws_instance.web tags.Seen until=2030-01-31 # reason')
        rules.append({name: value for name, value in found.groupdict().items() if value})
    return rules


def write_drift_rules(rules: Iterable[Mapping[str, str]]) -> str:
    return "\n".join(
        " ".join(filter(None, [
            each["address"], each.get("attribute"), each.get("until") and f"until={each['until']}", f"# {each['reason']}",
        ]))
        for each in rules
    )  # fmt: skip


def archive_url(value: str) -> str:
    text = value.strip()
    parts = urlsplit(text)
    if parts.scheme != "https" or not parts.hostname or re.search(r"\s", text):
        raise Wrong("An address that begins with https://.")
    return without_password(text, parts.username or parts.password)


def sha256(value: str) -> str:
    """Take an optional checksum."""
    text = value.strip()
    if text and not _SHA256.fullmatch(text):
        raise Wrong("64 hexadecimal digits, or leave it empty.")
    return text.lower()


def ref(value: str) -> str:
    """Take a branch, tag or commit."""
    text = value.strip()
    if text.startswith("-") or re.search(r"[\s~^:?*\[\\\x00-\x1f]|\.\.|@\{", text) or len(text) > 250:
        raise Wrong("A branch, a tag or a commit, without spaces.")
    return text or "main"


def relative_path(value: str, *, is_optional: bool = False) -> str:
    """Take a path that stays below the working directory."""
    text = value.strip()
    if not text and is_optional:
        return ""
    parts = text.split("/")
    if not text or text.startswith(("/", "~")) or "\\" in text or re.search(r"[\x00-\x1f]", text):
        raise Wrong("A path inside the module, for example modules/vpc.")
    if any(part in ("", ".", "..") for part in parts):
        raise Wrong("The path must not leave the module: no empty part, no dots alone.")
    if len(parts) > MAX_DEPTH:
        raise Wrong(f"At most {MAX_DEPTH} folders deep.")
    return text


def local_path(value: str) -> str:
    text = value.strip()
    if not text.startswith(("/", "~/")) or re.search(r"[\x00-\x1f]", text) or ".." in text.split("/"):
        raise Wrong("A full path on the runner's machine, for example /srv/infra/vpc.")
    return text


def engine_version(value: str) -> str:
    """Take an optional engine version."""
    text = value.strip().removeprefix("v")
    if text and not _VERSION.fullmatch(text):
        raise Wrong("A version like 1.10.5, or empty to use the runner's version.")
    return text


class FileRow(TypedDict):
    """One file of a form; the key names its two fields."""

    key: str
    path: str
    content: str


class ModuleForm(TypedDict):
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
    return {"fields": fields, "inline": _file_rows(inline), "extra": _file_rows(extra)}


def _source_fields(kind: str, source: Row) -> dict[str, str]:
    names = {"git": ("url", "ref", "subfolder"), "archive": ("url", "sha256", "subfolder"), "local": ("path",)}
    every = {f"{name}_{key}": "" for name, keys in names.items() for key in keys}
    return {**every, **{f"{kind}_{key}": str(source.get(key) or "") for key in names.get(kind, ())}}


def hook_fields(hooks: Row) -> dict[str, str]:
    return {f"hook:{hook}": str(hooks.get(hook) or "") for hook in HOOKS}


def _file_rows(files: list[tuple[str, Any]]) -> list[FileRow]:
    return [{"key": str(at), "path": path, "content": str(content)} for at, (path, content) in enumerate(files)]
