"""Rules of ignored drift, and the fingerprint of the rest."""

from typing import Any

import pytest

from worker.attempt.spec import DriftRule
from worker.engines.plan_changes import changes_of, without_ignored
from worker.engines.plan_summary import summarise


def row(address: str, before: Any, after: Any, action: str = "update") -> dict[str, Any]:
    return {
        "address": address,
        "type": "x",
        "name": "y",
        "change": {"actions": [action], "before": before, "after": after},
    }


PLAN = {
    "resource_drift": [
        row("a.web[0]", {"tags": {"Seen": "1"}, "size": 1}, {"tags": {"Seen": "2"}, "size": 1}),
        row("a.db", {"tags": {"Seen": "1"}, "size": 1}, {"tags": {"Seen": "2"}, "size": 2}),
        row("a.gone", {"size": 1}, None, "delete"),
    ]
}


def settled(*rules: dict[str, str], plan: dict[str, Any] = PLAN) -> dict[str, Any]:
    changes = changes_of(plan, str, is_refresh_only=True)["resources"]
    summary = summarise(plan, is_refresh_only=True)
    return without_ignored(summary, changes, [DriftRule.model_validate({"reason": "r", **rule}) for rule in rules])


@pytest.mark.parametrize(
    ("rule", "ignored"),
    [
        ({"address": "a.web[0]", "attribute": "tags.Seen"}, ["a.web[0]"]),
        ({"address": "a.web[*]", "attribute": "tags"}, ["a.web[0]"]),
        ({"address": "a.web[*]", "attribute": "*"}, ["a.web[0]"]),
        ({"address": "a.web?0?"}, []),
        ({"address": "a.web[1]"}, []),
        ({"address": "*", "attribute": "tag"}, []),
        ({"address": "*", "attribute": "tags"}, ["a.web[0]"]),
        ({"address": "a.gone", "attribute": "*"}, []),
        ({"address": "a.gone"}, ["a.gone"]),
        ({"address": "*"}, ["a.web[0]", "a.db", "a.gone"]),
    ],
)
def test_a_rule_ignores_what_it_names_and_no_more(rule: dict[str, str], ignored: list[str]) -> None:
    after = settled(rule)
    assert [each["address"] for each in after["ignored"]] == ignored
    assert len(after["resources"]) == 3 - len(ignored) == after["update"] + after["delete"]
    assert after["has_changes"] == (len(ignored) < 3)


def test_the_fingerprint_changes_with_the_finding_and_not_with_what_is_ignored() -> None:
    rule = {"address": "*", "attribute": "tags.Seen"}
    other = {"resource_drift": [row("a.db", {"tags": {"Seen": "1"}, "size": 1}, {"tags": {"Seen": "9"}, "size": 2})]}
    same = {"resource_drift": [row("a.db", {"tags": {"Seen": "1"}, "size": 1}, {"tags": {"Seen": "7"}, "size": 2})]}
    more = {"resource_drift": [row("a.db", {"tags": {"Seen": "1"}, "size": 1}, {"tags": {"Seen": "7"}, "size": 3})]}
    marks = [settled(rule, plan=each)["fingerprint"] for each in (other, same, more)]
    assert marks[0] == marks[1] != marks[2]
