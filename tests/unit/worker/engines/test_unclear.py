"""Redacted plans that rules cannot judge."""

from typing import Any

import pytest

from worker.engines.unclear import MOST, names_in, unclear_reads

CHANGE = {
    "before": {"name": "old", "password": "(sensitive)"},
    "after": {"name": "new", "tags": {"owner": "team-***"}, "list": [{"secret": "(sensitive)"}]},
    "after_unknown": {"arn": True, "name": False, "tags": {}},
}
PLAN: dict[str, Any] = {
    "resource_changes": [{"address": "a.b", "change": CHANGE}],
    "variables": {"token": {"value": "(sensitive)"}, "size": {"value": 1}},
    "output_changes": {"url": {"after": "(sensitive)"}},
}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("password", [("a.b", "The rules read password, which is hidden in this plan.")]),
        ("secret", [("a.b", "The rules read secret, which is hidden in this plan.")]),
        ("owner", [("a.b", "The rules read owner, which is hidden in this plan.")]),
        ("arn", [("a.b", "The rules read arn, which is known after the apply.")]),
        ("token", [("token", "The rules read token, which is hidden in this plan.")]),
        ("url", [("url", "The rules read url, which is hidden in this plan.")]),
        ("prior_state", [("", "The rules read prior_state, which no redacted plan has.")]),
        ("constant_value", [("", "The rules read constant_value, which no redacted plan has.")]),
        ("name", []),
        ("size", []),
        ("tags", []),
        ("value", []),
    ],
)
def test_rules_that_read_what_is_not_there_are_unclear(name: str, said: list[tuple[str, str]]) -> None:
    found = unclear_reads(PLAN, frozenset({"resource_changes", "change", "after", name}))
    assert [(each["resource"], each["text"]) for each in found] == said
    assert {each["kind"] for each in found} <= {"unclear"}


def test_rules_that_look_for_unknown_values_themselves_are_clear() -> None:
    assert unclear_reads(PLAN, frozenset({"arn", "after_unknown"})) == []


def test_few_are_named() -> None:
    rows = [{"address": f"a.b[{place}]", "change": CHANGE} for place in range(90)]
    assert len(unclear_reads({"resource_changes": rows}, frozenset({"arn"}))) == MOST


def test_plan_without_changes_is_clear() -> None:
    assert unclear_reads({"resource_changes": None}, frozenset({"arn"})) == []


def test_keys_are_the_texts_of_the_parsed_rules() -> None:
    tree = {
        "rules": [
            {
                "terms": [
                    {"type": "ref", "value": [{"type": "var", "value": "rc"}, {"type": "string", "value": "password"}]}
                ]
            }
        ]
    }
    assert set(names_in(tree)) == {"password"}
