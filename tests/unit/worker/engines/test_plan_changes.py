"""A plan by attribute: old, new and unknown values, and no secret."""

import json
from typing import Any

import pytest

from worker.engines.plan_changes import LARGEST_BYTES, LONGEST_TEXT, MOST_ATTRIBUTES, bounded, changes_of
from worker.engines.pulumi_events import read_changes


def as_is(text: str) -> str:
    return text


def changed(before: Any, after: Any, **more: Any) -> dict[str, Any]:
    """The only resource of a plan with this change."""
    change = {"actions": ["update"], "before": before, "after": after, **more}
    (resource,) = changes_of({"resource_changes": [{"address": "x.a", "change": change}]}, as_is)["resources"]
    return dict(resource)


def lines(resource: dict[str, Any]) -> dict[str, tuple[str | None, str | None]]:
    return {each["path"]: (each["before"], each["after"]) for each in resource["attributes"]}


def test_only_changed_attributes_are_listed_by_readable_paths() -> None:
    found = changed(
        {"n": 3, "same": True, "tags": {"a": "x"}, "ports": [80, 90]},
        {"n": 5, "same": True, "tags": {"a": "x", "cost": "y"}, "ports": [80]},
    )
    assert lines(found) == {"n": ("3", "5"), "ports[1]": ("90", None), "tags.cost": (None, '"y"')}
    assert [each["kind"] for each in found["attributes"]] == ["change", "remove", "add"]
    assert (found["action"], found["unchanged"]) == ("update", 3)


def test_unknown_values_are_marked_as_unknown() -> None:
    found = changed({"id": "a"}, {}, after_unknown={"id": True, "all": {"inner": True}, "list": [True]})
    assert lines(found) == {"all.inner": (None, None), "id": ('"a"', None), "list[0]": (None, None)}
    assert all(each["is_unknown"] for each in found["attributes"])


@pytest.mark.parametrize(
    "marks",
    [
        {"before_sensitive": {"p": True}, "after_sensitive": {"p": True}},
        {"before_sensitive": True, "after_sensitive": True},
    ],
)
def test_a_changed_secret_is_reported_without_its_value(marks: dict[str, Any]) -> None:
    found = changed({"p": {"inner": "old-secret"}}, {"p": {"inner": "new-secret"}}, **marks)
    assert "secret" not in json.dumps(found).replace("is_sensitive", "")
    kept = changed(
        {"p": "old-secret", "q": 1}, {"p": "old-secret", "q": 2}, **marks | {"before_sensitive": {"p": True}}
    )
    assert "old-secret" not in json.dumps(kept)


def test_a_changed_secret_is_listed_and_an_unchanged_one_is_not() -> None:
    marks = {"before_sensitive": {"a": True, "b": True}, "after_sensitive": {"a": True, "b": True}}
    found = changed({"a": "1", "b": "2"}, {"a": "1", "b": "3"}, **marks)
    assert [(each["path"], each["is_sensitive"]) for each in found["attributes"]] == [("b", True)]


def test_known_secrets_are_masked_everywhere() -> None:
    change = {"actions": ["create"], "before": None, "after": {"url": "https://hunter2@host"}}
    plan = {"resource_changes": [{"address": "x.a", "change": change}]}
    found = changes_of(plan, lambda text: text.replace("hunter2", "***"))
    assert "hunter2" not in json.dumps(found)


def test_a_known_secret_is_masked_before_its_text_is_cut() -> None:
    change = {"actions": ["create"], "after": {"a": "x" * (LONGEST_TEXT - 4) + "hunter2"}}
    found = changes_of({"resource_changes": [{"change": change}]}, lambda text: text.replace("hunter2", "***"))
    assert "hun" not in json.dumps(found)


def test_masking_that_joins_lines_moves_no_text_to_another_attribute() -> None:
    change = {"actions": ["create"], "after": {"a": 12, "b": 34, "c": 5}}
    found = changes_of({"resource_changes": [{"change": change}]}, lambda text: text.replace("12\n34", "***"))
    assert [each["after"] for each in found["resources"][0]["attributes"]] == ["12", "34", "5"]


def test_attributes_that_force_a_replacement_are_marked() -> None:
    found = changed({"a": 1, "b": [1]}, {"a": 2, "b": [2]}, actions=["delete", "create"], replace_paths=[["b", 0]])
    assert [each["path"] for each in found["attributes"] if each.get("forces_replacement")] == ["b[0]"]
    assert found["action"] == "replace"


def test_long_texts_and_long_lists_are_cut() -> None:
    found = changed({}, {"long": "x" * 9_000, **{f"k{at}": at for at in range(MOST_ATTRIBUTES + 50)}})
    assert len(found["attributes"]) == MOST_ATTRIBUTES
    assert found["is_truncated"]
    assert max(len(each["after"] or "") for each in found["attributes"]) <= LONGEST_TEXT + 1


def test_a_plan_that_is_too_large_keeps_its_resources_without_attributes() -> None:
    large = [{"before": None, "after": "y" * LONGEST_TEXT}] * (LARGEST_BYTES // LONGEST_TEXT)
    big = [{"address": f"x.{at}", "attributes": large} for at in range(2)]
    assert [each["attributes"] for each in bounded(big, as_is)["resources"]] == [[], []]


def test_a_refresh_only_plan_is_read_by_its_drift_and_nothing_is_listed_without_change() -> None:
    drift = {"address": "x.a", "change": {"actions": ["update"], "before": {"a": 1}, "after": {"a": 2}}}
    plan = {"resource_drift": [drift], "resource_changes": [{"address": "x.b", "change": {"actions": ["no-op"]}}]}
    assert changes_of(plan, as_is)["resources"] == []
    assert lines(changes_of(plan, as_is, is_refresh_only=True)["resources"][0]) == {"a": ("1", "2")}


@pytest.mark.parametrize(
    ("odd", "actions"),
    [
        (None, []),
        ({}, []),
        ({"change": None}, []),
        ({"change": {"actions": ["update"], "before": 1, "after": [1]}}, ["update"]),
    ],
)
def test_malformed_changes_are_read_as_far_as_they_go(odd: Any, actions: list[str]) -> None:
    found = changes_of({"resource_changes": [odd] if odd is not None else None}, as_is)
    assert [change["action"] for change in found["resources"]] == actions


def test_pulumi_is_read_from_its_events_with_secrets_left_out() -> None:
    metadata = {
        "op": "update", "urn": "urn:a", "type": "t",
        "old": {"inputs": {"n": 1, "p": "[secret]"}}, "new": {"inputs": {"n": 2, "p": "[secret]", "q": "[secret]"}},
    }  # fmt: skip
    same = {"op": "same", "urn": "urn:b", "type": "t"}
    log = "\n".join(json.dumps({"resourcePreEvent": {"metadata": each}}) for each in (metadata, same)).encode()
    (found,) = read_changes(log, as_is)["resources"]
    assert lines(found) == {"n": ("1", "2"), "q": (None, None)}
    assert found["attributes"][1]["is_sensitive"]
