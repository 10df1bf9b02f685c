"""A plan's changes, attribute by attribute, without a secret in them: what people read to confirm it, and drift that rules ignore."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from worker.attempt.spec import DriftRule
from worker.attempt.workspace import Workspace
from worker.engines.plan_summary import MOST_RESOURCES, action_of
from worker.enums import JobType
from worker.logs.texts import Mask, masked_lines

CHANGES_ARTIFACT = "changes.json"
MOST_ATTRIBUTES = 200
LONGEST_TEXT = 2_000
LARGEST_BYTES = 8 * 1024 * 1024
# `json.dumps` makes an encoder for each value.
_as_text = json.JSONEncoder(ensure_ascii=False).encode


class Leaf(NamedTuple):
    """One attribute on one side of a change; `text` is None where it is not shown."""

    text: str | None
    is_sensitive: bool = False
    is_unknown: bool = False
    # To see that a secret changes; it never leaves this module.
    secret: str = ""


class Marks(NamedTuple):
    """The engine's marks on a value and everything below it."""

    hidden: Any = False
    unknown: Any = False

    def of(self, key: str | int) -> "Marks":
        """The marks of one member."""
        if not self.hidden and not self.unknown:
            return NO_MARKS
        return Marks(_inner(self.hidden, key), _inner(self.unknown, key))

    def names(self) -> list[str]:
        """Return the names of members that do not exist yet and will."""
        return list(self.unknown) if isinstance(self.unknown, dict) else []

    def length(self) -> int:
        """Return the least number of members that a list will have."""
        return len(self.unknown) if isinstance(self.unknown, list) else 0


NO_MARKS = Marks()


def changes_of(plan: Mapping[str, Any], mask: Mask, *, is_refresh_only: bool = False) -> dict[str, Any]:
    """Read the JSON of `show -json`; `mask` hides what else the runner knows to be secret."""
    rows = plan.get("resource_drift" if is_refresh_only else "resource_changes") or []
    found = [row for row in rows if action_of((row.get("change") or {}).get("actions") or []) != "no_op"]
    return bounded([_resource(row) for row in found[:MOST_RESOURCES]], mask)


def bounded(resources: list[dict[str, Any]], mask: Mask) -> dict[str, Any]:
    """Mask a plan's changes and keep them below what is stored: the last resources lose their attributes first."""
    sides = [
        (row, side) for each in resources for row in each["attributes"] for side in ("before", "after") if row[side]
    ]
    for (row, side), text in zip(sides, masked_lines([row[side] for row, side in sides], mask), strict=True):
        row[side] = text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"
    size = 0
    for resource in resources if len(json.dumps(resources)) > LARGEST_BYTES else ():
        size += len(json.dumps(resource))
        if size > LARGEST_BYTES:
            resource.update(attributes=[], is_truncated=True)
    return {"resources": resources}


