"""The state backend: bound to an attempt, locked by a job, with a history."""

import json

import pytest

from tests.db.world import Organization, Runner, World, refused


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True, capacity=5)


def which(job: dict[str, object]) -> dict[str, object]:
    return {"p_job": job["id"], "p_attempt": job["attempt"]}


def body(serial: int, lineage: str = "l", **more: object) -> str:
    return json.dumps({"serial": serial, "lineage": lineage, **more})


def test_a_new_module_has_no_state(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b")
    answer = runner.call("worker_state_get", **which(runner.claim_one()))
    assert (answer["exists"], answer["body"]) == (False, None)


def test_a_state_is_read_byte_for_byte_as_it_was_written(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    text = '{ "serial":  3,\n"lineage":"x", "ü": "\\u00e9" }'
    assert runner.call("worker_state_put", **which(job), p_body=text)["serial"] == 3
    assert runner.call("worker_state_get", **which(job))["body"] == text


def test_serials_only_grow_and_the_same_text_again_is_no_change(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.call("worker_state_put", **which(job), p_body=body(2))
    assert runner.call("worker_state_put", **which(job), p_body=body(2))["is_unchanged"] is True
    for older in (body(2, x=1), body(1)):
        with refused("RY409", "The state's serial"):
            runner.call("worker_state_put", **which(job), p_body=older)
    with refused("RY409", "The state has another lineage than the one that is stored."):
        runner.call("worker_state_put", **which(job), p_body=body(3, "another"))
    with refused("RY422"):
        runner.call("worker_state_put", **which(job), p_body="not json")


def test_no_write_leaves_the_next_one_without_a_serial(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()

    def put(serial: int) -> None:
        runner.call("worker_state_put", **which(job), p_body=body(serial))

    for bad in (2**63 - 1, 10**15 + 1, -1):
        with refused("RY422", " is not between 0 and "):
            put(bad)
    put(10**15)
    with refused("RY422", " is not between 0 and "):
        put(10**15 + 1_000_001)
    put(10**15 + 1_000_000)
    runner.finish(job)
    module = org.modules["a/b"]
    assert org.owner.call("roll_back_state", p_module=module, p_serial=10**15) == {"serial": 10**15 + 1_000_001}


def test_engines_without_serials_are_counted(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    serials = [
        runner.call("worker_state_put", **which(job), p_body=json.dumps({"checkpoint": n}))["serial"] for n in range(3)
    ]
    assert serials == [1, 2, 3]


def test_the_history_is_kept_and_admins_read_it(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    for serial in (1, 2):
        runner.call("worker_state_put", **which(job), p_body=body(serial))
    module = org.modules["a/b"]
    info = org.member("viewer").call("state_info", p_module=module)
    assert (info["serial"], [version["serial"] for version in info["versions"]]) == (2, [2, 1])
    assert "body" not in json.dumps(info)
    assert org.member("admin").call("state_version", p_module=module, p_serial=1)["body"] == body(1)
    with refused("RY403"):
        org.member("operator").call("state_version", p_module=module, p_serial=1)
    with refused("RY404", "There is no version"):
        org.owner.call("state_version", p_module=module, p_serial=9)
    assert "state.read" in org.owner.rows("select action from public.audit_events")


def test_the_newest_hundred_versions_are_kept_whatever_their_serials(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    serials = [1, 2, *range(5000, 5100)]
    for serial in serials:
        runner.call("worker_state_put", **which(job), p_body=body(serial))
    versions = org.owner.call("state_info", p_module=org.modules["a/b"])["versions"]
    assert [version["serial"] for version in versions] == serials[:1:-1]
    runner.call("worker_state_put", **which(job), p_body=body(10_000))
    versions = org.owner.call("state_info", p_module=org.modules["a/b"])["versions"]
    assert [version["serial"] for version in versions] == [10_000, *serials[:2:-1]]


def test_the_lock_belongs_to_the_attempt(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    lock = {"ID": "one", "Operation": "plan", "Who": "me"}
    assert runner.call("worker_state_lock", **which(job), p_lock=lock) == lock
    assert runner.call("worker_state_lock", **which(job), p_lock=lock) == lock
    with refused("RY423", "The state is locked by job") as caught:
        runner.call("worker_state_lock", **which(job), p_lock={"ID": "two"})
    assert json.loads(str(caught.value.diag.message_detail)) == lock
    with refused("RY423", "The state is locked by another job."):
        runner.call("worker_state_put", **which(job), p_body=body(1), p_lock_id="two")
    with refused("RY423", "That is not the lock that is held."):
        runner.call("worker_state_unlock", **which(job), p_lock_id="two")
    assert runner.call("worker_state_unlock", **which(job), p_lock_id="one") == {"unlocked": True}
    assert runner.call("worker_state_unlock", **which(job), p_lock_id="one") == {"unlocked": True}
    with refused("RY422", "A lock needs an ID."):
        runner.call("worker_state_lock", **which(job), p_lock={})
    for lock in ({"ID": "x" * 201}, {"ID": "x", "Info": "x" * 16384}):
        with refused("RY422", "A lock has at most 16 KiB, and its ID 200 characters."):
            runner.call("worker_state_lock", **which(job), p_lock=lock)


@pytest.mark.parametrize("kind", ["PLAN", "DRIFT", "OUTPUT"])
def test_a_job_that_only_reads_writes_no_state_and_locks_none(org: Organization, runner: Runner, kind: str) -> None:
    org.enqueue("a/b", kind)
    job = runner.claim_one()
    for call in (
        lambda: runner.call("worker_state_put", **which(job), p_body=body(1)),
        lambda: runner.call("worker_state_keep", **which(job), p_number=1, p_body=body(1)),
    ):
        with refused("RY409", "This job only reads; it writes no state."):
            call()
    assert runner.call("worker_state_lock", **which(job), p_lock={"ID": "one"}) == {"ID": "one"}
    info = org.owner.call("state_info", p_module=org.modules["a/b"])
    assert (info["serial"], info["lock"]) == (None, None)
    assert runner.call("worker_state_unlock", **which(job), p_lock_id="one") == {"unlocked": True}


@pytest.mark.parametrize(("kind", "options"), [("APPLY", {}), ("DESTROY", {}), ("PLAN", {"bring_state": True})])
def test_a_job_that_changes_or_brings_a_state_writes_it(
    org: Organization, runner: Runner, kind: str, options: dict[str, bool]
) -> None:
    org.enqueue("a/b", kind, **options)
    job = runner.claim_one()
    assert runner.call("worker_state_put", **which(job), p_body=body(1))["serial"] == 1


def test_a_finished_job_leaves_no_lock(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.call("worker_state_lock", **which(job), p_lock={"ID": "one"})
    runner.finish(job)
    assert org.owner.call("state_info", p_module=org.modules["a/b"])["lock"] is None


def test_a_later_attempt_acquires_the_lock_of_a_fenced_one(world: World, org: Organization) -> None:
    first, second = (org.runner(f"r{n}", is_assigned_to_all_modules=True) for n in range(2))
    job_id = org.enqueue("a/b", "APPLY")
    job = first.claim_one()
    first.call("worker_state_lock", **which(job), p_lock={"ID": "one"})
    first.report(job, "APPLY")
    world.lose(first)
    org.owner.call("resolve_attention", p_job=job_id, p_action="retry")
    again = second.claim_one()
    assert second.call("worker_state_lock", **which(again), p_lock={"ID": "two"}) == {"ID": "two"}
    first.heartbeat()
    with refused("RY410"):
        first.call("worker_state_put", **which(job), p_body=body(1), p_lock_id="one")


def held_job(world: World, org: Organization, lock: str = "dead") -> tuple[int, Runner]:
    """A job that died while applying, and the runner that is well again."""
    runner = org.runner("held", is_assigned_to_all_modules=True, capacity=3)
    job_id = org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.call("worker_state_lock", **which(job), p_lock={"ID": lock})
    runner.report(job, "APPLY")
    world.lose(runner)
    runner.heartbeat()
    return job_id, runner


def test_force_unlock_needs_the_lock_id_and_no_running_job(world: World, org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    module = org.modules["a/b"]
    with refused("RY404", "The state is not locked."):
        org.owner.call("force_unlock_state", p_module=module, p_lock_id="x")
    runner.call("worker_state_lock", **which(job), p_lock={"ID": "one"})
    with refused("RY409", "is running and holds the lock."):
        org.owner.call("force_unlock_state", p_module=module, p_lock_id="one")
    with refused("RY422", "That is not the id of the lock that is held."):
        org.owner.call("force_unlock_state", p_module=module, p_lock_id="two")
    with refused("RY403"):
        org.member("operator").call("force_unlock_state", p_module=module, p_lock_id="one")


@pytest.mark.parametrize("is_earlier", [True, False])
def test_a_lock_that_was_left_keeps_the_next_job_waiting_until_it_is_released(
    world: World, org: Organization, is_earlier: bool
) -> None:
    job_id, runner = held_job(world, org)
    earlier = org.enqueue("a/b") if is_earlier else None
    org.owner.call("resolve_attention", p_job=job_id, p_action="mark_failed")
    waiting = earlier or org.enqueue("a/b")
    assert runner.claim() == []
    assert "locked" in org.owner.call("explain_queue", p_job=waiting)["summary"]
    org.owner.call("force_unlock_state", p_module=org.modules["a/b"], p_lock_id="dead")
    assert runner.claim_one()["id"] == waiting


# ---------------------------------------------------------------------- attention


def test_an_inspecting_plan_runs_beside_the_held_job_and_writes_nothing(world: World, org: Organization) -> None:
    job_id, runner = held_job(world, org)
    look = org.owner.call("resolve_attention", p_job=job_id, p_action="refresh_plan")
    job = runner.claim_one()
    assert job["id"] == look["id"]
    assert job["payload"]["options"] == {"refresh_only": True, "inspects": job_id, "lock": False}
    assert runner.call("worker_state_lock", **which(job), p_lock={"ID": "mine"}) == {"ID": "mine"}
    with refused("RY409", "This job only reads; it writes no state."):
        runner.call("worker_state_put", **which(job), p_body=body(9))
    assert runner.call("worker_state_unlock", **which(job), p_lock_id="mine") == {"unlocked": True}
    runner.finish(job)
    assert world.status(job_id) == "NEEDS_ATTENTION"
    assert org.owner.call("state_info", p_module=org.modules["a/b"])["lock"]["id"] == "dead"
    with refused("RY422", "is not a finished plan of this module."):
        org.enqueue("a/b", "APPLY", plan_job_id=look["id"])


def test_retry_runs_the_same_job_again(world: World, org: Organization) -> None:
    job_id, runner = held_job(world, org)
    org.owner.call("resolve_attention", p_job=job_id, p_action="retry")
    job = runner.claim_one()
    assert (job["id"], job["attempt"]) == (job_id, 2)
    runner.finish(job)
    assert world.status(job_id) == "SUCCEEDED"


@pytest.mark.parametrize(("proof", "is_locked"), [(None, True), ("dead", False)])
def test_marking_failed_releases_the_lock_only_with_proof(
    world: World, org: Organization, proof: str | None, is_locked: bool
) -> None:
    job_id, _ = held_job(world, org)
    with refused("RY422"):
        org.owner.call("resolve_attention", p_job=job_id, p_action="mark_failed", p_proof="guess")
    org.owner.call("resolve_attention", p_job=job_id, p_action="mark_failed", p_proof=proof)
    assert world.status(job_id) == "FAILED"
    assert (org.owner.call("state_info", p_module=org.modules["a/b"])["lock"] is not None) is is_locked


def test_the_lock_alone_can_be_released(world: World, org: Organization) -> None:
    job_id, _ = held_job(world, org)
    with refused("RY422"):
        org.owner.call("resolve_attention", p_job=job_id, p_action="release_lock", p_proof="guess")
    org.owner.call("resolve_attention", p_job=job_id, p_action="release_lock", p_proof="dead")
    assert world.status(job_id) == "NEEDS_ATTENTION"


def test_only_jobs_that_need_attention_are_resolved(world: World, org: Organization, other_org: Organization) -> None:
    job = other_org.enqueue("a/b")
    with refused("RY409", "; there is nothing to resolve."):
        other_org.owner.call("resolve_attention", p_job=job, p_action="retry")
    held, _ = held_job(world, org)
    with refused("RY404"):
        other_org.owner.call("resolve_attention", p_job=held, p_action="retry")
    with refused("RY422", "An action is refresh_plan, retry, mark_failed or release_lock."):
        org.owner.call("resolve_attention", p_job=held, p_action="pray")
