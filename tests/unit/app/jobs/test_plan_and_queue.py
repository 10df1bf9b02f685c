"""Plans by resource, and why a job waits."""

from typing import Any

import pytest

from app.jobs.view import plan, queue
from app.project.shapes import shaped

SUMMARY: dict[str, Any] = {
    "create": 2,
    "update": 1,
    "replace": 1,
    "delete": 0,
    "resources": [
        {"address": "aws_iam_role.nodes", "action": "create", "status": "SUCCEEDED"},
        {"address": "aws_eks_cluster.this", "action": "update", "status": "RUNNING"},
        {"address": "aws_eks_node_group.spot", "action": "replace"},
        {"address": "<img src=x onerror=alert(1)>", "action": "explode"},
        "not a resource",
    ],
    "outputs": [{"name": "endpoint", "action": "update"}],
}


def states(job: dict[str, Any]) -> list[str]:
    return [item.state for item in plan.build(shaped("provision_jobs", {"plan_summary": SUMMARY, **job})).resources]


def test_symbol_colour_and_word_for_each_action() -> None:
    built = plan.build(shaped("provision_jobs", {"type": "PLAN", "plan_summary": SUMMARY}))
    assert [(item.symbol, item.style, item.word) for item in built.resources] == [
        ("+", "p-c", "create"),
        ("~", "p-u", "update"),
        ("±", "p-r", "replace"),
        ("·", "mut", "leave"),
    ]
    assert (built.total, built.is_applied, built.outputs) == (4, False, ("~ output endpoint",))


def test_an_address_is_kept_as_text() -> None:
    assert (
        plan.build(shaped("provision_jobs", {"plan_summary": SUMMARY})).resources[3].address
        == "<img src=x onerror=alert(1)>"
    )


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"type": "APPLY", "status": "PROCESSING"}, ["DONE", "RUNNING", "PENDING", "PENDING"]),
        ({"type": "APPLY", "status": "NEEDS_ATTENTION"}, ["DONE", "STOPPED", "PENDING", "PENDING"]),
        ({"type": "APPLY", "status": "SUCCEEDED"}, ["DONE"] * 4),
        ({"type": "PLAN", "status": "SUCCEEDED"}, [""] * 4),
    ],
)
def test_progress_of_an_apply(job: dict[str, Any], expected: list[str]) -> None:
    assert states(job) == expected


@pytest.mark.parametrize("summary", [None, [], "text"])
def test_no_plan_is_not_an_empty_plan(summary: object) -> None:
    assert not plan.build(shaped("provision_jobs", {"plan_summary": summary})).is_known


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (1, "next in line"),
        (2, "2nd in line"),
        (3, "3rd in line"),
        (11, "11th in line"),
        (22, "22nd in line"),
        (113, "113th in line"),
        (0, ""),
        (None, ""),
        ("2", ""),
    ],
)
def test_places_in_the_queue_are_written_as_ordinals(position: object, words: str) -> None:
    assert queue.in_line(position) == words


def test_a_disabled_runner_offers_to_be_enabled() -> None:
    answer = {
        "job_id": 4831,
        "claimable": False,
        "summary": "No runner may take it yet.",
        "runners": [
            {
                "worker_id": "w1",
                "name": "gpu-lab",
                "status": "ONLINE",
                "reason_code": "disabled",
                "reason": "Matches, but is disabled.",
            },
            {
                "worker_id": "w2",
                "name": "prod-eu",
                "status": "ONLINE",
                "reason_code": "busy",
                "reason": "All 4 slots are used.",
            },
        ],
    }
    why = queue.build(answer)
    assert [(runner.name, runner.can_enable, runner.tone) for runner in why.runners] == [
        ("gpu-lab", True, "t-red"),
        ("prod-eu", False, "t-amb"),
    ]
    assert (why.is_known, why.job_id, why.position) == (True, "4831", "")
