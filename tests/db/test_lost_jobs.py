"""Jobs whose runner is lost: requeued, failed, quarantined or left to a person; late reports change nothing."""

from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused


def runners(org: Organization, count: int) -> list[Runner]:
    return [org.runner(f"r{n}", is_assigned_to_all_modules=True) for n in range(count)]


@pytest.mark.parametrize("phase", [None, "PREPARE", "FETCH", "INPUTS", "INIT", "PLAN"])
def test_before_infrastructure_changed_it_is_tried_again(world: World, org: Organization, phase: str | None) -> None:
    (runner,) = runners(org, 1)
    job_id = org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    if phase:
        runner.report(job, phase)
    world.lose(runner)
    row = world.job(job_id)
    assert (row["status"], row["phase"], row["attempt"]) == ("QUEUED", None, 1)
    assert row["not_before_at"] is not None
    assert world.owner.one("select stage::text from private.live_jobs where job_id = %s", job_id) == "BACKOFF"
    world.owner.connection.execute(
        "update private.live_jobs set not_before_at = now() + interval '1 hour' where job_id = %s", [job_id]
    )
    runner.heartbeat()
    assert runner.claim() == []
    world.end_backoff(job_id)
    assert runner.claim_one()["attempt"] == 2


@pytest.mark.parametrize(
    ("job_type", "phases"), [("APPLY", ["APPLY"]), ("APPLY", ["APPLY", "OUTPUT"]), ("DESTROY", ["DESTROY"])]
)
def test_after_infrastructure_changed_a_person_decides(
    world: World, org: Organization, job_type: str, phases: list[str]
) -> None:
    (runner,) = runners(org, 1)
    job_id = org.enqueue("a/b", job_type)
    job = runner.claim_one()
    runner.call("worker_state_lock", p_job=job_id, p_attempt=1, p_lock={"ID": "dead"})
    for phase in phases:
        runner.report(job, phase)
    waiting = org.enqueue("a/b")
    world.lose(runner)
    row = world.job(job_id)
    assert (row["status"], row["error"]["code"]) == ("NEEDS_ATTENTION", "OUT_OF_CONTACT")
    assert org.owner.call("state_info", p_module=row["module_id"])["lock"]["id"] == "dead"
    runner.heartbeat()
    assert runner.claim() == []
    for _ in range(3):
        world.sweep()
    assert world.status(job_id) == "NEEDS_ATTENTION"
    assert world.status(waiting) == "QUEUED"


def test_attempts_end(world: World, org: Organization) -> None:
    (runner,) = runners(org, 1)
    job_id = org.enqueue("a/b", max_attempts=2)
    for _ in range(2):
        runner.claim_one()
        world.lose(runner)
        runner.heartbeat()
        if world.status(job_id) == "QUEUED":
            world.end_backoff(job_id)
    row = world.job(job_id)
    assert (row["status"], row["error"]["code"], row["attempt"]) == ("FAILED", "ATTEMPTS_EXHAUSTED", 2)


def test_a_job_that_takes_down_two_runners_is_quarantined(world: World, org: Organization) -> None:
    first, second = runners(org, 2)
    job_id = org.enqueue("a/b", max_attempts=10)
    for runner in (first, first, second):
        runner.heartbeat()
        runner.claim_one()
        world.lose(runner)
        if world.status(job_id) == "QUEUED":
            world.end_backoff(job_id)
    row = world.job(job_id)
    assert (row["status"], row["is_quarantined"], row["error"]["code"]) == ("FAILED", True, "QUARANTINED")


def test_the_pause_grows(world: World, org: Organization) -> None:
    (runner,) = runners(org, 1)
    job_id = org.enqueue("a/b", max_attempts=5)
    pauses = []
    for _ in range(3):
        runner.heartbeat()
        runner.claim_one()
        world.lose(runner)
        query = "select (detail ->> 'delay_seconds')::float from public.job_events where job_id = %s order by id desc limit 1"
        pauses.append(world.owner.one(query, job_id))
        world.end_backoff(job_id)
    assert pauses[0] < pauses[1] < pauses[2]


def test_a_lost_job_that_was_to_be_cancelled_is_cancelled(world: World, org: Organization) -> None:
    (runner,) = runners(org, 1)
    job_id = org.enqueue("a/b")
    runner.claim_one()
    org.owner.call("cancel_job", p_job=job_id)
    world.lose(runner)
    assert world.status(job_id) == "CANCELLED"


