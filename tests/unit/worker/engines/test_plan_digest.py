"""Two plans have the same digest when they change the same, and only then."""

from typing import Any

import pytest

from worker.engines.plan_digest import change_digest


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


def test_order_and_what_stays_as_it_is_do_not_count() -> None:
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
