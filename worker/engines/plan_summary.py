"""A plan's actions, counted and listed without any value."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from worker.logs.texts import Mask, texts_of

CHANGE_DIGEST = "change_digest"
_PARTS = ("actions", "before", "after", "after_unknown", "replace_paths", "importing")

MOST_RESOURCES = 2000
_COUNTED = ("create", "update", "replace", "delete", "no_op")


def summarise(plan: Mapping[str, Any], *, is_refresh_only: bool = False) -> dict[str, Any]:
    """Summarise the JSON of `show -json`; a refresh-only plan is summarised by its drift."""
    changes = plan.get("resource_drift" if is_refresh_only else "resource_changes") or []
    resources = [_resource(change) for change in changes]
    outputs = [_output(name, change) for name, change in sorted((plan.get("output_changes") or {}).items())]
    return summary_of(resources, outputs)


def planned_outputs(plan: Mapping[str, Any], mask: Mask) -> dict[str, Any]:
    """The changed outputs whose new values are known and may be shown to other modules' plans."""
    changes = {name: change for name, change in (plan.get("output_changes") or {}).items() if _is_known(change)}
    values = {name: change["after"] for name, change in changes.items()}
    return {name: value for name, value in values.items() if mask(text := json.dumps(value)) == text}


def mark_known(summary: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Mark the changed outputs whose values can be previewed."""
    outputs = [{**each, "is_known": each["name"] in known} for each in summary["outputs"]]
    return {**summary, "outputs": outputs}


def summary_of(resources: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> dict[str, Any]:
    """Count actions and keep what changes."""
    counts = {name: sum(each["action"] == name for each in resources) for name in _COUNTED}
    changing = [each for each in resources if each["action"] != "no_op"]
    changed_outputs = [each for each in outputs if each["action"] != "no_op"]
    is_changing = any(counts[name] for name in _COUNTED if name != "no_op")
    return {
        **counts,
        "resources": changing[:MOST_RESOURCES],
        "outputs": changed_outputs[:MOST_RESOURCES],
        "has_changes": is_changing or bool(changed_outputs),
        **({"is_truncated": True} if len(changing) > MOST_RESOURCES else {}),
    }


def action_of(actions: list[str]) -> str:
    """Name a list of Terraform's actions with one word."""
    if "create" in actions and "delete" in actions:
        return "replace"
    known = {"no-op": "no_op", "create": "create", "read": "read", "update": "update", "delete": "delete"}
    return known.get(actions[0], actions[0].replace("-", "_")) if actions else "no_op"


def sensitive_texts(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values that the plan marks as sensitive, so that they can be masked in what follows."""
    for change in plan.get("resource_changes") or []:
        yield from _change_secrets(change.get("change") or {})
    for change in (plan.get("output_changes") or {}).values():
        yield from _change_secrets(change)


def _change_secrets(change: Mapping[str, Any]) -> Iterator[str]:
    for side in ("before", "after"):
        yield from _marked(change.get(side), change.get(f"{side}_sensitive"))


def _marked(value: Any, mark: Any) -> Iterator[str]:
    if mark is True:
        yield from texts_of(value)
    elif isinstance(mark, dict) and isinstance(value, dict):
        for key, inner in mark.items():
            yield from _marked(value.get(key), inner)
    elif isinstance(mark, list) and isinstance(value, list):
        for item, inner in zip(value, mark, strict=False):
            yield from _marked(item, inner)


def _output(name: str, change: Mapping[str, Any]) -> dict[str, Any]:
    secret = {"is_sensitive": True} if _has_mark(change.get("after_sensitive")) else {}
    return {"name": name, "action": action_of(change.get("actions") or []), **secret}


def _is_known(change: Mapping[str, Any]) -> bool:
    if action_of(change.get("actions") or []) in ("no_op", "delete"):
        return False
    return not _has_mark(change.get("after_unknown")) and not _has_mark(change.get("after_sensitive"))


def _has_mark(mark: Any) -> bool:
    """Whether the engine marks a value, or something inside of it."""
    if isinstance(mark, Mapping | list):
        return any(_has_mark(inner) for inner in (mark.values() if isinstance(mark, Mapping) else mark))
    return mark is True


def _resource(change: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "address": str(change.get("address", "")),
        "type": str(change.get("type", "")),
        "name": str(change.get("name", "")),
        "action": action_of((change.get("change") or {}).get("actions") or []),
    }


def change_digest(plan: Mapping[str, Any]) -> str:
    """Digest the JSON of `show -json`, equal for plans that change the same: addresses, actions and values known before."""
    resources = [
        [str(row.get("address")), str(row.get("deposed") or ""), _parts(row.get("change") or {})]
        for row in plan.get("resource_changes") or []
    ]
    outputs = [[name, "", _parts(change)] for name, change in (plan.get("output_changes") or {}).items()]
    changing = [each for each in (*resources, *outputs) if action_of(each[2]["actions"]) != "no_op"]
    text = json.dumps(sorted(changing, key=lambda each: each[:2]), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _parts(change: Mapping[str, Any]) -> dict[str, Any]:
    return {name: change.get(name) or ([] if name == "actions" else None) for name in _PARTS}