def test_a_late_success_is_kept_and_changes_nothing(world: World, org: Organization) -> None:
    first, second = runners(org, 2)
    job_id = org.enqueue("a/b")
    job = first.claim_one()
    world.lose(first)
    first.heartbeat()
    late = first.finish(job, "SUCCEEDED", p_result={"outputs": 1})
    assert (late["is_late"], late["status"]) == (True, "QUEUED")
    world.end_backoff(job_id)
    again = second.claim_one()
    first.finish(job, "SUCCEEDED")
    second.finish(again, "FAILED", p_error={"message": "no"})
    first.finish(job, "SUCCEEDED")
    row = world.job(job_id)
    assert (row["status"], row["attempt"], row["late_report"]["attempt"], row["late_report"]["status"]) == (
        "FAILED",
        2,
        1,
        "SUCCEEDED",
    )


def late_chunks(job: dict[str, Any], *numbers: int, **more: Any) -> dict[str, Any]:
    chunks = [{"seq": seq, "step": "apply", "body": f"line {seq}\n"} for seq in numbers]
    return {"p_job": job["id"], "p_attempt": job["attempt"], "p_chunks": chunks, **more}


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED"])
def test_the_log_of_a_late_report_fills_its_gaps(world: World, org: Organization, status: str) -> None:
    first, second = runners(org, 2)
    job_id = org.enqueue("a/b")
    job = first.claim_one()
    first.append(job, (1, "line 1\n"))
    world.lose(first)
    first.heartbeat()
    world.end_backoff(job_id)
    second.finish(second.claim_one(), "FAILED", p_error={"message": "no"})
    log = {"last_seq": 3, "bytes": 21, "sha256": ""}
    late = first.finish(job, status, p_log=log)
    assert (late["is_late"], late["missing"]) == (True, [[2, 3]])
    with refused("RY410"):
        first.call("worker_append_logs", **late_chunks(job, 2, 3))
    with refused("RY410"):
        second.call("worker_append_logs", **late_chunks(job, 2, 3, p_is_late=True))
    first.call("worker_append_logs", **late_chunks(job, 2, 3, p_is_late=True))
    assert first.finish(job, status, p_log=log)["missing"] == []
    assert first.finish(job, status, p_log={**log, "last_seq": 9, "is_incomplete": True})["missing"] == []
    stored = "select body from public.job_log_chunks where job_id = %s and attempt = 1 order by seq"
    assert world.owner.rows(stored, job_id) == ["line 1\n", "line 2\n", "line 3\n"]
    assert world.events(job_id).count("late_report") == 1


def test_a_log_may_be_late_for_a_week(world: World, org: Organization) -> None:
    (runner,) = runners(org, 1)
    job_id = org.enqueue("a/b")
    job = runner.claim_one()
    world.lose(runner)
    runner.heartbeat()
    world.owner.connection.execute(
        "update public.job_events set at = now() - interval '8 days' where job_id = %s", [job_id]
    )
    with refused("RY410"):
        runner.call("worker_append_logs", **late_chunks(job, 1, p_is_late=True))


def test_a_cancelled_job_stays_cancelled_after_a_late_success(world: World, org: Organization) -> None:
    (runner,) = runners(org, 1)
    job_id = org.enqueue("a/b")
    job = runner.claim_one()
    org.owner.call("cancel_job", p_job=job_id, p_kind="KILL")
    world.lose(runner)
    runner.heartbeat()
    assert runner.finish(job, "SUCCEEDED")["is_late"] is True
    assert world.status(job_id) == "CANCELLED"


def test_a_job_that_was_never_given_cannot_be_finished(org: Organization) -> None:
    first, second = runners(org, 2)
    org.enqueue("a/b")
    job = first.claim_one()
    with refused("RY404", "was never given to this runner."):
        second.finish(job)


def test_giving_back_costs_no_attempt(world: World, org: Organization) -> None:
    (runner,) = runners(org, 1)
    job_id = org.enqueue("a/b", max_attempts=1)
    for number in range(1, 4):
        job = runner.claim_one()
        assert job["attempt"] == number
        assert runner.call("worker_return_job", p_job=job_id, p_attempt=number, p_reason="shutdown") == {
            "status": "QUEUED"
        }
    job = runner.claim_one()
    world.lose(runner)
    assert world.job(job_id)["error"]["code"] == "ATTEMPTS_EXHAUSTED"


