"""Pulumi's event log as a plan summary."""

import json
from collections.abc import Iterator
from typing import Any

from worker.engines.plan_summary import summary_of

_ACTIONS = {
    "same": "no_op", "create": "create", "update": "update", "delete": "delete", "replace": "replace",
    "read": "read", "import": "create", "refresh": "no_op", "discard": "delete",
}  # fmt: skip
# A replacement is announced three times; only the middle event counts.
_PARTS_OF_REPLACE = frozenset({"create-replacement", "delete-replaced", "discard-replaced", "read-replacement"})


def read_summary(log: bytes | None) -> dict[str, Any]:
    """Summarise the resources that an event log announces."""
    resources = {each["address"]: each for each in _resources(log)}
    return summary_of(list(resources.values()), [])


def _resources(log: bytes | None) -> Iterator[dict[str, Any]]:
    for event in _events(log):
        metadata = (event.get("resourcePreEvent") or event.get("resOutputsEvent") or {}).get("metadata") or {}
        operation = metadata.get("op")
        if not operation or operation in _PARTS_OF_REPLACE or metadata.get("type") == "pulumi:pulumi:Stack":
            continue
        yield {
            "address": metadata.get("urn", ""),
            "type": metadata.get("type", ""),
            "name": str(metadata.get("urn", "")).rsplit("::", 1)[-1],
            "action": _ACTIONS.get(operation, operation),
        }


def _events(log: bytes | None) -> Iterator[dict[str, Any]]:
    for line in (log or b"").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
