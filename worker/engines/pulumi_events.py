"""Pulumi's event log as a plan summary."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from worker.engines.plan_changes import Leaf, bounded, compare, flatten
from worker.engines.plan_summary import summary_of
from worker.logs.texts import Mask

_ACTIONS = {
    "same": "no_op", "create": "create", "update": "update", "delete": "delete", "replace": "replace",
    "read": "read", "import": "create", "refresh": "no_op", "discard": "delete",
}  # fmt: skip
_STACK = "pulumi:pulumi:Stack"
_HIDDEN = '"[secret]"'
# A replacement is announced three times; only the middle event counts.
_PARTS_OF_REPLACE = frozenset({"create-replacement", "delete-replaced", "discard-replaced", "read-replacement"})


def read_summary(log: bytes | None) -> dict[str, Any]:
    """Summarise the resources that an event log announces."""
    resources = {}
    for each in _metadata(log):
        urn = str(each.get("urn", ""))
        resources[urn] = {**_named(urn, _action(each)), "type": each.get("type", "")}
    return summary_of(list(resources.values()), [])


def as_summary(changes: bytes) -> dict[str, Any]:
    """Summarise the changes that a plan's job has kept."""
    return summary_of([_named(each["address"], each["action"]) for each in json.loads(changes)["resources"]], [])


def as_plan(log: bytes | None) -> bytes:
    """Write what a preview announces as rules read plans: Terraform's list of resource changes."""
    rows = {}
    for each in _metadata(log):
        urn, action = str(each.get("urn", "")), _action(each)
        actions = ["delete", "create"] if action == "replace" else [action.replace("_", "-")]
        before, after = ((each.get(side) or {}).get("inputs") for side in ("old", "new"))
        change = {"actions": actions, "before": before, "after": after if action != "delete" else None}
        rows[urn] = {"address": urn, "type": each.get("type", ""), "name": urn.rsplit("::", 1)[-1], "change": change}
    return json.dumps({"resource_changes": list(rows.values())}).encode()


def read_changes(log: bytes | None, mask: Mask) -> dict[str, Any]:
    """List the changes of an event log, attribute by attribute; Pulumi writes its secrets as [secret]."""
    found = {str(each.get("urn", "")): _change(each) for each in _metadata(log) if _action(each) != "no_op"}
    return bounded(list(found.values()), mask)


def change_digest(log: bytes | None) -> str | None:
    """Digest operations, inputs and the stack's outputs; none where a secret is an input of a changed resource.

    Pulumi writes every secret as [secret], so two previews with different secrets look the same.
    """
    found: dict[str, Any] = {}
    for metadata in _every_metadata(log):
        is_stack = metadata.get("type") == _STACK
        if is_stack or _action(metadata) != "no_op":
            old, new = (metadata.get(side) or {} for side in ("old", "new"))
            inputs = [old.get("inputs"), new.get("inputs")]
            if not is_stack and _HIDDEN in json.dumps(inputs):
                return None
            outputs = new.get("outputs") if is_stack else None
            found[f"{metadata.get('urn')} {metadata['op']}"] = [inputs, outputs, metadata.get("detailedDiff")]
    text = json.dumps(found, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _change(metadata: dict[str, Any]) -> dict[str, Any]:
    before, after = (_inputs(metadata.get(side)) for side in ("old", "new"))
    return {"address": metadata.get("urn", ""), "action": _action(metadata), **compare(before, after)}


def _inputs(side: Any) -> dict[str, Leaf]:
    held = side.get("inputs") if isinstance(side, dict) else None
    leaves = flatten(held or {})
    return {path: Leaf(None, is_sensitive=True) if leaf.text == _HIDDEN else leaf for path, leaf in leaves}


def _action(metadata: dict[str, Any]) -> str:
    return _ACTIONS.get(str(metadata["op"]), str(metadata["op"]))


def _metadata(log: bytes | None) -> Iterator[dict[str, Any]]:
    for metadata in _every_metadata(log):
        if metadata["op"] not in _PARTS_OF_REPLACE and metadata.get("type") != _STACK:
            yield metadata


def _every_metadata(log: bytes | None) -> Iterator[dict[str, Any]]:
    for line in (log or b"").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        found = (event.get("resourcePreEvent") or event.get("resOutputsEvent")) if isinstance(event, dict) else None
        metadata = (found or {}).get("metadata") or {}
        if metadata.get("op"):
            yield metadata


def _named(urn: str, action: str) -> dict[str, Any]:
    return {"address": urn, "name": urn.rsplit("::", 1)[-1], "action": action}
