"""A job's page in words: facts, offers, events, outputs."""

from typing import Any

import pytest

from app.jobs.view.detail import (
    build_events,
    build_outputs,
    build_view,
    engine,
    is_silent,
    log_steps,
    priority,
    source,
)
from app.jobs.view.timeline import to_ms

GIT = {"engine": "tofu", "engine_version": "1.10.5", "source_kind": "git", "source": {"ref": "main"}}
JOB: dict[str, Any] = {
    "id": 4828,
    "number": 58,
    "type": "APPLY",
    "status": "PROCESSING",
    "phase": "APPLY",
    "module_id": "m1",
    "module_path": "platform/cluster/eks",
    "worker_name": "k8s-platform",
    "instance_name": "runner-1",
    "attempt": 1,
    "max_attempts": 3,
    "payload": {"module": GIT},
    "result": {"commit": "8c41f2e0aa"},
    "started_at": "s",
}


def view(**changes: Any) -> dict[str, Any]:
    return dict(build_view({**JOB, **changes}, {}, []))


def test_facts() -> None:
    built = view()
    assert (built["title"], built["attempt"], built["instance"]) == ("Apply", "1 of 3", "runner-1")
    assert (built["engine"], built["source"], built["priority"]) == ("OpenTofu 1.10.5", "main@8c41f2e", "Normal")


@pytest.mark.parametrize(
    ("changes", "offers"),
    [
        ({}, {"can_cancel", "can_choose_cancel"}),
        ({"status": "QUEUED"}, {"can_cancel", "is_waiting"}),
        ({"status": "AWAITING_APPROVAL"}, {"can_cancel"}),
        ({"status": "FAILED"}, {"can_retry"}),
        ({"status": "SUCCEEDED"}, set()),
        ({"status": "SUCCEEDED", "type": "PLAN", "plan_summary": {"has_changes": True}}, {"can_apply"}),
        ({"status": "SUCCEEDED", "type": "PLAN", "plan_summary": {"has_changes": False}}, set()),
        (
            {
                "status": "SUCCEEDED",
                "type": "PLAN",
                "plan_summary": {"has_changes": True},
                "payload": {"options": {"inspects": 4827}},
            },
            set(),
        ),
        ({"status": "NEEDS_ATTENTION"}, set()),
    ],
)
def test_the_actions_offered_depend_on_the_job(changes: dict[str, Any], offers: set[str]) -> None:
    built = view(**changes)
    names = ("can_cancel", "can_choose_cancel", "can_retry", "can_apply", "is_waiting")
    assert {name for name in names if built[name]} == offers


@pytest.mark.parametrize(
    ("job", "is_discarded"),
    [
        ({"type": "PLAN", "status": "SUCCEEDED", "plan_summary": {"has_changes": True}}, True),
        ({"status": "CANCELLED", "plan_job_id": 4827}, True),
        ({"status": "CANCELLED"}, False),
    ],
)
def test_a_discarded_plan_is_not_offered_again(job: dict[str, Any], is_discarded: bool) -> None:
    built = build_view({**JOB, **job}, {}, [{"event": "rejected", "at": "2026-11-16T14:00:00Z"}])
    assert (built["can_apply"], built["is_discarded"]) == (False, is_discarded)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ({"source_kind": "archive", "source": {"url": "https://example.com/a/vpc.tar.gz"}}, "vpc.tar.gz"),
        ({"source_kind": "inline", "source": {"files": {"main.tf": ""}}}, "inline, 1 file"),
        ({"source_kind": "local", "source": {"path": "/srv/infra"}}, "/srv/infra"),
        ({}, ""),
    ],
)
def test_sources(module: dict[str, Any], words: str) -> None:
    assert source({"payload": {"module": module}}) == words


def test_the_engine_that_ran_is_shown_before_the_requested_one() -> None:
    assert engine({**JOB, "result": {"engine_version": "1.10.6"}}, {"tofu": "1.9.0"}) == "OpenTofu 1.10.6"
    asked_for_any = {"payload": {"module": {"engine": "tofu"}}}
    assert engine(asked_for_any, {"tofu": "1.9.0"}) == "OpenTofu 1.9.0"


@pytest.mark.parametrize(("value", "word"), [(10, "High"), (100, "Normal"), (500, "Low")])
def test_priorities(value: int, word: str) -> None:
    assert priority(value) == word


