"""Ends of attempts that their runner reports: each job keeps its own report, once."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True, capacity=4)


def steps_of(world: World, job: int) -> list[tuple[str, str | None, str | None, int, str | None]]:
    return world.owner.rows(
        "select event, from_status::text, to_status::text, attempt, reason from public.job_events where job_id = %s"
        " and to_status is not null order by id",
        job,
    )


def test_each_job_keeps_its_own_result_error_and_plan_summary(world: World, org: Organization, runner: Runner) -> None:
    ids = [org.enqueue(f"a/m{n}") for n in range(4)]
    first, second, third, fourth = runner.claim(4)
    runner.report(second, "PLAN", p_steps=[{"name": "x"}])
    runner.finish(fourth, "FAILED", p_error={"code": "x", "message": "four"})
    runner.finish(first, p_result={"n": 1}, p_error=None)
    runner.finish(second, p_plan_summary={"n": 2}, p_result=None, p_log=None)
    runner.finish(third, "CANCELLED")
    rows = [world.job(job) for job in ids]
    assert [row["status"] for row in rows] == ["SUCCEEDED", "SUCCEEDED", "CANCELLED", "FAILED"]
    assert [row["error"] for row in rows] == [None, None, None, {"code": "x", "message": "four"}]
    assert [row["result"] for row in rows] == [{"n": 1}, None, None, None]
    assert [row["plan_summary"] for row in rows] == [None, {"n": 2}, None, None]
    assert steps_of(world, ids[1])[-2:] == [
        ("started", "CLAIMED", "PROCESSING", 1, None),
        ("succeeded", "PROCESSING", "SUCCEEDED", 1, None),
    ]
    assert steps_of(world, ids[3])[-1] == ("failed", "CLAIMED", "FAILED", 1, "four")


def test_a_second_attempt_begins_without_the_steps_and_logs_of_the_first(
    world: World, org: Organization, runner: Runner
) -> None:
    job = org.enqueue("a/b")
    first = runner.claim_one()
    runner.report(first, "PLAN", p_steps=[{"name": "x"}])
    runner.append(first, (1, "x\n"))
    runner.call("worker_return_job", p_job=job, p_attempt=1)
    second = runner.claim_one()
    row = world.job(job)
    assert (row["attempt"], row["steps"], row["phase"], row["started_at"], row["last_log_seq"]) == (
        2,
        [],
        None,
        None,
        0,
    )
    runner.finish(second, "FAILED")
    assert steps_of(world, job)[-1][1:4] == ("CLAIMED", "FAILED", 2)


def test_an_old_attempt_cannot_end_the_new_one(world: World, org: Organization, runner: Runner) -> None:
    job = org.enqueue("a/b")
    first = runner.claim_one()
    runner.call("worker_return_job", p_job=job, p_attempt=1)
    second = runner.claim_one()
    for _ in range(2):
        assert runner.finish(first, "FAILED", p_result={"old": 1})["is_late"]
        assert not runner.finish(second, p_result={"new": 1})["is_late"]
        assert (world.status(job), world.job(job)["result"]) == ("SUCCEEDED", {"new": 1})


def test_a_repeated_end_is_harmless(world: World, org: Organization, runner: Runner) -> None:
    job = org.enqueue("m/a")
    attempt = runner.claim_one()
    first = runner.finish(attempt, "FAILED", p_error={"message": "no"})
    assert runner.finish(attempt, "FAILED", p_error={"message": "no"}) == first
    assert world.events(job).count("failed") == 1
    assert world.job(job)["late_report"] is None


@pytest.mark.parametrize("what", [{"p_job": None}, {"p_attempt": None}, {"p_status": None}, {"p_status": "QUEUED"}])
def test_an_end_that_lacks_something_ends_nothing(
    world: World, org: Organization, runner: Runner, what: dict[str, Any]
) -> None:
    job = org.enqueue("a/b")
    runner.claim_one()
    with refused("RY422"):
        runner.call("worker_finish", **{"p_job": job, "p_attempt": 1, "p_status": "FAILED"} | what)
    assert world.status(job) == "CLAIMED"


def test_two_connections_of_one_session_never_exceed_its_slots(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=3)
    claims = {"sub": runner.worker_id, "sid": runner.session_id}
    pair = [
        runner,
        Runner(
            world.database.connect("worker", claims),
            runner.worker_id,
            runner.session_id,
            runner.instance_id,
            runner.boot_id,
            runner.token_id,
            "one",
        ),
    ]
    for n in range(40):
        org.enqueue(f"a/m{n}")

    def work(one: Runner) -> None:
        held: list[dict[str, Any]] = []
        for _ in range(40):
            for job in held:
                one.finish(job)
            held = one.claim(3)
            count = world_count(one)
            assert count <= 3, count

    def world_count(one: Runner) -> int:
        with world.database.connect("postgres") as owner:
            found = owner.execute(
                "select count(*) from private.live_jobs where instance_id = %s and stage = 'RUNNING'", [one.instance_id]
            ).fetchone()
        return int(found[0]) if found else 0

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, pair))
    assert world.owner.one("select count(*) from public.provision_jobs where finished_at is not null") >= 37
