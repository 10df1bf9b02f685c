"""Enqueueing: checks, idempotency, order within a module."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.db.world import Organization, World, refused


def test_the_same_key_gives_the_same_job(org: Organization) -> None:
    first = org.enqueue("a/b", idempotency_key="k")
    assert org.enqueue("a/b", idempotency_key="k") == first
    assert org.enqueue("a/b", idempotency_key="l") != first


def test_the_same_key_at_the_same_time_gives_one_job(world: World, org: Organization) -> None:
    module = org.module("a/b")
    people = [org.member("operator") for _ in range(6)]

    def enqueue(person: Any) -> int:
        made = person.call(
            "enqueue_job", p_org=org.id, p_type="PLAN", p_module=module, p_options={"idempotency_key": "k"}
        )
        return int(made["id"])

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(enqueue, people))) == 1


def test_keys_are_the_organisations_own(org: Organization, other_org: Organization) -> None:
    assert org.enqueue("a/b", idempotency_key="k") != other_org.enqueue("a/b", idempotency_key="k")


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 1001},
        {"priority": "high"},
        {"max_attempts": 0},
        {"approvals_required": 11},
        {"labels": ["Bad Label"]},
        {"labels": [f"label{number:02}=" + "x" * 60 for number in range(20)]},
        {"pinned_instance_name": "x" * 101},
        {"auto_apply": "perhaps"},
        {"confirm": 1},
        {"refresh_only": "true"},
        {"destroy": []},
        {"targets": "a.b"},
        {"targets": [["a.b"]]},
        {"targets": ["a.b" * 30_000]},
        {"replace": {"a": "b"}},
        {"idempotency_key": ""},
        {"pinned_worker_id": "not-a-uuid"},
        {"speed": "fast"},
        {"plan_job_id": 1},
    ],
)
def test_options_that_make_no_sense_are_refused(org: Organization, options: dict[str, Any]) -> None:
    with refused("RY422"):
        org.enqueue("a/b", **options)


def test_options_that_runners_read_are_accepted(world: World, org: Organization) -> None:
    options = {"auto_apply": None, "confirm": True, "destroy": False, "refresh_only": True, "targets": ["a.b"]}
    assert world.job(org.enqueue("a/b", **options))["payload"]["options"] == options


def noise(length: int) -> str:
    """Letters that no index can pack."""
    return secrets.token_hex(length)[:length]


def test_labels_of_the_module_and_the_job_count_together(org: Organization) -> None:
    org.module("a/b", labels=[f"m{number}={noise(50)}" for number in range(15)])
    with refused("RY422", "The module's labels and the job's are too many together."):
        org.enqueue("a/b", labels=[f"j{number}={noise(50)}" for number in range(15)])
    org.enqueue("a/b", labels=["j=1"])


def test_a_job_with_the_largest_requirements_has_a_lane(world: World, org: Organization) -> None:
    path = "/".join(noise(63) for _ in range(20))
    labels = [noise(28) + f"={number:02}" for number in range(32)]
    org.module(path, labels=labels, engine_version=noise(50), runner_instance_name=noise(100))
    org.owner.call("assign_worker", p_worker=org.worker("r1"), p_path=path)
    job = org.enqueue(path)
    assert world.owner.one("select stage::text from private.live_jobs where job_id = %s", job) == "READY"


def test_a_pin_must_exist(org: Organization, other_org: Organization) -> None:
    with refused("RY404", "The runner that the job should be pinned to does not exist."):
        org.enqueue("a/b", pinned_worker_id=other_org.worker("r1"))


@pytest.mark.parametrize("job_type", ["DEPLOY_WORKER", "UPDATE_WORKER", "REMOVE_WORKER", "VERIFY_IDENTITY", "RESOLVE"])
def test_runners_own_jobs_do_not_act_on_modules(org: Organization, job_type: str) -> None:
    with refused("RY422", "This type of job does not act on a module."):
        org.enqueue("a/b", job_type)


def test_a_job_is_about_one_thing_for_every_writer(world: World, org: Organization) -> None:
    job, runner = org.enqueue("a/b"), org.worker("r1")
    owner = world.owner.connection
    with pytest.raises(psycopg.errors.CheckViolation):
        owner.execute("update public.provision_jobs set target_worker_id = %s where id = %s", [runner, job])
    with pytest.raises(psycopg.errors.CheckViolation):
        owner.execute("insert into public.provision_jobs (org_id, type) values (%s, 'PLAN')", [org.id])


def test_a_job_names_a_module_of_its_own_organisation(world: World, org: Organization) -> None:
    other = world.organization()
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        world.owner.connection.execute(
            "insert into public.provision_jobs (org_id, type, module_id) values (%s, 'PLAN', %s)",
            [other.id, org.module("a/b")],
        )


def test_jobs_events_and_logs_leave_with_their_organisation(world: World) -> None:
    org = world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    job = runner.claim_one()
    runner.append(job, (1, "a line"))
    owner = world.owner
    owner.connection.execute("delete from public.organizations where id = %s", [org.id])
    tables = ("public.provision_jobs", "public.job_events", "public.job_log_chunks", "private.live_jobs")
    assert [owner.one(f"select count(*) from {table} where org_id = %s", org.id) for table in tables] == [0, 0, 0, 0]


def test_only_a_finished_plan_of_the_module_is_applied_and_only_once(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=5)
    plan, other = org.enqueue("a/b"), org.enqueue("a/c")
    with refused("RY422", "is not a finished plan of this module."):
        org.enqueue("a/b", "APPLY", plan_job_id=plan)
    for job in runner.claim(2):
        runner.finish(job)
    with refused("RY422"):
        org.enqueue("a/b", "APPLY", plan_job_id=other)
    assert org.enqueue("a/b", "APPLY", plan_job_id=plan)
    with refused("RY409", "is already being applied, or was."):
        org.enqueue("a/b", "APPLY", plan_job_id=plan)


def test_a_destroy_accepts_only_a_destroy_plan(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    plan = org.enqueue("a/b")
    runner.finish(runner.claim_one())
    with refused("RY422", "is not a finished plan of this module."):
        org.enqueue("a/b", "DESTROY", plan_job_id=plan)
    plan = org.enqueue("a/b", destroy=True)
    runner.finish(runner.claim_one())
    assert org.enqueue("a/b", "DESTROY", plan_job_id=plan)


def test_one_job_per_module_is_ready_the_others_wait_in_order(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=10)
    first, second, third = (org.enqueue("a/b") for _ in range(3))
    order = []
    for _ in range(3):
        claimed = runner.claim(10)
        assert len(claimed) == 1
        order.append(claimed[0]["id"])
        runner.finish(claimed[0])
    assert order == [first, second, third]


def test_an_urgent_job_runs_before_one_that_has_not_begun(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    usual, urgent = org.enqueue("a/b"), org.enqueue("a/b", priority=1)
    job = runner.claim_one()
    assert job["id"] == urgent
    runner.finish(job)
    assert runner.claim_one()["id"] == usual


def test_modules_take_turns(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    many = [org.enqueue("a/many") for _ in range(3)]
    few = org.enqueue("a/few")
    order = []
    for _ in range(4):
        job = runner.claim_one()
        order.append(job["id"])
        runner.finish(job)
    assert order == [many[0], few, many[1], many[2]]


def test_the_last_job_of_a_module_is_no_plan_and_shown_to_members_only(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    shown = "select id, type::text, status::text from public.last_jobs where module_id = %s"
    assert org.owner.rows(shown, org.modules["a/b"]) == []
    job = org.enqueue("a/b", "DRIFT")
    assert org.owner.one(shown, org.modules["a/b"]) == (job, "DRIFT", "QUEUED")
    runner.finish(runner.claim_one())
    claimed = runner.claim_one()
    assert org.owner.one(shown, org.modules["a/b"]) == (job, "DRIFT", "CLAIMED")
    runner.finish(claimed, "FAILED")
    org.enqueue("a/b")
    runner.finish(runner.claim_one())
    assert org.owner.one(shown, org.modules["a/b"]) == (job, "DRIFT", "FAILED")
    listed = org.owner.call("list_modules", p_org=org.id)["rows"]
    assert [(row["last_job"]["id"], row["last_job"]["status"]) for row in listed if row["path"] == "a/b"] == [
        (job, "FAILED")
    ]
    stranger = world.organization().owner
    assert stranger.rows("select from public.last_jobs where module_id = %s", org.modules["a/b"]) == []


def test_a_plan_with_changes_is_followed_by_its_apply(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    module = org.module("a/b", auto_apply=True, inputs={"v": 1})
    plan = org.enqueue("a/b")
    job = runner.claim_one()
    org.owner.call("update_module", p_module=module, p_spec={"inputs": {"v": 2}})
    runner.finish(job, p_plan_summary={"has_changes": True})
    apply = runner.claim_one()
    assert (apply["type"], apply["plan_job_id"]) == ("APPLY", plan)
    assert world.given(apply["id"]) == {"v": 1}


@pytest.mark.parametrize(
    ("summary", "options"),
    [
        ({"has_changes": False}, {}),
        (None, {}),
        ({"has_changes": True}, {"refresh_only": True}),
        ({"has_changes": True}, {"auto_apply": False}),
    ],
)
def test_nothing_is_applied_without_need(
    org: Organization, summary: dict[str, bool] | None, options: dict[str, Any]
) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.module("a/b", auto_apply=True)
    org.enqueue("a/b", **options)
    runner.finish(runner.claim_one(), p_plan_summary=summary)
    assert runner.claim() == []


@pytest.mark.parametrize(("role", "may"), [("viewer", False), ("operator", True)])
def test_operators_may_enqueue_and_viewers_may_not(org: Organization, role: str, may: bool) -> None:
    member, module = org.member(role), org.module("a/b")
    arguments = {"p_org": org.id, "p_type": "PLAN", "p_module": module}
    if may:
        assert member.call("enqueue_job", **arguments)["created_by_label"] == member.email
    else:
        with refused("RY403", "your role is"):
            member.call("enqueue_job", **arguments)


def test_a_module_of_another_organisation_is_not_found(org: Organization, other_org: Organization) -> None:
    with refused("RY404", "There is no such module."):
        org.owner.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=other_org.module("a/b"))