def test_events_are_listed_newest_first_with_actor_and_reason() -> None:
    events = [
        {"id": 1, "event": "enqueued", "actor_label": "ops@example.com", "at": "a"},
        {"id": 2, "event": "lost", "actor_label": "system", "reason": "No heartbeat for 60 s."},
        {"id": 3, "event": "something_new", "actor_label": "system"},
        {"id": 4, "event": "phase", "actor_label": "prod-eu"},
    ]
    assert [event["words"] for event in build_events(events)] == [
        "Something new",
        "Runner lost: No heartbeat for 60 s",
        "Requested by ops@example.com",
    ]


def test_the_log_receives_the_jobs_steps() -> None:
    job = {
        **JOB,
        "created_at": "2026-11-15T14:00:00+00:00",
        "steps": [{"name": "apply", "title": "Apply", "status": "RUNNING"}],
    }
    job["claimed_at"] = job["started_at"] = "2026-11-15T14:00:01+00:00"
    assert log_steps(job) == [{"name": "apply", "title": "Apply", "status": "RUNNING", "from_ms": 0, "to_ms": 0}]


def test_outputs_keep_their_secrets() -> None:
    outputs = {
        "b": {"value": ["x"]},
        "a": {"sensitive": True, "value": None},
        "c": {"value": None, "is_truncated": True},
        "d": 1,
    }
    built = build_outputs({"result": {"outputs": outputs}})
    assert [(item["name"], item["value"], item["is_secret"]) for item in built] == [
        ("a", "", True),
        ("b", '["x"]', False),
        ("c", "too long to show", False),
    ]


def test_a_runner_is_out_of_contact_after_two_heartbeats() -> None:
    seen = "2026-11-15T14:00:00+00:00"
    at = to_ms(seen) / 1000
    assert not is_silent(seen, at + 30)
    assert is_silent(seen, at + 40)
    assert not is_silent("", at)


def test_a_kill_differs_from_a_stop_and_is_grave_only_during_changes() -> None:
    asked = {"event": "cancel_requested", "actor_label": "ops@example.com"}
    events = [
        {**asked, "id": 1, "reason": "Stop now", "detail": {"kind": "GRACEFUL"}},
        {**asked, "id": 2, "reason": "Kill", "detail": {"kind": "KILL"}},
        {"id": 3, "event": "cancelled", "reason": "Cancelled by ops@example.com."},
        {"id": 4, "event": "claimed", "actor_label": "prod-eu", "reason": "Instance runner-1"},
        {"id": 5, "event": "cancelled", "actor_label": "nora@example.com", "reason": "Stop now"},
    ]
    assert [event["words"] for event in build_events(events)] == [
        "Cancelled by nora@example.com",
        "Claimed by prod-eu (runner-1)",
        "Cancelled by ops@example.com",
        "Kill requested by ops@example.com",
        "Stop requested by ops@example.com (Stop now)",
    ]
    killed = {"status": "CANCELLED", "cancel_kind": "KILL", "phase": "APPLY"}
    assert view(**killed)["was_killed"]
    assert not view(**{**killed, "phase": "PLAN"})["was_killed"]
    assert not view(**{**killed, "cancel_kind": "GRACEFUL"})["was_killed"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", ""),
        ("tofu plan ended with exit code 1", "tofu plan ended with exit code 1."),
        ("Undeclared variable `nope` · main.tf:2", "Undeclared variable `nope` · main.tf:2"),
        ("It was removed.", "It was removed."),
    ],
)
def test_the_error_message_ends_with_a_full_stop_before_the_hint(message: str, said: str) -> None:
    assert view(status="FAILED", error={"message": message, "hint": "Read the log."})["problem"] == said


def test_an_engines_error_leads_to_its_line_of_the_log() -> None:
    assert view(error={"message": "Undeclared variable `nope` · main.tf:2"})["problem_place"] == "main.tf line 2"
    assert view(error={"message": "The runner was lost."})["problem_place"] == ""


AT = {"created_at": "c", "finished_at": "f"}


def test_a_job_that_no_runner_claimed_waited_and_did_not_run() -> None:
    assert view(status="CANCELLED", started_at=None, **AT)["time_label"] == "Waited"
    assert view(status="CANCELLED", **AT)["time_label"] == "Ran for"


def test_a_lost_job_ran_until_it_was_lost_and_not_until_somebody_decided() -> None:
    lost, back = {"event": "attention", "at": "lost"}, {"event": "resumed", "at": "back"}
    error = {"message": "No heartbeat for 60 s.", "hint": "Look, then decide."}
    job = {**JOB, **AT, "status": "FAILED", "error": error}
    decided = build_view(job, {}, [lost, {"event": "resolved", "reason": "mark_failed", "at": "d"}])
    assert (decided["until"], decided["problem_hint"]) == ("lost", "")
    returned = build_view(job, {}, [lost, back])
    assert (returned["until"], returned["lost_at"], returned["problem_hint"]) == ("f", "", "Look, then decide.")


