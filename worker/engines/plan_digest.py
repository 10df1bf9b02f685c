"""A digest of what a plan changes: equal for two plans that change the same."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from worker.engines.plan_summary import action_of

CHANGE_DIGEST = "change_digest"
_PARTS = ("actions", "before", "after", "after_unknown", "replace_paths", "importing")


def change_digest(plan: Mapping[str, Any]) -> str:
    """Digest the JSON of `show -json`: addresses, actions and values, without what is known only after the apply."""
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
