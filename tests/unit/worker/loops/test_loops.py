"""Heartbeat, claim, leases and directives, each on its own."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from tests.support.waiting import eventually
from tests.unit.worker.fakes import HandClock, Network, refusal
from worker.api.replies import ClaimedJob, HeartbeatReply, JobRef
from worker.attempt.control import JobControl, Lease, Stop, StopCause
from worker.enums import CancelKind, JobType, WorkerStatus
from worker.errors import Rejected, Retryable
from worker.loops.build import WakeUps
from worker.loops.claim import ClaimLoop
from worker.loops.heartbeat import Directives, Heartbeat
from worker.process_status import ProcessStatus
from worker.running.table import JobHandle, JobTable

pytestmark = pytest.mark.anyio


async def answer_of(value: bool) -> bool:
    return value


def handle(clock: HandClock, job: int = 1, attempt: int = 1) -> JobHandle:
    claimed = ClaimedJob(id=job, attempt=attempt, type=JobType.PLAN)
    return JobHandle(claimed, Lease(clock.time, 60), JobControl(1))


class Parts:
    """A heartbeat with everything around it."""

    def __init__(self, network: Network, *, own_capacity: int | None = None) -> None:
        self.clock = HandClock()
        self.table = JobTable(self.clock)
        self.process_status = ProcessStatus()
        self.woken: list[str] = []
        self.facts: dict[str, Any] = {"engines": {"tofu": "1"}}
        self.directives = Directives(
            self.table, self.process_status, wake_claim=lambda: self.woken.append("claim"),
            wake_heartbeat=lambda: self.woken.append("heartbeat"), own_capacity=own_capacity,
        )  # fmt: skip
        self.heartbeat = Heartbeat(
            network.server(),
            self.table,
            self.process_status,
            lambda: dict(self.facts),
            self.directives.obey,
            self.clock,
        )


async def test_a_heartbeat_renews_the_lease_from_the_moment_it_was_sent() -> None:
    def answer(*_: Any) -> Any:
        parts.clock.time += 7
        return {"lease_seconds": 60}

    parts = Parts(Network(answer))
    running = handle(parts.clock)
    parts.table.add(running)
    parts.clock.time = 1030.0
    await parts.heartbeat.send()
    assert running.lease.sent_at == 1030.0
    assert running.lease.sent_at + running.lease.seconds == 1090.0


def test_an_older_answer_does_not_shorten_a_lease() -> None:
    lease = Lease(100.0, 60)
    lease.renew(120.0, 60)
    lease.renew(110.0, 60)
    assert lease.sent_at + lease.seconds == 180.0
    assert lease.stop_at == 165.0


async def test_facts_are_sent_when_they_change_and_after_a_new_session() -> None:
    network = Network(lambda *_: {})
    parts = Parts(network)
    await parts.heartbeat.send()
    await parts.heartbeat.send()
    parts.facts["engines"] = {}
    await parts.heartbeat.send()
    parts.heartbeat.forget_facts()
    await parts.heartbeat.send()
    assert [bool(body["p_facts"]) for body in network.named("worker_heartbeat")] == [True, False, True, True]


async def test_heartbeats_continue_after_a_fresh_token_was_refused_as_well() -> None:
    answers = iter([(401, {"code": "PGRST301"}), (401, {"code": "PGRST301"})])
    parts = Parts(Network(lambda *_: next(answers, {})))
    running = asyncio.create_task(parts.heartbeat.run())
    await eventually(lambda: answer_of(parts.process_status.is_connected or running.done()))
    assert not running.done()
    running.cancel()


async def test_a_cancellation_that_arrives_twice_is_logged_once() -> None:
    """A report's answer may be quicker than the heartbeat."""
    wish = {"job": 1, "attempt": 1, "kind": "AFTER_STEP", "reason": "somebody"}
    parts = Parts(Network(lambda *_: {"cancel": [wish]}))
    running = handle(parts.clock)
    parts.table.add(running)
    with capture_logs() as told:
        running.cancel(CancelKind.AFTER_STEP)
        await parts.heartbeat.send()
    assert [each["kind"] for each in told if each.get("id") == "cancelling"] == [CancelKind.AFTER_STEP]
    assert running.control.stop == Stop(CancelKind.AFTER_STEP, StopCause.CANCELLED, "Cancelled on request.")


