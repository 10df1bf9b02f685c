"""A plan's JSON without the values that nobody but its runner may see, and what later tests of policies cannot judge in it."""

import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any

from worker.logs.texts import Mask, masked

LARGEST_VALUE = 16 * 1024

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


def shown_outputs(outputs: Mapping[str, Any], mask: Mask) -> dict[str, Any]:
    """Mask the JSON of `output -json` for the job's result; `mask` hides what else is secret."""
    return {name: _shown(entry, mask) for name, entry in sorted(outputs.items()) if isinstance(entry, Mapping)}


def secret_outputs(outputs: Mapping[str, Any]) -> list[str]:
    """List the sensitive texts, so that they can be masked in hooks that follow."""
    entries = (entry for entry in outputs.values() if isinstance(entry, Mapping))
    return [entry["value"] for entry in entries if entry.get("sensitive") and isinstance(entry.get("value"), str)]


def _shown(entry: Mapping[str, Any], mask: Mask) -> dict[str, Any]:
    is_sensitive = bool(entry.get("sensitive"))
    value = entry.get("value")
    is_too_long = len(str(value)) > LARGEST_VALUE
    return {
        "sensitive": is_sensitive,
        "type": entry.get("type"),
        "value": None if is_sensitive or is_too_long else masked(value, mask),
        **({"is_truncated": True} if is_too_long and not is_sensitive else {}),
    }


MOST = 10
_MASKED = "***"
# Parts of a plan that a redacted one does not have.
_ABSENT = ("prior_state", "constant_value")
# Rules that name this look for themselves at what is known only after the apply.
_AWARE = "after_unknown"


def names_in(tree: Any) -> Iterator[str]:
    """Yield the texts in rules as OPA parses them: the keys that they read are among these."""
    if isinstance(tree, dict):
        if tree.get("type") == "string":
            yield str(tree.get("value"))
        for each in tree.values():
            yield from names_in(each)
    elif isinstance(tree, list):
        for each in tree:
            yield from names_in(each)


def unclear_reads(plan: dict[str, Any], names: frozenset[str]) -> list[dict[str, Any]]:
    """List what rules that read these keys do not find in a redacted plan."""
    found = [unclear(f"The rules read {name}, which no redacted plan has.") for name in _ABSENT if name in names]
    for row in plan.get("resource_changes") or []:
        change, address = row.get("change") or {}, str(row.get("address") or "")
        hidden = {*_keys_of(change.get("before"), _is_hidden), *_keys_of(change.get("after"), _is_hidden)} & names
        later = set() if _AWARE in names else {*_keys_of(change.get("after_unknown"), _is_true)} & names
        found += [unclear(f"The rules read {key}, which is hidden in this plan.", address) for key in sorted(hidden)]
        found += [unclear(f"The rules read {key}, which is known after the apply.", address) for key in sorted(later)]
    values = [plan.get(part) for part in ("variables", "output_changes")]
    outer = {*_keys_of(values, _is_hidden)} & names
    found += [unclear(f"The rules read {key}, which is hidden in this plan.", key) for key in sorted(outer)]
    return found[:MOST]


def unclear(text: str, resource: str = "") -> dict[str, Any]:
    """Return the message of a plan that cannot be judged."""
    return {"rule": "", "kind": "unclear", "text": text, "resource": resource[:500], "hint": ""}


def _is_hidden(value: Any) -> bool:
    return isinstance(value, str) and (value == HIDDEN or _MASKED in value)


def _is_true(value: Any) -> bool:
    return value is True


def _keys_of(part: Any, is_wanted: Any, key: str = "") -> Iterator[str]:
    """Yield the keys of the values that are wanted, however deep; of a variable's or an output's value its name."""
    if isinstance(part, dict):
        for name, value in part.items():
            yield from _keys_of(value, is_wanted, key if name in ("value", "before", "after") and key else str(name))
    elif isinstance(part, list):
        for each in part:
            yield from _keys_of(each, is_wanted, key)
    elif key and is_wanted(part):
        yield key