def test_a_lost_job_ran_until_its_last_sign_and_the_next_attempt_runs_anew() -> None:
    lost = {"event": "attention", "at": "noticed", "detail": {"since": "last sign"}}
    held = build_view({**JOB, **AT, "status": "NEEDS_ATTENTION"}, {}, [lost])
    assert (held["until"], held["lost_at"]) == ("last sign", "last sign")
    again = build_view({**JOB, **AT, "status": "SUCCEEDED"}, {}, [lost, {"event": "claimed", "at": "later"}])
    assert (again["until"], again["lost_at"]) == ("f", "")


SLOW = {"address": "t.slow", "action": "create", "status": "RUNNING"}
DONE = {"address": "t.a", "action": "update", "status": "SUCCEEDED"}


@pytest.mark.parametrize(
    ("changes", "left", "is_interrupted"),
    [
        ({"status": "CANCELLED"}, "1 of 2 changes done; t.slow was being created", True),
        ({"status": "FAILED"}, "1 of 2 changes done; t.slow was being created", True),
        ({"status": "NEEDS_ATTENTION"}, "1 of 2 changes done; t.slow was being created", False),
        ({"status": "CANCELLED", "phase": "INIT"}, "", False),
        ({"status": "FAILED", "plan_summary": None}, "", False),
    ],
)
def test_an_apply_that_was_interrupted_shows_how_far_it_got(
    changes: dict[str, Any], left: str, is_interrupted: bool
) -> None:
    built = view(**{"plan_summary": {"resources": [DONE, SLOW]}, **changes})
    assert (built["left"], built["is_interrupted"]) == (left, is_interrupted)


def test_decisions_and_returns_are_described_in_words() -> None:
    events = [
        {"id": 1, "event": "enqueued", "actor_label": "nora", "reason": "Plan 26 has changes"},
        {"id": 2, "event": "resumed", "actor_label": "system", "reason": "The runner is in contact again"},
        {"id": 3, "event": "resolved", "actor_label": "nora", "reason": "mark_failed"},
    ]
    assert [event["words"] for event in build_events(events)] == [
        "Marked as failed by nora",
        "Runner back in contact",
        "Plan has changes: the apply follows",
    ]


def test_events_of_a_run_name_its_phase() -> None:
    events = [
        {"id": 1, "job_id": 7, "event": "started", "actor_label": "edge"},
        {"id": 2, "job_id": 7, "event": "succeeded", "actor_label": "edge"},
        {"id": 3, "job_id": 8, "event": "enqueued", "actor_label": "system"},
        {"id": 4, "job_id": 8, "event": "claimed", "actor_label": "edge", "reason": "Instance vm"},
    ]
    jobs = ({"id": 7, "type": "PLAN"}, {"id": 8, "type": "APPLY"})
    said = ["Apply claimed by edge (vm)", "Requested by Runyard", "Plan succeeded", "Plan started"]
    assert [event["words"] for event in build_events(events, *jobs)] == said
    assert build_events(events[:2], jobs[0])[0]["words"] == "Succeeded"


@pytest.mark.parametrize(("reported", "is_open"), [("none", True), ("off", True), ("bubblewrap", False), (None, False)])
def test_a_job_of_a_runner_without_a_sandbox_is_marked(reported: str | None, is_open: bool) -> None:
    assert build_view(JOB, {}, [], {"engines": {}, "isolation": reported})["is_open"] is is_open


def test_a_job_whose_details_were_deleted_cannot_be_retried() -> None:
    assert view(status="FAILED")["can_retry"]
    old = view(status="FAILED", slimmed_at="2026-11-15T14:00:00+00:00", payload={})
    assert (old["can_retry"], old["slimmed_at"]) == (False, "2026-11-15T14:00:00+00:00")


def test_other_jobs_are_named_by_their_numbers_and_the_plan_of_the_same_run_is_not() -> None:
    job = {**JOB, "plan_job_id": 4820, "retry_of": 4700}
    built = build_view(job, {}, [], numbers={"4820": 58, "4700": 31})
    assert (built["number"], built["planned_by"], built["retry_of"], built["inspects"]) == (58, 0, 31, 0)
