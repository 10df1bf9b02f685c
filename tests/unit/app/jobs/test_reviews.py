"""The description of a plan for the person who decides about it."""

from typing import Any

import pytest

from app.jobs.routes import waterfall
from app.jobs.state.run import lines, to_apply
from app.jobs.view import plan as plans
from app.jobs.view import reviews
from app.jobs.view.detail import title

SUMMARY = {"create": 2, "update": 1, "resources": [{"address": "a.b", "action": "update"}]}


def test_a_job_that_waits_shows_the_plan_it_applies() -> None:
    shown = reviews.with_plan({"id": 2, "type": "APPLY"}, {"id": 1, "plan_summary": SUMMARY})
    assert plans.build(shown).total == 3
    assert reviews.with_plan({"id": 2, "plan_summary": {"create": 1}}, {"id": 1, "plan_summary": SUMMARY})[
        "plan_summary"
    ] == {"create": 1}


@pytest.mark.parametrize(("serial", "is_outdated"), [(4, False), (5, True)])
def test_a_plan_is_out_of_date_when_the_state_is_another(serial: int, is_outdated: bool) -> None:
    job = {"id": 2, "number": 1, "status": "AWAITING_APPROVAL", "needs_confirmation": True}
    found = reviews.planned(job, {"id": 1, "number": 1, "planned_serial": 4}, serial)
    assert (found.is_outdated, found.is_confirmed_by_hand) == (is_outdated, True)
    assert not reviews.planned(
        {**job, "status": "SUCCEEDED"}, {"id": 1, "number": 1, "planned_serial": 4}, 9
    ).is_outdated


def test_attributes_show_old_new_unknown_and_sensitive_values() -> None:
    rows = [
        {"path": "n", "kind": "change", "before": "3", "after": "5", "forces_replacement": True},
        {"path": "u", "kind": "add", "is_unknown": True},
        {"path": "p", "kind": "change", "is_sensitive": True},
        {"path": "g", "kind": "remove", "before": "1"},
    ]
    built = plans.build({"type": "PLAN", "plan_summary": SUMMARY}, {"a.b": {"attributes": rows, "unchanged": 1}})
    (resource,) = built.resources
    said = [(a.path, a.old or a.old_note, a.new or a.new_note) for a in resource.attributes]
    assert said == [
        ("n", "3", "5"), ("u", "not set", "(known after apply)"), ("p", "(sensitive)", "(sensitive), changed"), ("g", "1", "not set"),
    ]  # fmt: skip
    assert resource.attributes[0].is_forcing
    assert resource.note == "1 attribute does not change."


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ({"create": 1}, "1 resource is created, nothing is deleted."),
        ({"delete": 2, "update": 1}, "1 resource is updated in place, 2 resources are deleted."),
        ({"outputs": [{"name": "a"}]}, "No resource changes, only outputs."),
        ({}, "Nothing changes."),
    ],
)
def test_a_plan_is_summarised_in_a_sentence(summary: dict[str, Any], said: str) -> None:
    assert plans.sentence(plans.build({"type": "PLAN", "plan_summary": summary})) == said


@pytest.mark.parametrize("odd", [None, {}, {"resources": []}, {"resources": ["x"]}, []])
def test_odd_changes_are_passed_over(odd: Any) -> None:
    assert reviews.changes(odd) == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"inspects": 7, "refresh_only": True}, "Check"),
        ({"preview": True}, "Preview"),
        ({"refresh_only": True}, "Refresh-only plan"),
        ({"destroy": True}, "Destroy plan"),
        ({}, "Plan"),
    ],
)
def test_a_plans_title_names_its_kind(options: dict[str, Any], said: str) -> None:
    assert title({"type": "PLAN", "payload": {"options": options}}) == said


def test_options_are_read_from_lines() -> None:
    assert lines(" a.b \n\n c ") == ["a.b", "c"]
    assert lines(None) == []
    assert to_apply(is_destroy=True) == {"confirm": True, "destroy": True}


def test_a_record_has_each_state_with_both_ends() -> None:
    events = [
        {"event": "enqueued", "to_status": "QUEUED", "at": "1", "attempt": 0},
        {"event": "phase", "to_status": None, "at": "2", "attempt": 1},
        {"event": "failed", "to_status": "FAILED", "at": "3", "attempt": 1},
    ]
    found = waterfall({"finished_at": "3", "steps": [{"name": "plan", "started_at": "2"}]}, events)
    assert [(part["name"], part["from"], part["to"]) for part in found] == [
        ("QUEUED", "1", "3"), ("FAILED", "3", "3"), ("plan", "2", None),
    ]  # fmt: skip
