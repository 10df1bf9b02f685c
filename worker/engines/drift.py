"""Drift that a module's rules ignore, and the fingerprint of the rest, by which the same drift is reported once."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from worker.attempt.spec import DriftRule
from worker.attempt.workspace import Workspace
from worker.enums import JobType

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
