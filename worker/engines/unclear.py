"""Plans that rules cannot judge: a redacted plan has not all that they read, and what they do not find they pass."""

from collections.abc import Iterator
from typing import Any

from worker.engines.redacted_plan import HIDDEN

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
        later = (
            set() if _AWARE in names else {*_keys_of(change.get("after_unknown"), lambda value: value is True)} & names
        )
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
