"""Two plans have the same digest when they change the same, and only then."""

import json
from typing import Any

import pytest

from worker.engines.plan_summary import change_digest
from worker.engines.pulumi_events import change_digest as pulumi_digest


def plan(**change: Any) -> dict[str, Any]:
    whole = {"actions": ["update"], "before": {"size": 1, "id": "x"}, "after": {"size": 2}, **change}
    return {
        "resource_changes": [
            {"address": "a.one", "change": {"actions": ["no-op"], "before": {"at": change.get("noise")}}},
            {"address": "a.two", "change": whole},
        ],
        "output_changes": {"size": {"actions": ["no-op"]}},
        "timestamp": str(change),
    }


def test_order_and_unchanged_resources_do_not_affect_the_digest() -> None:
    first, second = plan(noise=1), plan(noise=2)
    del first["resource_changes"][1]["change"]["noise"]
    del second["resource_changes"][1]["change"]["noise"]
    second["resource_changes"].reverse()
    assert change_digest(first) == change_digest(second)
    assert len(change_digest({})) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"actions": ["delete", "create"]},
        {"before": {"size": 0}},
        {"after": {"size": 3}},
        {"after_unknown": {"id": True}},
        {"replace_paths": [["size"]]},
    ],
)
def test_each_part_of_a_change_counts(change: dict[str, Any]) -> None:
    assert change_digest(plan(**change)) != change_digest(plan())


def test_another_address_and_another_output_count() -> None:
    other, output = plan(), plan()
    other["resource_changes"][1]["address"] = "a.three"
    output["output_changes"]["size"]["actions"] = ["update"]
    assert len({change_digest(each) for each in (plan(), other, output)}) == 3


def events(op: str = "update", *, value: object = 2, output: str = "hi") -> bytes:
    stack = {"op": "same", "urn": "urn:s", "type": "pulumi:pulumi:Stack", "new": {"outputs": {"said": output}}}
    change = {"op": op, "urn": "urn:a", "type": "t", "old": {"inputs": {"n": 1}}, "new": {"inputs": {"n": value}}}
    same = {"op": "same", "urn": "urn:b", "type": "t", "new": {"inputs": {"p": "[secret]"}}}
    return b"\n".join(json.dumps({"resOutputsEvent": {"metadata": each}}).encode() for each in (change, same, stack))


def test_a_preview_of_pulumi_has_a_digest_unless_a_changed_resource_has_a_secret() -> None:
    assert pulumi_digest(events()) == pulumi_digest(events())
    others = [pulumi_digest(events("replace")), pulumi_digest(events(value=3)), pulumi_digest(events(output="hello"))]
    assert len({pulumi_digest(events()), *others}) == 4
    assert pulumi_digest(events(value={"ciphertext": "[secret]"})) is None
