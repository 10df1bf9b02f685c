"""The reports of commands that check a plan: SARIF and cost, and everything that is neither."""

import json
from typing import Any

import pytest

from worker.engines.check_report import LARGEST_REPORT, read_reports

RULES = [
    {"id": "AVD-1", "helpUri": "https://avd.example.org/1", "defaultConfiguration": {"level": "error"}},
    {"id": "AVD-2", "shortDescription": {"text": "Open to {0}"}},
]


def sarif(*results: Any, **run: Any) -> Any:
    return {"version": "2.1.0", "runs": [{"tool": {"driver": {"rules": RULES}}, "results": list(results), **run}]}


def result(text: str = "Open port", **more: Any) -> dict[str, Any]:
    return {"ruleId": "AVD-1", "message": {"text": text}, **more}


def at(uri: str, line: int | None = None) -> list[dict[str, Any]]:
    region = {"region": {"startLine": line}} if line else {}
    return [{"physicalLocation": {"artifactLocation": {"uri": uri}, **region}}]


def read(document: Any, name: str = "x.sarif") -> dict[str, Any]:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_reports({name: body}, ["/job/source/"], ["a.b", "a.b[0]"], lambda text: text.replace("secret", "***"))


def test_finding_has_rule_place_text_and_help() -> None:
    found = read(sarif(result(locations=at("file:///job/source/main.tf", 12))))
    assert found == {
        "verdict": "failed",
        "messages": [{
            "rule": "AVD-1", "kind": "deny", "text": "Open port", "resource": "main.tf:12",
            "hint": "See https://avd.example.org/1",
        }],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({"level": "error"}, "failed"),
        ({"level": "warning"}, "warned"),
        ({"level": "note"}, "warned"),
        ({"level": "none"}, "passed"),
        ({}, "failed"),
        ({"ruleId": "AVD-2"}, "warned"),
        ({"ruleId": "unknown"}, "warned"),
        ({"ruleId": None, "ruleIndex": 0}, "failed"),
        ({"ruleId": None, "rule": {"id": "AVD-1"}}, "failed"),
        ({"kind": "pass"}, "passed"),
        ({"kind": "notApplicable"}, "passed"),
        ({"kind": "open"}, "failed"),
        ({"suppressions": [{"kind": "external"}]}, "passed"),
        ({"suppressions": [{"kind": "external", "status": "rejected"}]}, "failed"),
        ({"suppressions": [{"kind": "inSource"}]}, "failed"),
    ],
)
def test_level_of_a_result_becomes_the_verdict(more: dict[str, Any], verdict: str) -> None:
    assert read(sarif(result(**more)))["verdict"] == verdict


def test_no_result_is_a_pass() -> None:
    assert read(sarif()) == {"verdict": "passed", "messages": []}


def test_refusals_come_before_warnings_of_every_report() -> None:
    reports = {
        "a.sarif": json.dumps(sarif(result("one", level="note"))).encode(),
        "b.sarif": b"\xef\xbb\xbf" + json.dumps(sarif(result("two secret"))).encode(),
    }
    found = read_reports(reports, [], [], lambda text: text.replace("secret", "***"))
    assert [each["text"] for each in found["messages"]] == ["two ***", "one"]


@pytest.mark.parametrize(
    ("more", "resource"),
    [
        ({"locations": [{"logicalLocations": [{"fullyQualifiedName": "a.c"}]}]}, "a.c"),
        ({"locations": at("modules/x/main.tf")}, "modules/x/main.tf"),
        ({"message": {"text": "a.b[0] is public"}}, "a.b[0]"),
        ({}, ""),
    ],
)
def test_resource_is_the_one_that_is_named_or_the_line(more: dict[str, Any], resource: str) -> None:
    assert read(sarif(result(**more)))["messages"][0]["resource"] == resource


def test_text_may_be_in_the_rule() -> None:
    (found,) = read(sarif({"ruleId": "AVD-2", "message": {"id": "x", "arguments": ["all"]}}))["messages"]
    assert found["text"] == "Open to all"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"Scanning...", "is not JSON"),
        ([], "is not SARIF 2.1"),
        ({"version": "2.0.0", "runs": []}, "is not SARIF 2.1"),
        ({"runs": [{"results": []}]}, "is not SARIF 2.1"),
        ({"version": "2.1.0", "runs": []}, "has no run"),
        ({"version": "2.1.0"}, "KeyError"),
        ({"version": "2.1.0", "runs": [1]}, "AttributeError"),
        ({"version": "2.1.0", "runs": [{"tool": {"driver": {}}}]}, "without results"),
        (sarif(results=None), "without results"),
        (sarif(invocations=[{"executionSuccessful": False}]), "did not succeed"),
        (sarif(1), "can be read: AttributeError"),
        (sarif(result(level="fatal")), "can be read: KeyError"),
        (sarif(result(ruleIndex=9)), "can be read: IndexError"),
        (sarif(result(suppressions=[{}])), "can be read: KeyError"),
        (b"[" * 200_000, "can be read: RecursionError"),
        (b" " * (LARGEST_REPORT + 1), "larger than 10 MiB"),
    ],
)
def test_what_is_no_report_is_an_error(document: Any, words: str) -> None:
    found = read(document)
    assert found["verdict"] == "error"
    assert words in found["messages"][0]["text"]


def test_no_report_at_all_is_an_error() -> None:
    assert read_reports({}, [], [], str)["verdict"] == "error"


def test_one_broken_report_is_not_saved_by_another() -> None:
    good, cost = json.dumps(sarif()).encode(), b'{"monthly_before": 1, "monthly_after": "x"}'
    assert read_reports({"a.sarif": good, "cost.json": cost}, [], [], str)["verdict"] == "error"


def test_cost_is_read_from_numbers_and_from_texts() -> None:
    found = read({"monthly_before": "10.10", "monthly_after": 22.5, "items": []}, "cost.json")
    cost = {"monthly_before": 10.1, "monthly_after": 22.5, "monthly_delta": 12.4}
    assert found == {"verdict": "passed", "messages": [], "cost": cost}


@pytest.mark.parametrize("amount", [None, "", "a lot", True, [], -1, "NaN", "Infinity", 1e15, "1" * 5000])
def test_amount_that_is_none_is_an_error(amount: Any) -> None:
    found = read({"monthly_before": 1, "monthly_after": amount}, "cost.json")
    assert (found["verdict"], found["messages"][0]["text"]) == ("error", "cost.json has no amount monthly_after.")
    assert "cost" not in found