def compare(
    before: Mapping[str, Leaf], after: Mapping[str, Leaf], forced: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """List the attributes that differ, and count those that do not."""
    names = sorted({*before, *after})
    changed = [name for name in names if before.get(name) != after.get(name)]
    listed = [_attribute(name, before.get(name), after.get(name), forced) for name in changed[:MOST_ATTRIBUTES]]
    more = {"is_truncated": True} if len(changed) > MOST_ATTRIBUTES else {}
    return {"attributes": listed, "unchanged": len(names) - len(changed), **more}


def flatten(value: Any, marks: Marks = NO_MARKS, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """Yield every attribute below a value with the path that people write for it."""
    if marks.unknown is True:
        yield path, Leaf(None, is_sensitive=marks.hidden is True, is_unknown=True)
    elif marks.hidden is True:
        yield path, Leaf(None, is_sensitive=True, secret=json.dumps(value, sort_keys=True))
    elif isinstance(value, dict) or marks.names():
        held = value if isinstance(value, dict) else {}
        for name in sorted({*held, *marks.names()}):
            yield from flatten(held.get(name), marks.of(name), f"{path}.{name}" if path else name)
    elif isinstance(value, list) or marks.length():
        items = value if isinstance(value, list) else []
        for at in range(max(len(items), marks.length())):
            yield from flatten(items[at] if at < len(items) else None, marks.of(at), f"{path}[{at}]")
    elif value is not None:
        yield path, Leaf(_as_text(value))


def _inner(mark: Any, key: str | int) -> Any:
    if isinstance(mark, dict):
        return mark.get(key, False)
    if isinstance(mark, list):
        return mark[key] if isinstance(key, int) and key < len(mark) else False
    return mark is True


def _attribute(name: str, before: Leaf | None, after: Leaf | None, forced: frozenset[str]) -> dict[str, Any]:
    return {
        "path": name,
        "kind": "add" if before is None else "remove" if after is None else "change",
        "before": before.text if before else None,
        "after": after.text if after else None,
        **({"is_sensitive": True} if any(side and side.is_sensitive for side in (before, after)) else {}),
        **({"is_unknown": True} if after and after.is_unknown else {}),
        **({"forces_replacement": True} if name in forced else {}),
    }


def _resource(row: Mapping[str, Any]) -> dict[str, Any]:
    change = row.get("change") or {}
    before = flatten(change.get("before"), Marks(change.get("before_sensitive")))
    after = flatten(change.get("after"), Marks(change.get("after_sensitive"), change.get("after_unknown")))
    forced = frozenset(_path(parts) for parts in change.get("replace_paths") or [] if isinstance(parts, list))
    return {
        "address": str(row.get("address", "")),
        "action": action_of(change.get("actions") or []),
        **compare(_named(before), _named(after), forced),
    }


def _named(leaves: Iterator[tuple[str, Leaf]]) -> dict[str, Leaf]:
    return {path: leaf for path, leaf in leaves if path}


def _path(parts: list[Any]) -> str:
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


Row = Mapping[str, Any]


def settle_drift(space: Workspace, changes: Sequence[Row]) -> None:
    """Take what rules ignore out of the summary of a check, and note what the rest is."""
    if space.job.type is not JobType.DRIFT or space.plan_summary is None:
        return
    today = datetime.now(UTC).date().isoformat()
    rules = [rule for rule in space.spec.module.drift_ignores if (rule.until or today) >= today]
    space.plan_summary = without_ignored(space.plan_summary, changes, rules)
    for each in space.plan_summary["ignored"]:
        space.say(f"Ignored by a rule of the module: {each['address']} ({each['reason']})")
    space.on_summary()


def without_ignored(summary: Row, changes: Sequence[Row], rules: Sequence[DriftRule]) -> dict[str, Any]:
    """Count and list only what no rule ignores."""
    found = {str(each["address"]): (each, _left(each, rules)) for each in changes}
    ignored = {address: reasons for address, (each, (left, reasons)) in found.items() if left is None}
    counts = {
        name: number for name, number in summary.items() if isinstance(number, int) and not isinstance(number, bool)
    }
    for address in ignored:
        counts[found[address][0]["action"]] -= 1
    kept = sorted((address, each["action"], left) for address, (each, (left, _)) in found.items() if left is not None)
    return {
        **summary,
        **counts,
        "resources": [each for each in summary["resources"] if each["address"] not in ignored],
        "ignored": [{"address": address, "reason": "; ".join(reasons)} for address, reasons in ignored.items()],
        "has_changes": any(number for name, number in counts.items() if name != "no_op") or bool(summary["outputs"]),
        "fingerprint": hashlib.sha256(json.dumps(kept).encode()).hexdigest(),
    }


def _left(change: Row, rules: Sequence[DriftRule]) -> tuple[list[list[Any]] | None, list[str]]:
    """Return the attributes that no rule ignores, None where nothing is left of the finding, and the rules' reasons."""
    mine = [rule for rule in rules if _fits(rule.address, str(change["address"]))]
    whole = [rule.reason for rule in mine if rule.attribute is None]
    if whole:
        return None, whole[:1]
    left, used = [], []
    for each in change.get("attributes") or []:
        reasons = [rule.reason for rule in mine if _fits_attribute(str(rule.attribute), str(each["path"]))]
        used += reasons[:1]
        if not reasons:
            left.append([each["path"], each.get("before"), each.get("after")])
    # What was deleted or replaced is more than its attributes.
    is_all = bool(used) and not left and change["action"] == "update" and not change.get("is_truncated")
    return (None if is_all else left), list(dict.fromkeys(used))


def _fits_attribute(pattern: str, path: str) -> bool:
    return any(_fits(each, path) for each in (pattern, f"{pattern}.*", f"{pattern}[*"))


def _fits(pattern: str, text: str) -> bool:
    """Compare with a pattern in which `*` alone matches anything; addresses have brackets of their own."""
    return fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))
