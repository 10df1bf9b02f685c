"""The timeline is laid out from the job's row, its steps and its events."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.jobs.view.timeline import Timeline, build, to_ms

START = datetime(2026, 11, 15, 14, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def ms(seconds: float) -> int:
    return to_ms(at(seconds))


def event(number: int, seconds: float, to_status: str | None) -> dict[str, Any]:
    return {"id": number, "at": at(seconds), "to_status": to_status}


def laid_out(timeline: Timeline) -> list[tuple[str, str, int, int]]:
    return [(bar.label, bar.status, bar.from_ms, bar.to_ms) for bar in timeline.bars]


RUNNING = {
    "status": "PROCESSING",
    "created_at": at(0),
    "approvals_required": 2,
    "queued_at": at(118),
    "claimed_at": at(121),
    "started_at": at(122),
    "steps": [
        {
            "name": "fetch",
            "title": "Fetch source",
            "status": "SUCCEEDED",
            "started_at": at(122),
            "finished_at": at(124),
        },
        {"name": "apply", "phase": "APPLY", "status": "RUNNING", "started_at": at(124)},
        {"name": "output", "phase": "OUTPUT"},
    ],
}


def test_a_running_job_has_an_open_state_and_an_open_step() -> None:
    timeline = build(RUNNING)
    assert (timeline.start_ms, timeline.end_ms) == (ms(0), 0)
    assert laid_out(timeline) == [
        ("Awaiting approval", "AWAITING_APPROVAL", ms(0), ms(118)),
        ("Queued", "QUEUED", ms(118), ms(121)),
        ("Claimed", "CLAIMED", ms(121), ms(122)),
        ("Processing", "PROCESSING", ms(122), 0),
        ("Fetch source", "SUCCEEDED", ms(122), ms(124)),
        ("Apply", "RUNNING", ms(124), 0),
        ("Output", "PENDING", 0, 0),
    ]


def test_a_lost_runner_ends_its_open_step_where_processing_ended() -> None:
    job = {**RUNNING, "status": "NEEDS_ATTENTION"}
    events = [
        event(1, 0, "QUEUED"),
        event(2, 3, "CLAIMED"),
        event(3, 4, "PROCESSING"),
        event(4, 380, "NEEDS_ATTENTION"),
    ]
    timeline = build(job, events)
    assert timeline.end_ms == 0
    assert ("Apply", "NEEDS_ATTENTION", ms(124), ms(380)) in laid_out(timeline)
    assert laid_out(timeline)[-1] == ("Needs attention", "NEEDS_ATTENTION", ms(380), 0)


def test_a_second_attempt_shows_both_and_puts_the_steps_under_the_last() -> None:
    events = [
        event(1, 0, "QUEUED"),
        event(2, 1, "CLAIMED"),
        event(3, 2, "PROCESSING"),
        event(4, 70, "QUEUED"),
        event(5, 71, None),
        event(6, 75, "CLAIMED"),
        event(7, 76, "PROCESSING"),
    ]
    bars = build({**RUNNING, "steps": RUNNING["steps"][:1]}, events).bars
    assert [bar.status for bar in bars] == [*("QUEUED", "CLAIMED", "PROCESSING") * 2, "SUCCEEDED"]
    assert bars[-1].is_step


def test_a_finished_job_has_no_open_bar() -> None:
    job = {**RUNNING, "status": "CANCELLED", "finished_at": at(200)}
    timeline = build(job)
    assert timeline.end_ms == ms(200)
    assert all(bar.to_ms for bar in timeline.bars if bar.from_ms)
    assert laid_out(timeline)[-2] == ("Apply", "CANCELLED", ms(124), ms(200))


def test_future_steps_have_a_bar_from_the_start() -> None:
    job = {
        "type": "PLAN",
        "status": "QUEUED",
        "created_at": at(0),
        "payload": {"module": {"hooks": {"before_init": "x"}}},
    }
    labels = [bar.label for bar in build(job).bars]
    assert labels == [
        *("Queued", "Claimed", "Processing", "Prepare", "Fetch source", "Write inputs and extra files"),
        *("Hook before init", "Init", "Plan", "Save plan"),
    ]
    begun = {
        **job,
        "status": "PROCESSING",
        "claimed_at": at(1),
        "started_at": at(2),
        "steps": [{"name": "prepare", "title": "Prepare", "status": "RUNNING", "started_at": at(2)}],
    }
    assert [bar.label for bar in build(begun).bars] == labels
    assert [bar.status for bar in build(begun).bars][2:5] == ["PROCESSING", "RUNNING", "PENDING"]
    over = {**begun, "status": "FAILED", "finished_at": at(9)}
    assert "Plan" not in [bar.label for bar in build(over).bars]


def test_a_step_never_begins_before_its_job_was_claimed() -> None:
    step = {"name": "plan", "title": "Plan", "status": "SUCCEEDED", "started_at": at(-3600), "finished_at": at(-3590)}
    job = {
        "type": "PLAN",
        "status": "PROCESSING",
        "created_at": at(0),
        "claimed_at": at(1),
        "started_at": at(2),
        "steps": [step],
    }
    [bar] = [bar for bar in build(job).bars if bar.key == "step-0"]
    assert (bar.from_ms, bar.to_ms) == (ms(2), ms(2))


def test_an_apply_of_a_plan_downloads_it_instead_of_planning() -> None:
    job = {"type": "APPLY", "status": "QUEUED", "created_at": at(0), "plan_job_id": 7}
    labels = [bar.label for bar in build(job).bars if bar.is_step]
    assert labels[-3:] == ["Download plan", "Apply", "Output"]


def test_nothing_known_is_an_empty_timeline() -> None:
    assert build({}) == Timeline()


@given(
    st.lists(
        st.tuples(st.floats(0, 10_000), st.sampled_from(["QUEUED", "CLAIMED", "PROCESSING", "SUCCEEDED"])), max_size=12
    )
)
def test_bars_follow_each_other_and_never_run_backwards(moves: list[tuple[float, str]]) -> None:
    events = [event(number, seconds, status) for number, (seconds, status) in enumerate(moves)]
    bars = [bar for bar in build({"status": "PROCESSING"}, events).bars if bar.from_ms and not bar.is_step]
    assert all(bar.to_ms >= bar.from_ms for bar in bars if bar.to_ms)
    assert all(left.from_ms <= right.from_ms for left, right in pairwise(bars))


def test_a_step_of_a_runner_that_reconnected_keeps_its_start_time() -> None:
    moves = (
        (0, "QUEUED"),
        (1, "CLAIMED"),
        (2, "PROCESSING"),
        (40, "NEEDS_ATTENTION"),
        (60, "PROCESSING"),
        (61, "SUCCEEDED"),
    )
    events = [event(number, seconds, status) for number, (seconds, status) in enumerate(moves)]
    step = {"name": "apply", "phase": "APPLY", "status": "SUCCEEDED", "started_at": at(5), "finished_at": at(60.8)}
    job = {"type": "APPLY", "status": "SUCCEEDED", "started_at": at(2), "finished_at": at(61), "steps": [step]}
    assert ("Apply", "SUCCEEDED", ms(5), ms(60.8)) in laid_out(build(job, events))