def test_a_job_with_a_requested_cancellation_ends_when_its_runner_returns_it(world: World, org: Organization) -> None:
    (runner,) = runners(org, 1)
    stopped, next_one = org.enqueue("a/b"), org.enqueue("a/b")
    job = runner.claim_one()
    runner.call("worker_state_lock", p_job=stopped, p_attempt=1, p_lock={"ID": "l"})
    org.owner.call("cancel_job", p_job=stopped, p_kind="GRACEFUL")
    answer = runner.call("worker_return_job", p_job=stopped, p_attempt=job["attempt"], p_reason="shutdown")
    assert (answer, world.status(stopped)) == ({"status": "CANCELLED"}, "CANCELLED")
    events = world.owner.rows(
        "select actor_kind::text, reason from public.job_events where job_id = %s and event = 'cancelled'", stopped
    )
    assert events == [("worker", "shutdown")]
    assert runner.claim_one()["id"] == next_one, "the state is free for the next one"


def test_an_attempt_that_has_touched_infrastructure_cannot_be_returned(org: Organization) -> None:
    (runner,) = runners(org, 1)
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.report(job, "APPLY")
    with refused("RY409", "This attempt has begun to change infrastructure; it cannot be given back."):
        runner.call("worker_return_job", p_job=job["id"], p_attempt=1)


def test_a_restarted_process_reports_on_the_jobs_that_it_found(world: World, org: Organization) -> None:
    old = org.runner("r1", is_assigned_to_all_modules=True, capacity=3)
    found, forgotten = org.enqueue("a/b"), org.enqueue("a/c")
    old.claim(2)
    world.silence(old)
    new = world.connect_runner(old.worker_id, "one")
    answer = new.call("worker_recover", p_running=[{"job": found, "attempt": 1}, {"job": 999999, "attempt": 1}])
    assert [(int(item["job"]), item["action"]) for item in answer["jobs"]] == [(found, "report"), (999999, "drop")]
    assert world.status(forgotten) == "QUEUED"
    new.append({"id": found, "attempt": 1}, (1, "what was left\n"))
    assert new.finish({"id": found, "attempt": 1})["status"] == "SUCCEEDED"


@pytest.mark.parametrize(("phase", "status"), [("PLAN", "QUEUED"), ("APPLY", "NEEDS_ATTENTION")])
def test_a_restarted_process_names_the_dead_and_nobody_waits_for_their_lease(
    world: World, org: Organization, phase: str, status: str
) -> None:
    old = org.runner("r1", is_assigned_to_all_modules=True)
    job_id = org.enqueue("a/b", "APPLY")
    old.report(old.claim_one(), phase)
    world.silence(old)
    new = world.connect_runner(old.worker_id, "one")
    found = {"job": job_id, "attempt": 1}
    assert new.call("worker_recover", p_running=[found])["jobs"][0]["action"] == "report"
    assert world.status(job_id) == "PROCESSING"
    assert new.call("worker_recover", p_running=[{**found, "is_dead": True}])["jobs"][0]["action"] == "drop"
    assert world.status(job_id) == status


@pytest.mark.parametrize(("phase", "status"), [("PLAN", "QUEUED"), ("APPLY", "NEEDS_ATTENTION")])
def test_a_reported_crash_is_a_lost_runner_not_a_failed_job(
    world: World, org: Organization, phase: str, status: str
) -> None:
    (runner,) = runners(org, 1)
    job_id = org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.report(job, phase)
    answer = runner.finish(job, "FAILED", p_error={"code": "runner_crashed", "message": "died"})
    assert (answer["status"], world.status(job_id)) == (status, status)


def test_events_replay_through_every_turn(world: World, org: Organization) -> None:
    first, second = runners(org, 2)
    job_id = org.enqueue("a/b")
    first.report(first.claim_one(), "PLAN")
    world.lose(first)
    world.end_backoff(job_id)
    job = second.claim_one()
    second.call("worker_return_job", p_job=job_id, p_attempt=2)
    second.finish(second.claim_one())
    assert world.replayed(job_id) == world.status(job_id) == "SUCCEEDED"
    assert job["attempt"] == 2


def test_a_new_attempt_begins_with_nothing_of_the_one_before(world: World, org: Organization) -> None:
    """Otherwise a plan that ends without a summary would be applied by that of the attempt that was lost."""
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.module("a/b", auto_apply=True)
    plan = org.enqueue("a/b")
    job = runner.claim_one()
    runner.report(job, "PLAN", p_steps=[{"name": "plan"}], p_plan_summary={"has_changes": True})
    world.lose(runner)
    world.end_backoff(plan)
    world.sweep()
    runner.heartbeat()
    again = runner.claim_one()
    row = world.job(plan)
    assert (again["id"], again["attempt"]) == (plan, 2)
    assert [row[name] for name in ("plan_summary", "steps", "phase", "started_at", "error", "result")] == [
        None, [], None, None, None, None
    ]  # fmt: skip
    runner.finish(again)
    assert world.owner.one("select count(*) from public.provision_jobs where plan_job_id = %s", plan) == 0