def server_time(clock: HandClock, off: float) -> str:
    """Return the server's time when the runner's clock is so many seconds ahead of it."""
    return datetime.fromtimestamp(clock.time - off, UTC).isoformat()


async def test_a_clock_difference_is_reported_once_and_removed_when_it_ends() -> None:
    off = [41.2, 42.9, 39.0, 47.0, -3600.4, 1.0, 6.0, 4.9]
    parts = Parts(Network(lambda *_: {"server_time": server_time(parts.clock, off[len(told)])}))
    told: list[int | None] = []
    for _ in off:
        await parts.heartbeat.send()
        told.append(parts.process_status.skew.reported)
    assert told == [41, 41, 41, 47, -3600, None, 6, None]


async def test_a_slow_answer_reports_no_small_clock_difference() -> None:
    def answer(*_: Any) -> Any:
        said = server_time(parts.clock, 0)
        parts.clock.time += 14
        return {"server_time": said}

    parts = Parts(Network(answer))
    await parts.heartbeat.send()
    assert parts.process_status.skew.reported is None


@pytest.mark.parametrize("said", [None, "", "soon", "2026-11-15T12:00:00"])
async def test_a_server_without_a_valid_time_causes_no_reported_clock_difference(said: str | None) -> None:
    parts = Parts(Network(lambda *_: {"server_time": said}))
    await parts.heartbeat.send()
    assert parts.process_status.skew.reported is None


async def test_a_lost_attempt_is_stopped_and_a_cancel_obeyed() -> None:
    network = Network(
        lambda *_: {
            "lost": [{"job": 1, "attempt": 1}],
            "cancel": [{"job": 2, "attempt": 1, "kind": "KILL", "reason": "Ada"}],
        }
    )
    parts = Parts(network)
    lost, cancelled = handle(parts.clock, 1), handle(parts.clock, 2)
    parts.table.add(lost)
    parts.table.add(cancelled)
    await parts.heartbeat.send()
    assert lost.control.stop is not None
    assert lost.control.stop.cause is StopCause.LEASE
    assert cancelled.control.stop is not None
    assert (cancelled.control.stop.kind, cancelled.control.stop.cause) == (CancelKind.KILL, StopCause.CANCELLED)
    assert "Ada" in cancelled.control.stop.message


async def test_a_lease_that_is_not_renewed_stops_its_job_before_it_ends() -> None:
    clock = HandClock()
    table = JobTable(clock)
    running = handle(clock)
    running.control.request(Stop(CancelKind.AFTER_STEP, StopCause.CANCELLED, "after this step"))
    table.add(running)
    watch = asyncio.create_task(table.watch_leases())
    await eventually(lambda: answer_of(running.control.is_stopping), every_seconds=0)
    watch.cancel()
    assert running.lease.stop_at <= clock.time < running.lease.sent_at + running.lease.seconds
    assert running.control.stop is not None
    assert running.control.stop.cause is StopCause.LEASE


def test_directives_drain_resize_and_announce() -> None:
    parts = Parts(Network(lambda *_: {}))
    parts.directives.obey(HeartbeatReply(drain=True, drain_reason="maintenance", worker={"capacity": 5}, has_work=True))
    assert parts.process_status.status is WorkerStatus.DRAINING
    assert parts.process_status.capacity == 5
    assert parts.process_status.free_slots(0) == 0
    assert "heartbeat" in parts.woken
    assert "claim" in parts.woken
    parts.directives.obey(HeartbeatReply(drain=False, worker={"capacity": 5}))
    assert parts.process_status.free_slots(2) == 3


@pytest.mark.parametrize(("own", "expected"), [(None, 5), (2, 2), (9, 5)])
def test_an_operator_may_lower_the_records_capacity(own: int | None, expected: int) -> None:
    parts = Parts(Network(lambda *_: {}), own_capacity=own)
    parts.directives.resize({"capacity": 5})
    assert parts.process_status.capacity == expected


