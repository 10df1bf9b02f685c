"""Many ends and claims in one call: each job gets what was said about it, all of it or nothing."""

import hashlib
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.db.world import Organization, Runner, World, refused


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True, capacity=4)


def step(runner: Runner, *finished: dict[str, Any], slots: int = 0, request: str | None = None) -> Any:
    return runner.call(
        "worker_step", p_request_id=request or str(uuid.uuid4()), p_finished=list(finished), p_slots=slots
    )


def said(job: dict[str, Any], status: str = "SUCCEEDED", **more: Any) -> dict[str, Any]:
    return {"job": job["id"], "attempt": job["attempt"], "status": status, **more}


def steps_of(world: World, job: int) -> list[tuple[str, str | None, str | None, int, str | None]]:
    return world.owner.rows(
        "select event, from_status::text, to_status::text, attempt, reason from public.job_events where job_id = %s"
        " and to_status is not null order by id",
        job,
    )


def test_each_job_keeps_what_was_said_about_it(world: World, org: Organization, runner: Runner) -> None:
    ids = [org.enqueue(f"a/m{n}") for n in range(6)]
    first, second, third, fourth = runner.claim(4)
    runner.report(second, "PLAN", p_steps=[{"name": "x"}])
    answer = step(
        runner,
        said(fourth, "FAILED", error={"code": "x", "message": "four"}),
        said(first, result={"n": 1}, error=None),
        said(second, plan_summary={"n": 2}, result=None, log=None),
        said(third, "CANCELLED"),
        slots=4,
    )
    assert [job["id"] for job in answer["jobs"]] == ids[4:]
    assert [item["job"] for item in answer["finished"]] == [fourth["id"], first["id"], second["id"], third["id"]]
    rows = {job: world.job(job) for job in ids}
    assert [rows[job]["status"] for job in ids] == [
        "SUCCEEDED",
        "SUCCEEDED",
        "CANCELLED",
        "FAILED",
        "CLAIMED",
        "CLAIMED",
    ]
    assert [rows[job]["error"] for job in ids] == [None, None, None, {"code": "x", "message": "four"}, None, None]
    assert [rows[job]["result"] for job in ids] == [{"n": 1}, None, None, None, None, None]
    assert [rows[job]["plan_summary"] for job in ids] == [None, {"n": 2}, None, None, None, None]
    assert steps_of(world, ids[1])[-2:] == [
        ("started", "CLAIMED", "PROCESSING", 1, None),
        ("succeeded", "PROCESSING", "SUCCEEDED", 1, None),
    ]
    assert steps_of(world, ids[3])[-1] == ("failed", "CLAIMED", "FAILED", 1, "four")
    assert steps_of(world, ids[4])[-1] == ("claimed", "QUEUED", "CLAIMED", 1, "Instance one")


def test_a_second_attempt_begins_without_what_the_first_left(world: World, org: Organization, runner: Runner) -> None:
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


def test_the_same_job_twice_with_different_attempts(world: World, org: Organization, runner: Runner) -> None:
    job = org.enqueue("a/b")
    runner.claim_one()
    runner.call("worker_return_job", p_job=job, p_attempt=1)
    second = runner.claim_one()
    for order in (1, -1):
        items = [said({"id": job, "attempt": 1}, "FAILED", result={"old": 1}), said(second, result={"new": 1})][::order]
        answers = {item["attempt"]: item for item in step(runner, *items)["finished"]}
        assert (answers[1]["is_late"], answers[2]["is_late"]) == (True, False)
        assert (world.status(job), world.job(job)["result"]) == ("SUCCEEDED", {"new": 1})


@pytest.mark.parametrize(
    "bad",
    [
        {"status": "SUCCEEDED", "attempt": 1},
        {"job": None, "status": "SUCCEEDED", "attempt": 1},
        {"job": 1, "status": "QUEUED", "attempt": 1},
        {"job": 999999999, "attempt": 1, "status": "FAILED"},
        {"job": 999999999, "status": "FAILED"},
        "text",
        7,
        None,
        [],
    ],
)
def test_one_bad_item_undoes_the_whole_call(world: World, org: Organization, runner: Runner, bad: Any) -> None:
    ids = [org.enqueue(f"a/m{n}") for n in range(2)]
    first = runner.claim_one()
    with pytest.raises(psycopg.Error) as caught:
        step(runner, said(first), bad, slots=4)
    assert (caught.value.sqlstate or "").startswith("RY"), caught.value
    assert [world.status(job) for job in ids] == ["CLAIMED", "QUEUED"]
    assert step(runner, said(first), slots=4)["jobs"][0]["id"] == ids[1]


def test_an_end_without_an_attempt_ends_nothing(world: World, org: Organization, runner: Runner) -> None:
    job = org.enqueue("a/b")
    runner.claim_one()
    for item in ({"job": job, "status": "FAILED"}, {"job": job, "status": "FAILED", "attempt": None}):
        with refused("RY422"):
            step(runner, item)
    assert world.status(job) == "CLAIMED"


def test_a_log_with_a_hole_holds_only_its_own_job(world: World, org: Organization, runner: Runner) -> None:
    ids = [org.enqueue(f"a/m{n}") for n in range(4)]
    good, hole, plain = runner.claim(3)
    for job in (good, hole):
        runner.append(job, (1, "x\n"))
    digest = hashlib.sha256(b"x\n").hexdigest()
    log = {"last_seq": 1, "bytes": 2, "sha256": digest}
    answer = step(
        runner,
        said(hole, log={**log, "last_seq": 2}),
        said(good, log=log),
        said(plain),
        slots=4,
        request=str(uuid.uuid4()),
    )
    assert [item["status"] for item in answer["finished"]] == ["PROCESSING", "SUCCEEDED", "SUCCEEDED"]
    assert answer["finished"][0]["missing"]
    assert [job["id"] for job in answer["jobs"]] == [ids[3]]
    assert [world.status(job["id"]) for job in (good, hole, plain)] == ["SUCCEEDED", "CLAIMED", "SUCCEEDED"]
    assert world.events(good["id"]).count("log_mismatch") == 0


def test_a_repeated_step_gets_the_same_jobs_and_ends(world: World, org: Organization, runner: Runner) -> None:
    ids = [org.enqueue(f"a/m{n}") for n in range(3)]
    first = runner.claim_one()
    request = str(uuid.uuid4())
    one = step(runner, said(first, result={"n": 1}), slots=1, request=request)
    two = step(runner, said(first, result={"n": 1}), slots=1, request=request)
    assert one == two
    assert [job["id"] for job in two["jobs"]] == [ids[1]]
    assert world.events(ids[0]).count("succeeded") == 1
    third = step(runner, said(two["jobs"][0]), slots=1, request=request)
    assert len(third["jobs"]) <= 1


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
            held = step(one, *[said(job) for job in held], slots=3)["jobs"]
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
