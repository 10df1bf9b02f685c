"""The planner as properties: bounds, no flapping, and a reason for everything."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from worker.cloud.scaler import BOOT_PATIENCE, BREAKER_REST, Limits, Load, Memory, Verdict, plan

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TICK = timedelta(seconds=10)


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    maximum = draw(st.integers(1, 8))
    return Limits(
        minimum=draw(st.integers(0, maximum)),
        maximum=maximum,
        jobs_per_task=draw(st.integers(1, 4)),
        idle_seconds=draw(st.floats(0, 900)),
    )


@st.composite
def loads(draw: st.DrawFn) -> Load:
    busy = draw(st.integers(0, 8))
    return Load(
        desired=draw(st.integers(0, 8)),
        connected=draw(st.integers(busy, 8)),
        waiting=draw(st.integers(0, 50)),
        running=busy,
        busy_tasks=busy,
        takes_jobs=draw(st.booleans()),
    )


moments = st.none() | st.integers(-2000, 0).map(lambda seconds: NOW + timedelta(seconds=seconds))
memories = st.builds(Memory, moments, moments, st.integers(0, 2), moments)


@given(limits(), loads(), memories)
def test_the_task_count_is_never_below_busy_tasks_or_above_the_maximum(
    limit: Limits, load: Load, memory: Memory
) -> None:
    decision = plan(limit, load, memory, NOW)
    if decision.verdict is not Verdict.HOLD:
        assert decision.desired >= load.busy_tasks
        assert decision.desired <= max(limit.maximum, load.busy_tasks)
    if decision.verdict is Verdict.UP:
        assert decision.desired > load.desired
    if decision.verdict is Verdict.DOWN:
        assert decision.desired < load.desired


@given(limits(), loads(), memories)
def test_explains_itself(limit: Limits, load: Load, memory: Memory) -> None:
    decision = plan(limit, load, memory, NOW)
    assert decision.reason
    if decision.verdict is Verdict.HOLD:
        assert decision.desired == load.desired


@given(limits(), loads(), memories)
def test_a_runner_that_accepts_no_jobs_is_not_scaled_up_for_waiting_ones(
    limit: Limits, load: Load, memory: Memory
) -> None:
    load = replace(load, takes_jobs=False, running=0, busy_tasks=0)
    assert plan(limit, load, memory, NOW).verdict is not Verdict.UP


@given(st.integers(1, 6), st.integers(2, 29), st.integers(10, 60))
def test_a_sawtooth_queue_does_not_make_it_flap(burst: int, period_ticks: int, rounds: int) -> None:
    """Bursts closer together than the idle time never bring a task down between them."""
    limit = Limits(minimum=0, maximum=6, jobs_per_task=1, idle_seconds=300)
    memory, desired, downs = Memory(), 0, 0
    for tick in range(rounds * period_ticks):
        waiting = burst if tick % period_ticks == 0 else 0
        load = Load(desired=desired, connected=desired, waiting=waiting, running=0, busy_tasks=0)
        decision = plan(limit, load, memory, NOW + tick * TICK)
        downs += decision.verdict is Verdict.DOWN
        desired, memory = decision.desired, decision.memory
    assert desired == burst
    assert downs == 0


@given(limits(), st.integers(0, 20), st.integers(0, 5))
def test_the_task_count_settles_under_a_constant_load(limit: Limits, waiting: int, desired: int) -> None:
    """The same load gives the same number for ever, once the idle time is over."""
    memory = Memory()
    for tick in range(400):
        load = Load(desired=desired, connected=desired, waiting=waiting, running=0, busy_tasks=0)
        decision = plan(limit, load, memory, NOW + tick * TICK)
        desired, memory = decision.desired, decision.memory
    assert desired == max(limit.minimum, min(limit.maximum, ceil(waiting / limit.jobs_per_task)))
    assert decision.verdict is Verdict.HOLD


def test_an_idle_runner_is_scaled_to_zero_after_the_idle_time_and_up_again_at_once() -> None:
    limit = Limits(idle_seconds=300)
    idle = Load(desired=1, connected=1, waiting=0, running=0, busy_tasks=0)
    first = plan(limit, idle, Memory(), NOW)
    assert first.verdict is Verdict.HOLD
    assert "300 s" in first.reason
    later = plan(limit, idle, first.memory, NOW + timedelta(seconds=300))
    assert (later.verdict, later.desired) == (Verdict.DOWN, 0)
    asleep = replace(idle, desired=0, connected=0, waiting=1)
    awake = plan(limit, asleep, later.memory, NOW + timedelta(seconds=301))
    assert (awake.verdict, awake.desired) == (Verdict.UP, 1)
    assert awake.reason.startswith("1 job waiting")


def test_three_silent_starts_break_the_loop_until_it_has_rested() -> None:
    limit = Limits()
    silent = Load(desired=1, connected=0, waiting=1, running=0, busy_tasks=0)
    memory = plan(limit, replace(silent, desired=0), Memory(), NOW).memory
    now = NOW
    for _ in range(3):
        now += BOOT_PATIENCE
        decision = plan(limit, silent, memory, now)
        memory = decision.memory
    assert decision.verdict is Verdict.BROKEN
    assert decision.desired == 0
    assert "no heartbeat" in decision.reason
    rested = plan(limit, replace(silent, desired=0), memory, now + BREAKER_REST)
    assert rested.verdict is Verdict.UP


def test_a_heartbeat_forgives_slow_starts() -> None:
    memory = Memory(started_at=NOW - BOOT_PATIENCE, boot_failures=2)
    load = Load(desired=1, connected=1, waiting=1, running=0, busy_tasks=0)
    assert plan(Limits(), load, memory, NOW).memory.boot_failures == 0
