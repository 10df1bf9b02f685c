"""The input of OPA about a plan, and the meaning of its answer."""

import json
from typing import Any

import pytest

from worker.engines.policy import MOST_MESSAGES, policy_input, pure_capabilities, read_verdict

RULES = {"a.rego": "package main\ndeny contains msg if { false }"}


def verdict(tree: Any, files: dict[str, str] | None = None) -> dict[str, Any]:
    answer = json.dumps({"result": [{"expressions": [{"value": tree}]}]}).encode()
    return read_verdict(answer, RULES if files is None else files, ["a.b", "a.b[0]"], lambda text: text)


def texts(found: dict[str, Any]) -> list[str]:
    return [each["text"] for each in found["messages"]]


@pytest.mark.parametrize(
    ("package", "wanted", "said"),
    [
        ({"deny": []}, "passed", []),
        ({"deny": ["no"]}, "failed", ["no"]),
        ({"violation_x": [{"msg": "no"}]}, "failed", ["no"]),
        ({"warn": ["hm"]}, "warned", ["hm"]),
        ({"warn": ["hm"], "deny": ["no"]}, "failed", ["no", "hm"]),
        ({"deny": True}, "failed", ["deny"]),
        ({"deny": False}, "passed", []),
        ({"deny": {"no": True}}, "failed", ["no"]),
        ({"deny_a": ["no"], "exception": [["a"]]}, "passed", []),
        ({"deny_a": ["no"], "exception": [["b"]]}, "failed", ["no"]),
        ({"deny": ["no"], "exception": [[""]]}, "passed", []),
        ({"denny": ["no"], "deny": []}, "passed", []),
    ],
)
def test_rules_are_named_as_conftest_names_them(package: dict[str, Any], wanted: str, said: list[str]) -> None:
    found = verdict({"main": package})
    assert (found["verdict"], texts(found)) == (wanted, said)


def test_rule_of_another_package_is_found_with_its_name() -> None:
    found = verdict({"terraform": {"names": {"deny": ["no"]}}, "other": {"allowed": ["x"]}})
    assert [each["rule"] for each in found["messages"]] == ["terraform.names.deny"]


def test_set_without_a_rule_is_an_error() -> None:
    assert verdict({"main": {"denny": ["no"]}}, {"a.rego": 'package main\ndenny contains "no"'})["verdict"] == "error"


def test_rule_that_is_undefined_for_this_plan_is_a_rule_all_the_same() -> None:
    files = {"a.rego": 'package main\ndeny := "no" if { input.never }'}
    assert verdict({"main": {}}, files)["verdict"] == "passed"


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b'{"result": []}', b'{"errors": [{"message": "bad"}]}'])
def test_answer_that_is_none_is_an_error(answer: bytes) -> None:
    assert read_verdict(answer, RULES, [], lambda text: text)["verdict"] == "error"


def test_message_names_the_longest_resource_that_its_text_has() -> None:
    (message,) = verdict({"main": {"deny": ["a.b[0] is public"]}})["messages"]
    assert message["resource"] == "a.b[0]"


def test_messages_are_masked_and_bounded() -> None:
    answer = json.dumps({"result": [{"expressions": [{"value": {"main": {"deny": ["secret"] * 500}}}]}]}).encode()
    found = read_verdict(answer, RULES, [], lambda text: text.replace("secret", "***"))
    assert texts(found) == ["***"] * MOST_MESSAGES


def test_plan_is_where_the_rules_look_for_it_and_says_nothing_about_its_run() -> None:
    plan, run = b'{"resource_changes": [], "run": {"fork": false}}\n', {"fork": True}
    bare = json.loads(policy_input(plan, run, {"a.rego": "input.resource_changes"}))
    named = json.loads(policy_input(plan, run, {"a.rego": "input.plan.resource_changes"}))
    assert bare == {"resource_changes": [], "run": run}
    assert named == {"plan": json.loads(plan), "run": run}


def test_capabilities_reach_nothing_but_the_input() -> None:
    names = ["http.send", "opa.runtime", "time.now_ns", "count"]
    current = json.dumps({"builtins": [{"name": name} for name in names], "features": ["x"]}).encode()
    assert json.loads(pure_capabilities(current)) == {
        "builtins": [{"name": "count"}], "features": ["x"], "allow_net": [],
    }  # fmt: skip