def test_a_capacity_is_at_least_one_and_wakes_the_claim_only_when_it_changes() -> None:
    parts = Parts(Network(lambda *_: {}))
    parts.process_status.capacity = 3
    parts.directives.resize({"capacity": 0})
    assert (parts.process_status.capacity, parts.woken) == (1, ["claim"])
    parts.directives.resize({"capacity": 1})
    parts.directives.resize({"capacity": None})
    assert (parts.process_status.capacity, parts.woken) == (1, ["claim"])


def test_a_published_version_is_logged_once() -> None:
    parts = Parts(Network(lambda *_: {}))
    with capture_logs() as logs:
        for version in ("2.0", "2.0", None, "2.1"):
            parts.directives.obey(HeartbeatReply(worker={}, update={"version": version} if version else None))
    assert [each["version"] for each in logs if "version" in each] == ["2.0", "2.1"]


def claim_loop(
    network: Network, process_status: ProcessStatus, *, is_ready: bool = True, is_rung: bool = False
) -> tuple[ClaimLoop, list[tuple[int, float]]]:
    clock, started = HandClock(), []
    loop = ClaimLoop(
        network.server(), JobTable(clock), process_status, lambda: is_ready, lambda job, sent: started.append((job.id, sent)),
        clock, poll_seconds=10, is_rung=lambda: is_rung,
    )  # fmt: skip
    return loop, started


@pytest.mark.parametrize(("is_rung", "shortest", "longest"), [(True, 60, 120), (False, 9, 11)])
def test_a_runner_that_hears_the_doorbell_seldom_asks_without_it(
    is_rung: bool, shortest: float, longest: float
) -> None:
    loop, _ = claim_loop(Network(lambda *_: {"jobs": []}), ProcessStatus(), is_rung=is_rung)
    pauses = [loop.pause() for _ in range(200)]
    assert shortest <= min(pauses) < max(pauses) <= longest


def test_a_doorbell_that_is_lost_makes_the_claim_loop_look_and_poll_again() -> None:
    wake_ups = WakeUps()
    wake_ups.notify("lost")
    assert (wake_ups.claim.is_set(), wake_ups.heartbeat.is_set()) == (True, False)


async def test_a_claim_whose_reply_was_lost_is_repeated_unchanged() -> None:
    answers = iter([httpx.ReadError("lost"), {"jobs": [{"id": 4, "attempt": 1, "type": "PLAN"}]}, {"jobs": []}])
    network = Network(lambda *_: next(answers))
    process_status = ProcessStatus(capacity=2)
    loop, started = claim_loop(network, process_status)
    with pytest.raises(Retryable):
        await loop.claim()
    process_status.capacity = 8
    await loop.claim()
    await loop.claim()
    first, second, third = network.named("worker_claim")
    assert first == second
    assert third["p_request_id"] != first["p_request_id"]
    assert started == [(4, 1000.0)]


async def test_a_refused_claim_is_not_repeated_under_its_id() -> None:
    network = Network(lambda *_: refusal("RY422"))
    loop, _ = claim_loop(network, ProcessStatus(capacity=1))
    for _ in range(2):
        with pytest.raises(Rejected):
            await loop.claim()
    first, second = network.named("worker_claim")
    assert first["p_request_id"] != second["p_request_id"]


@pytest.mark.parametrize(
    ("process_status", "is_ready"),
    [
        (ProcessStatus(is_leaving=True), True),
        (ProcessStatus(is_drained_by_server=True), True),
        (ProcessStatus(is_single=True, has_claimed=True), True),
        (ProcessStatus(), False),
    ],
)
async def test_nothing_is_claimed_while_leaving_draining_or_without_an_engine(
    process_status: ProcessStatus, is_ready: bool
) -> None:
    network = Network(lambda *_: {"jobs": []})
    loop, _ = claim_loop(network, process_status, is_ready=is_ready)
    await loop.claim()
    assert network.calls == []


