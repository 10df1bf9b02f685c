"""The policy checks of a plan in words: what each set found, and whether it waits for an override."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from app.ui.view import Row, count, read
from wire.checks import cost_words

LEVELS = {"advisory": "Advisory", "overridable": "Overridable", "mandatory": "Mandatory"}
_ICONS = {"passed": "circle-check", "warned": "triangle-alert", "failed": "circle-x", "error": "circle-x"}
_BAD = ("failed", "error")


@dataclass(frozen=True)
class Found:
    rule: str
    text: str
    resource: str
    hint: str


@dataclass(frozen=True)
class Check:
    id: str
    name: str
    verdict: str
    icon: str
    level: str
    place: str
    words: str
    can_override: bool = False
    overridden: str = ""
    found: tuple[Found, ...] = ()


class PolicySet(TypedDict):
    id: str
    name: str
    place: str
    level_word: str
    source: str


def policy_set(row: Row) -> PolicySet:
    words = {"place": row["path"] or "All modules", "source": row["source"] or "Written here"}
    return read(PolicySet, row, level_word=LEVELS[row["level"]], **words)


def build(row: Row) -> Check:
    is_bad, by = row["verdict"] in _BAD, str(row.get("overridden_label") or "")
    found = tuple(_found(each) for each in row["messages"] if isinstance(each, Mapping))
    return Check(
        id=str(row["set_id"]),
        name=str(row["name"]),
        verdict="overridden" if by else str(row["verdict"]),
        icon=_ICONS[row["verdict"]] if not by else "circle-check",
        level=LEVELS[row["level"]],
        place=str(row["path"]) or "the organisation",
        words=_words(row, len(found)),
        can_override=is_bad and row["level"] == "overridable" and not by,
        overridden=f"Overridden by {by}: “{row.get('override_reason')}”" if by else "",
        found=found,
    )


def summary(checks: list[Check]) -> str:
    """Count the checks that keep the plan from being applied."""
    bad = sum(each.verdict in _BAD for each in checks)
    return f"{bad} of {len(checks)} failed" if bad else f"{len(checks)} of {len(checks)} passed"


def missing(checks: list[Check]) -> str:
    """Describe what has to happen before the plan can be confirmed."""
    if any(each.verdict in _BAD and each.level == LEVELS["mandatory"] for each in checks):
        return "A mandatory check refuses this plan."
    waiting = sum(each.can_override for each in checks)
    return f"Override {count(waiting, 'check')} first." if waiting else ""


def _words(row: Row, found: int) -> str:
    if row["verdict"] == "error":
        return "Cannot be evaluated"
    parts = [cost_words(row["cost"])] if row.get("cost") else []
    return ", ".join([*parts, *([count(found, "finding")] if found else [])])


def _found(row: Row) -> Found:
    rule, text, resource, hint = (str(row.get(key) or "") for key in ("rule", "text", "resource", "hint"))
    is_warning = row.get("kind") == "warn" and not rule.rpartition(".")[2].startswith("warn")
    return Found(f"{rule} (warning)" if is_warning else rule, text, resource, hint)
