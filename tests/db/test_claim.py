"""The claim: who gets what, once, and within its limits."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused
from worker.enums import JobType

MODULE_TYPES = (JobType.PLAN, JobType.APPLY, JobType.DESTROY, JobType.OUTPUT, JobType.DRIFT)


def test_a_repeated_request_gets_the_same_answer(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=3)
    for name in "abc":
        org.enqueue(f"m/{name}")
    request = str(uuid.uuid4())
    first = runner.claim(2, request)
    assert len(first) == 2
    assert runner.claim(2, request) == first
    assert len(runner.claim(2)) == 1


def test_a_repeated_request_gets_the_same_answer_at_the_same_time(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=8)
    for number in range(8):
        org.enqueue(f"m/m{number}")
    claims = {"sub": runner.worker_id, "sid": runner.session_id}
    request = str(uuid.uuid4())
    copies = [world.caller("worker", **claims) for _ in range(6)]

    def claim(copy: Any) -> list[int]:
        return [job["id"] for job in copy.call("worker_claim", p_request_id=request, p_slots=2)["jobs"]]

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(claim, copies))
    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0]) == 2


def test_an_instance_never_exceeds_its_slots(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=4)
    for number in range(40):
        org.enqueue(f"m/m{number}")
    claims = {"sub": runner.worker_id, "sid": runner.session_id}
    copies = [world.caller("worker", **claims) for _ in range(12)]

    def claim(copy: Any) -> int:
        return len(copy.call("worker_claim", p_request_id=str(uuid.uuid4()), p_slots=4)["jobs"])

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(claim, copies)) == 4
    assert world.owner.one("select count(*) from private.live_jobs where instance_id = %s", runner.instance_id) == 4


@pytest.mark.parametrize("slots", [0, -1, 257])
def test_slots_are_checked(org: Organization, slots: int) -> None:
    with refused("RY422", "A claim needs a request id and 1 to 256 slots."):
        org.runner(f"r{slots}").claim(slots)


def test_another_organisations_job_is_never_claimed(org: Organization, other_org: Organization) -> None:
    org.enqueue("a/b")
    assert other_org.runner("r1", is_assigned_to_all_modules=True).claim(5) == []


def test_a_runner_needs_all_labels_of_the_module_and_the_job(org: Organization) -> None:
    plain, gpu = (
        org.runner("plain", is_assigned_to_all_modules=True),
        org.runner("gpu", is_assigned_to_all_modules=True, labels=["gpu=true", "zone=eu"]),
    )
    org.module("a/b", labels=["gpu=true"])
    job = org.enqueue("a/b", labels=["zone=eu"])
    assert plain.claim() == []
    assert gpu.claim_one()["id"] == job


def test_labels_added_later_open_the_lane(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b", labels=["gpu"])
    assert runner.claim() == []
    org.owner.call("update_worker", p_worker=runner.worker_id, p_options={"labels": ["gpu"]})
    assert len(runner.claim()) == 1


def test_an_assignment_added_later_opens_the_lane(org: Organization) -> None:
    runner = org.runner("r1")
    org.enqueue("a/b/c")
    assert runner.claim() == []
    org.owner.call("assign_worker", p_worker=runner.worker_id, p_path="a/b")
    assert len(runner.claim()) == 1


def test_a_removed_assignment_closes_the_lane(org: Organization) -> None:
    org.module("a/b/c")
    runner = org.runner("r1", assignments=["a/b"])
    org.owner.call("unassign_worker", p_worker=runner.worker_id, p_path="a/b")
    org.enqueue("a/b/c")
    assert runner.claim() == []


def test_a_job_whose_type_the_nearer_runner_refuses_is_claimed_by_another(org: Organization) -> None:
    org.module("a/b")
    planner = org.runner("planner", assignments=["a/b"], accepted_job_types=["PLAN"])
    other = org.runner("other", is_assigned_to_all_modules=True)
    apply = org.enqueue("a/b", "APPLY")
    assert planner.claim() == []
    assert other.claim_one()["id"] == apply


@pytest.mark.parametrize("left_out", list(JobType))
def test_a_runner_may_leave_out_any_single_type(org: Organization, left_out: JobType) -> None:
    accepted = [kind for kind in JobType if kind is not left_out]
    runner = org.runner("choosy", is_assigned_to_all_modules=True, capacity=9, accepted_job_types=accepted)
    jobs = {kind: org.enqueue(f"a/{kind.lower()}", kind) for kind in MODULE_TYPES}
    taken = {job["id"] for job in runner.claim(9)}
    assert taken == {job for kind, job in jobs.items() if kind is not left_out}


def test_a_runner_with_a_new_limit_on_job_types_gets_only_those_types(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=5)
    plan, apply = org.enqueue("a/b"), org.enqueue("a/c", "APPLY")
    org.owner.call("update_worker", p_worker=runner.worker_id, p_options={"accepted_job_types": ["APPLY"]})
    assert [job["id"] for job in runner.claim(5)] == [apply]
    org.owner.call("update_worker", p_worker=runner.worker_id, p_options={"accepted_job_types": None})
    assert [job["id"] for job in runner.claim(5)] == [plan]


def test_a_job_pinned_to_a_runner_is_claimed_only_by_it(org: Organization) -> None:
    first, second = (org.runner(name, is_assigned_to_all_modules=True) for name in ("r1", "r2"))
    job = org.enqueue("a/b", pinned_worker_id=second.worker_id)
    assert first.claim() == []
    assert second.claim_one()["id"] == job


def test_a_job_pinned_to_an_instance_name_is_claimed_only_by_that_instance(world: World, org: Organization) -> None:
    first = org.runner("r1", instance="east", is_assigned_to_all_modules=True, allow_multiple_instances=True)
    second = world.connect_runner(first.worker_id, "west")
    org.module("a/b", runner_instance_name="west")
    job = org.enqueue("a/b")
    assert first.claim() == []
    assert second.claim_one()["id"] == job


def test_replicas_share_the_work(world: World, org: Organization) -> None:
    first = org.runner("r1", instance="east", is_assigned_to_all_modules=True, allow_multiple_instances=True)
    second = world.connect_runner(first.worker_id, "west")
    jobs = {org.enqueue("a/b"), org.enqueue("a/c")}
    assert {first.claim_one()["id"], second.claim_one()["id"]} == jobs


def test_leaving_out_any_one_type_makes_a_runner_choosy(world: World, org: Organization) -> None:
    """One that is added later is tried in test_precedence.py."""
    types = world.owner.one("select enum_range(null::public.job_type)::text[]")
    worker = org.worker("r1")
    org.worker("r2")

    def is_choosy(accepted: list[str]) -> bool:
        org.owner.call("update_worker", p_worker=worker, p_options={"accepted_job_types": accepted})
        return bool(world.owner.one("select private.is_choosy_about_types(%s)", org.id))

    assert not is_choosy(types)
    assert [left_out for left_out in types if not is_choosy([name for name in types if name != left_out])] == []


def test_priority_then_age(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=9)
    usual, late, urgent = org.enqueue("m/a"), org.enqueue("m/b", priority=500), org.enqueue("m/c", priority=5)
    second = org.enqueue("m/d")
    assert [job["id"] for job in runner.claim(9)] == [urgent, usual, second, late]


def test_priority_counts_across_lanes(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, labels=["gpu"], capacity=1)
    org.enqueue("m/a", priority=50)
    urgent = org.enqueue("m/b", priority=10, labels=["gpu"])
    assert runner.claim_one()["id"] == urgent


def test_the_next_job_of_a_module_begins_after_the_end_of_the_previous_one(world: World, org: Organization) -> None:
    """Also where that is the older one."""
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    older = org.enqueue("m/a", priority=200)
    newer = org.enqueue("m/a", priority=100)
    job = runner.claim_one()
    assert job["id"] == newer
    runner.finish(job, "FAILED", p_error={"message": "no"})
    assert runner.claim_one()["id"] == older
    events = world.owner.rows(
        "select job_id, event, from_status::text, to_status::text, reason from public.job_events"
        " where job_id = any(%s) and event <> 'enqueued' order by id",
        [older, newer],
    )
    assert events == [
        (newer, "claimed", "QUEUED", "CLAIMED", "Instance one"),
        (newer, "failed", "CLAIMED", "FAILED", "no"),
        (older, "claimed", "QUEUED", "CLAIMED", "Instance one"),
    ]
    ended, begun = world.job(newer), world.job(older)
    assert (ended["status"], ended["finished_at"] is None) == ("FAILED", False)
    assert (begun["status"], begun["finished_at"], begun["error"]) == ("CLAIMED", None, None)


def test_the_apply_of_a_plan_exists_as_soon_as_the_plan_has_ended(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=2)
    org.module("m/a", auto_apply=True)
    plan = org.enqueue("m/a")
    runner.finish(runner.claim_one(), p_plan_summary={"has_changes": True})
    assert runner.claim_one()["plan_job_id"] == plan


@pytest.mark.parametrize(("has_request", "slots"), [(False, 1), (True, 257), (True, 0), (True, -1)])
def test_a_claim_needs_a_request_and_a_number_of_slots(org: Organization, slots: int, *, has_request: bool) -> None:
    request = str(uuid.uuid4()) if has_request else None
    with refused("RY422"):
        org.runner("r1").call("worker_claim", p_request_id=request, p_slots=slots)


def test_an_idle_claim_writes_nothing(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    with runner.connection.transaction():
        runner.claim()
        assert runner.connection.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,)


def test_a_runner_that_sent_no_heartbeat_gets_nothing(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    world.silence(runner)
    assert runner.claim() == []
    runner.heartbeat()
    assert len(runner.claim()) == 1


def stale_write(runner: Runner, job: dict[str, Any], call: str) -> Any:
    which = {"p_job": job["id"], "p_attempt": job["attempt"]}
    more: dict[str, dict[str, Any]] = {
        "worker_report": {"p_phase": "PLAN"},
        "worker_append_logs": {"p_chunks": [{"seq": 1, "body": "x"}]},
        "worker_return_job": {},
        "worker_put_artifact": {
            "p_name": "x",
            "p_body_base64": "",
            "p_sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        },
        "worker_get_artifact": {"p_name": "x"},
        "worker_state_get": {},
        "worker_state_put": {"p_body": "{}"},
        "worker_state_lock": {"p_lock": {"ID": "x"}},
        "worker_state_unlock": {"p_lock_id": "x"},
    }
    return runner.call(call, **which, **more[call])


STALE_CALLS = [
    "worker_report",
    "worker_append_logs",
    "worker_return_job",
    "worker_put_artifact",
    "worker_get_artifact",
    "worker_state_get",
    "worker_state_put",
    "worker_state_lock",
    "worker_state_unlock",
]


@pytest.mark.parametrize("call", STALE_CALLS)
def test_a_stale_attempt_can_write_nothing(world: World, org: Organization, call: str) -> None:
    old = org.runner("r1", is_assigned_to_all_modules=True)
    new = org.runner("r2", is_assigned_to_all_modules=True)
    job_id = org.enqueue("a/b")
    job = old.claim_one()
    world.lose(old)
    world.end_backoff(job_id)
    old.heartbeat()
    with refused("RY410", "is not this runner's any more."):
        stale_write(old, job, call)
    again = new.claim_one()
    assert (again["id"], again["attempt"]) == (job_id, 2)
    for stale in (old, new):
        with refused("RY410"):
            stale_write(stale, job, call)
    assert world.status(job_id) == "CLAIMED"


@pytest.mark.parametrize("call", STALE_CALLS)
def test_another_runner_cannot_write_for_the_attempt(org: Organization, call: str) -> None:
    holder, thief = (org.runner(name, is_assigned_to_all_modules=True) for name in ("r1", "r2"))
    org.enqueue("a/b")
    job = holder.claim_one()
    with refused("RY410"):
        stale_write(thief, job, call)