async def test_recovering_attempts_are_listed_too() -> None:
    network = Network(lambda *_: {})
    parts = Parts(network)
    parts.table.recovering.add(JobRef(job=9, attempt=3))
    await parts.heartbeat.send()
    assert network.named("worker_heartbeat")[0]["p_running"] == [{"job": 9, "attempt": 3}]


async def test_lost_contact_stops_a_planning_job_and_never_a_changing_one() -> None:
    parts = Parts(Network(lambda *_: {}))
    planning, changing, elsewhere = (handle(parts.clock, job) for job in (1, 2, 3))
    changing.control.has_touched = True
    elsewhere.is_remote = True
    for each in (planning, changing, elsewhere):
        parts.table.add(each)
    watching = asyncio.create_task(parts.table.watch_leases())
    await eventually(lambda: answer_of(parts.clock.time > 1000 + 600))
    watching.cancel()
    assert planning.control.stop is not None
    assert (changing.control.stop, elsewhere.control.stop) == (None, None)
    assert changing.is_out_of_contact


@pytest.mark.parametrize(
    ("requested", "least", "most"), [(0.0, 0.5, 1), (-5.0, 0.5, 1), (3.0, 2, 3), (86_400.0, 10, 15)]
)
async def test_no_server_makes_a_runner_flood_it_or_fall_silent(
    monkeypatch: pytest.MonkeyPatch, requested: float, least: float, most: float
) -> None:
    pauses: list[float] = []

    async def wait(_: asyncio.Event, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 20:
            raise asyncio.CancelledError

    monkeypatch.setattr("worker.loops.heartbeat.wait_for_wake_up", wait)
    parts = Parts(Network(lambda *_: {"lease_seconds": 60, "heartbeat_seconds": requested}))
    with pytest.raises(asyncio.CancelledError):
        await parts.heartbeat.run()
    assert [pause for pause in pauses if not least <= pause <= most] == []


class Pauses:
    """The pauses that a loop wants: it is cancelled instead of the last one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: str, count: int) -> None:
        self.taken: list[float] = []

        async def wait(_: asyncio.Event, seconds: float) -> None:
            self.taken.append(seconds)
            if len(self.taken) == count:
                raise asyncio.CancelledError

        monkeypatch.setattr(f"{module}.wait_for_wake_up", wait)


def lost(times: int, afterwards: Any) -> Network:
    """A server whose first answers are lost."""
    answers = iter([httpx.ReadError("lost")] * times)
    return Network(lambda *_: next(answers, afterwards))


async def test_an_unanswered_claim_is_repeated_ever_later_and_logged_once_in_ten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses = Pauses(monkeypatch, "worker.loops.claim", 13)
    loop, _ = claim_loop(lost(11, {"jobs": []}), ProcessStatus(capacity=1))
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await loop.run()
    assert 0.5 < pauses.taken[0] <= 1.3
    assert all(seconds <= 13 for seconds in pauses.taken)
    assert min(pauses.taken[5:11]) > 6
    assert min(pauses.taken[11:]) >= 9
    assert len([each for each in logs if each.get("id") == "claim_unanswered"]) == 2


async def test_lost_heartbeats_are_repeated_soon_and_logged_once_in_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = Pauses(monkeypatch, "worker.loops.heartbeat", 13)
    parts = Parts(lost(11, {"lease_seconds": 60, "heartbeat_seconds": 15}))
    parts.process_status.is_connected = True
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await parts.heartbeat.run()
    assert max(pauses.taken[:11]) <= 6.5
    assert min(pauses.taken[11:]) >= 10
    assert [each["failures"] for each in logs if each.get("id") == "cut_off"] == [1, 11]
    assert parts.process_status.is_connected


async def test_the_first_claimed_job_is_remembered_by_a_runner_for_one_job() -> None:
    process_status = ProcessStatus(capacity=1, is_single=True)
    replies = iter([{"jobs": []}, {"jobs": [{"id": 4, "attempt": 1, "type": "PLAN"}]}])
    network = Network(lambda *_: next(replies))
    loop, started = claim_loop(network, process_status)
    for _ in range(3):
        await loop.claim()
    assert (len(network.calls), [job for job, _ in started]) == (2, [4])
