"""Policy checks in words: what failed, what waits for an override, what may be confirmed."""

from typing import Any

import pytest

from app.jobs.view.checks import build, missing, summary

FOUND = {"rule": "deny", "kind": "deny", "text": "no cost tag", "resource": "a.b", "hint": "Add it."}


def row(verdict: str, level: str = "overridable", **more: Any) -> dict[str, Any]:
    found = [] if verdict == "passed" else [FOUND]
    return {
        "set_id": "1", "name": "tags", "path": "", "level": level, "verdict": verdict, "messages": found, **more
    }  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "level", "waits", "words"),
    [
        ("passed", "mandatory", False, ""),
        ("warned", "overridable", False, ""),
        ("failed", "advisory", False, ""),
        ("failed", "overridable", True, "Override 1 check first."),
        ("error", "overridable", True, "Override 1 check first."),
        ("failed", "mandatory", False, "A mandatory check refuses this plan."),
    ],
)
def test_what_has_to_happen_before_a_plan_is_confirmed(verdict: str, level: str, waits: bool, words: str) -> None:
    check = build(row(verdict, level))
    assert (check.can_override, missing([check])) == (waits, words)


def test_finding_has_rule_resource_and_what_to_do() -> None:
    (found,) = build(row("failed")).found
    assert (found.rule, found.text, found.resource, found.hint) == ("deny", "no cost tag", "a.b", "Add it.")


def test_cost_is_shown_beside_the_findings() -> None:
    cost = {"monthly_before": 1000, "monthly_after": 1012.5, "monthly_delta": 12.5}
    assert build(row("passed", cost=cost)).words == "1,000.00 → 1,012.50 a month (+12.50)"
    assert build(row("failed", cost=cost)).words == "1,000.00 → 1,012.50 a month (+12.50), 1 finding"
    assert build(row("error", cost=None)).words == "Cannot be evaluated"


def test_finding_of_a_lower_level_is_called_a_warning() -> None:
    names = [
        build(row("warned", messages=[{**FOUND, "rule": rule, "kind": "warn"}])).found[0].rule
        for rule in ("AVD-1", "main.warn_x", "warn")
    ]
    assert names == ["AVD-1 (warning)", "main.warn_x", "warn"]


def test_overridden_check_shows_by_whom_and_why() -> None:
    check = build(row("failed", overridden_label="ann@example.com", override_reason="known"))
    assert check.overridden == "Overridden by ann@example.com: “known”"
    assert missing([check]) == ""


def test_failed_checks_are_counted() -> None:
    assert summary([build(row("failed")), build(row("passed"))]) == "1 of 2 failed"
    assert summary([build(row("passed"))]) == "1 of 1 passed"
