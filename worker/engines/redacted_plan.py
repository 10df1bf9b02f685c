"""A plan's JSON without the values that nobody but its runner may see: what later tests of policies read."""

import gzip
import json
from collections.abc import Mapping
from typing import Any

from worker.logs.texts import Mask, masked

REDACTED_ARTIFACT = "redacted-plan.json.gz"
# In the place of a sensitive value, so that a rule still sees that there is one.
HIDDEN = "(sensitive)"
LARGEST_PLAN = 64 * 1024 * 1024
LARGEST_KEPT = 8 * 1024 * 1024
_KEPT = ("format_version", "terraform_version", "timestamp")
_CHANGE = ("actions", "after_unknown", "before_sensitive", "after_sensitive", "replace_paths", "importing")


def redacted_plan(shown: bytes, mask: Mask) -> bytes | None:
    """Redact the JSON of `show -json` and compress it; nothing where it is too large to be kept."""
    if len(shown) > LARGEST_PLAN:
        return None
    plan = json.loads(shown)
    kept = {name: plan[name] for name in _KEPT if name in plan}
    for name in ("resource_changes", "resource_drift"):
        kept[name] = [{**row, "change": _change(row.get("change") or {})} for row in plan.get(name) or []]
    kept["output_changes"] = {name: _change(row) for name, row in (plan.get("output_changes") or {}).items()}
    kept["planned_values"] = _values(plan.get("planned_values") or {})
    kept["configuration"] = _without_constants(plan.get("configuration") or {})
    kept["variables"] = _variables(plan)
    body = gzip.compress(_masked(kept, mask), compresslevel=5)
    return body if len(body) <= LARGEST_KEPT else None


def without_marked(value: Any, mark: Any) -> Any:
    """Hide what the engine marks as sensitive in a value, however deep."""
    if mark is True:
        return None if value is None else HIDDEN
    if isinstance(mark, dict) and isinstance(value, dict):
        return {key: without_marked(inner, mark.get(key)) for key, inner in value.items()}
    if isinstance(mark, list) and isinstance(value, list):
        marks = [*mark, *[None] * len(value)]
        return [without_marked(item, inner) for item, inner in zip(value, marks, strict=False)]
    return value


def _change(change: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: change[name] for name in _CHANGE if name in change}
    sides = {side: without_marked(change.get(side), change.get(f"{side}_sensitive")) for side in ("before", "after")}
    return {**kept, **sides}


def _values(held: Mapping[str, Any]) -> dict[str, Any]:
    """Redact the planned values of a module and of those below it, or of the whole plan."""
    kept = dict(held)
    if outputs := held.get("outputs"):
        kept["outputs"] = {name: _output(each) for name, each in outputs.items()}
    if module := held.get("root_module"):
        kept["root_module"] = _values(module)
    if modules := held.get("child_modules"):
        kept["child_modules"] = [_values(each) for each in modules]
    if resources := held.get("resources"):
        kept["resources"] = [
            {**each, "values": without_marked(each.get("values"), each.get("sensitive_values"))} for each in resources
        ]
    return kept


def _output(held: Mapping[str, Any]) -> dict[str, Any]:
    return {**held, "value": HIDDEN} if held.get("sensitive") else dict(held)


def _variables(plan: Mapping[str, Any]) -> dict[str, Any]:
    declared = ((plan.get("configuration") or {}).get("root_module") or {}).get("variables") or {}
    given = plan.get("variables") or {}
    return {
        name: {"value": HIDDEN} if (declared.get(name) or {}).get("sensitive") else value
        for name, value in given.items()
    }


def _without_constants(part: Any) -> Any:
    """Leave out literals of the code: nobody marks them, and one may be a password."""
    if isinstance(part, dict):
        return {key: _without_constants(each) for key, each in part.items() if key not in ("constant_value", "default")}
    return [_without_constants(each) for each in part] if isinstance(part, list) else part


def _masked(plan: dict[str, Any], mask: Mask) -> bytes:
    # Each text on a line of its own: no shape of a secret continues behind the end of a line.
    plain = json.dumps(plan, ensure_ascii=False, separators=(",\n", ": "))
    text = mask(plain)
    try:
        if text != plain:
            json.loads(text)
    except ValueError:
        # Something that is not a text was masked. One by one they are masked thirty times slower, and in their bounds.
        text = json.dumps(masked(plan, mask))
    return text.encode()
