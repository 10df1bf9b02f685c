"""Enqueueing for many modules at once: what enqueueing them one by one would have given, all or none."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.db.world import Caller, Organization, User, World, refused

NOBODY = "5b0a7a52-0000-4000-8000-00000000dead"
# The fields of a job, but for its number, its key and the times.
JOB = """
select module_path, type, status, group_path, payload, pinned_worker_id, pinned_instance_name, labels, priority, max_attempts,
  approvals_required, approval_deadline_at - created_at, queued_at = created_at, created_by, created_by_label
from public.provision_jobs where id = any (%s) order by module_path
"""
EVENT = """
select j.module_path, e.attempt, e.actor_kind, e.actor_id, e.actor_label, e.event, e.from_status, e.to_status, e.reason, e.detail
from public.job_events as e join public.provision_jobs as j on j.id = e.job_id where j.id = any (%s) order by j.module_path
"""
PLACE = """
select j.module_path, q.state_key, q.stage, q.priority, q.attempt, q.lane_id, q.ready_seq is not null
from private.live_jobs as q join public.provision_jobs as j on j.id = q.job_id where j.id = any (%s) order by j.module_path
"""


def stages(org: Organization) -> dict[int, str]:
    """Return the stages of the organisation's unfinished jobs."""
    return dict(org.world.owner.rows("select job_id, stage from private.live_jobs where org_id = %s", org.id))


def listed(modules: Sequence[str | None]) -> str:
    """A list of ids as PostgreSQL writes it."""
    return "{" + ",".join(module or "NULL" for module in modules) + "}"


def one_module(call: str, module: str) -> dict[str, str]:
    """Return the argument with which either call names a module."""
    return {"p_module": module} if call == "enqueue_job" else {"p_modules": listed([module])}


def enqueue_many(
    caller: Caller, org: Organization, modules: Sequence[str | None], job_type: str = "PLAN", **options: Any
) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = caller.call(
        "enqueue_jobs", p_org=org.id, p_type=job_type, p_modules=listed(modules), p_options=options
    )
    return made


@pytest.fixture
def mixed(org: Organization) -> list[str]:
    """Modules with different requirements, in groups with different settings, with runners near and far."""
    org.group("a", p_env={"WHERE": "a", "WHO": "a"}, p_hooks={"before_plan": "echo a"})
    org.group("a/b", p_env={"WHERE": "b"})
    pinned = org.worker("pinned", labels=["gpu=true"])
    org.worker("everywhere", is_assigned_to_all_modules=True)
    near = org.worker("near")
    modules = [
        org.module("a/one", inputs={"v": 1}),
        org.module("a/two", labels=["gpu=true"]),
        org.module("a/b/three", pinned_worker_id=pinned, env={"X": "y"}),
        org.module("a/b/four", runner_instance_name="blue"),
        org.module("a/five", approvals_required=2, approval_timeout_seconds=120),
        org.module("c/six"),
    ]
    org.owner.call("assign_worker", p_worker=near, p_path="a/b")
    org.owner.call("assign_worker", p_worker=near, p_path="a/one")
    return modules


@pytest.mark.parametrize(
    ("job_type", "options"),
    [
        ("PLAN", {}),
        ("APPLY", {"priority": 7, "max_attempts": 2, "reason": "now"}),
        ("DESTROY", {"approvals_required": 1, "labels": ["b", "a", "gpu=true"], "targets": ["x.y"]}),
    ],
)
def test_many_jobs_equal_jobs_that_are_enqueued_one_by_one(
    world: World, org: Organization, mixed: list[str], job_type: str, options: dict[str, Any]
) -> None:
    owner = world.owner
    single = [
        org.owner.call("enqueue_job", p_org=org.id, p_type=job_type, p_module=module, p_options=options)["id"]
        for module in mixed
    ]
    wanted = [owner.rows(query, single) for query in (JOB, EVENT, PLACE)]
    owner.connection.execute("delete from private.live_jobs where org_id = %s", [org.id])
    many = [job["id"] for job in enqueue_many(org.owner, org, mixed, job_type, **options)]
    assert [owner.rows(query, many) for query in (JOB, EVENT, PLACE)] == wanted
    assert [len(rows) for rows in wanted[:2]] == [6, 6]


def test_one_act_is_one_line_in_the_audit_log(org: Organization) -> None:
    modules = [org.module(path) for path in ("a/x", "a/y", "a/z")]
    many = [job["number"] for job in enqueue_many(org.owner, org, modules)]
    found = org.world.owner.one(
        "select action, target_label, detail from public.audit_events where org_id = %s and action = 'jobs.enqueued'",
        org.id,
    )
    assert found == ("jobs.enqueued", "PLAN of 3 modules", {"jobs": f"{many[0]}-{many[2]}"})


@pytest.mark.parametrize(
    ("numbers", "words"), [([7], "7"), ([12, 7, 8, 9], "7-9, 12"), ([1, 3, 5], "1, 3, 5"), ([], None)]
)
def test_numbers_are_written_as_ranges(world: World, numbers: list[int], words: str | None) -> None:
    assert world.owner.one("select private.number_ranges(%s::bigint[])", numbers) == words


def test_the_answer_names_each_job_in_the_requested_order(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=10)
    modules = {path: org.module(path) for path in ("a/z", "b/y", "a/x")}
    org.module("a/other")
    made = enqueue_many(org.owner, org, [*modules.values(), modules["a/z"]])
    assert [(job["module_path"], job["module_id"], job["status"]) for job in made] == [
        (path, module, "QUEUED") for path, module in modules.items()
    ]
    assert [job["id"] for job in runner.claim(10)] == [job["id"] for job in made]


def test_only_jobs_whose_modules_require_approval_wait_for_it(org: Organization) -> None:
    free, careful = org.module("a/free"), org.module("a/careful", approvals_required=1)
    made = enqueue_many(org.owner, org, [careful, free], "APPLY")
    assert [job["status"] for job in made] == ["AWAITING_APPROVAL", "QUEUED"]
    assert stages(org) == {made[1]["id"]: "READY"}


def test_a_module_with_a_job_has_the_next_one_wait_unless_it_is_more_urgent(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=10)
    modules = [org.module("a/busy"), org.module("a/queued"), org.module("a/idle")]
    org.enqueue("a/busy")
    busy = runner.claim_one()
    queued = org.enqueue("a/queued")
    made = [job["id"] for job in enqueue_many(org.owner, org, modules, priority=1)]
    assert stages(org) == {
        busy["id"]: "RUNNING",
        queued: "WAITING",
        made[0]: "WAITING",
        made[1]: "READY",
        made[2]: "READY",
    }
    runner.finish(busy)
    assert sorted(job["id"] for job in runner.claim(10)) == made


def test_a_state_that_was_left_locked_keeps_its_job_waiting(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    lost = org.enqueue("a/locked", "APPLY")
    job = runner.claim_one()
    runner.call("worker_state_lock", p_job=lost, p_attempt=job["attempt"], p_lock={"ID": "left"})
    runner.report(job, "APPLY")
    world.lose(runner)
    org.owner.call("resolve_attention", p_job=lost, p_action="mark_failed")
    locked, free = enqueue_many(org.owner, org, [org.modules["a/locked"], org.module("a/free")])
    assert stages(org) == {locked["id"]: "WAITING", free["id"]: "READY"}


# ---------------------------------------------------------------------- keys


def test_the_same_key_gives_the_same_jobs_and_new_ones_for_new_modules(org: Organization) -> None:
    one, two, three = (org.module(f"a/{name}") for name in ("one", "two", "three"))
    first = enqueue_many(org.owner, org, [one, two], idempotency_key="k")
    assert enqueue_many(org.owner, org, [two, one], idempotency_key="k") == first
    more = enqueue_many(org.owner, org, [three, one], idempotency_key="k")
    assert more[0] == first[0]
    assert [job["module_id"] for job in more] == [one, three]
    others = enqueue_many(org.owner, org, [one], idempotency_key="l")
    assert others[0]["id"] not in {job["id"] for job in [*first, *more]}
    assert org.owner.one("select count(*) from public.provision_jobs") == 4


def test_a_key_for_many_is_not_the_key_of_one(org: Organization) -> None:
    module = org.module("a/b")
    many = enqueue_many(org.owner, org, [module], idempotency_key="k")
    assert org.enqueue("a/b", idempotency_key="k") != many[0]["id"]


def test_the_same_key_at_the_same_time_gives_each_module_one_job(org: Organization) -> None:
    modules = [org.module(f"a/m{number}") for number in range(5)]
    people = [org.member("operator") for _ in range(4)]

    def enqueue(person: User) -> list[int]:
        return [job["id"] for job in enqueue_many(person, org, modules, idempotency_key="k")]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(enqueue, people))
    assert answers == [answers[0]] * 4
    assert org.owner.one("select count(*) from public.provision_jobs") == 5


def test_opposite_orders_do_not_wait_for_each_other(org: Organization) -> None:
    modules = [org.module(f"a/m{number}") for number in range(8)]
    people = [org.member("operator") for _ in range(4)]

    def enqueue(number: int) -> int:
        order = modules if number % 2 else modules[::-1]
        return sum(len(enqueue_many(people[number], org, order)) for _ in range(5))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(enqueue, range(4))) == [40] * 4
    assert org.owner.one("select count(*) from public.provision_jobs where status = 'QUEUED'") == 160


# ---------------------------------------------------------------------- refusals


def test_one_bad_module_prevents_all_jobs_of_the_call(world: World, org: Organization, other_org: Organization) -> None:
    good, foreign = org.module("a/good"), other_org.module("a/foreign")
    gone = org.module("a/gone")
    org.owner.call("delete_module", p_module=gone, p_confirm_name="gone")
    for bad in (foreign, gone, NOBODY):
        with refused("RY404") as caught:
            enqueue_many(org.owner, org, [good, bad])
        assert caught.value.diag.message_primary == "There is no such module."
        assert caught.value.diag.message_detail == f'{{"modules": ["{bad}"]}}'
    with refused("RY404"):
        enqueue_many(org.owner, org, [good, None])
    tables = ("public.provision_jobs", "private.live_jobs", "public.job_events")
    left = [world.owner.one(f"select count(*) from {table} where org_id = %s", org.id) for table in tables]
    assert left == [0, 0, 0]


@pytest.mark.parametrize(
    ("count", "job_type", "options", "words"),
    [
        (0, "PLAN", {}, "One call takes 1 to 1,000 modules."),
        (1001, "PLAN", {}, "One call takes 1 to 1,000 modules."),
        (1, "APPLY", {"plan_job_id": 1}, "A saved plan belongs to one module."),
        (1, "DEPLOY_WORKER", {}, "This type of job does not act on a module."),
        (1, "PLAN", {"priority": 1001}, '"priority" is not a whole number from 0 to 1000.'),
        (1, "PLAN", {"idempotency_key": ""}, '"idempotency_key" is not a text of 1 to 200 characters.'),
        (1, "PLAN", {"max_attempts": "often"}, '"max_attempts" is not a whole number from 1 to 20.'),
        (1, "PLAN", {"inspects": 1}, "Unknown option: inspects."),
    ],
)
def test_invalid_calls_are_refused_with_a_hint(
    org: Organization, count: int, job_type: str, options: dict[str, Any], words: str
) -> None:
    with refused("RY422") as caught:
        enqueue_many(org.owner, org, [org.module("a/b")] * count, job_type, **options)
    assert caught.value.diag.message_primary == words
    assert caught.value.diag.message_hint


def test_a_missing_list_is_refused_too(org: Organization) -> None:
    with refused("RY422"):
        org.owner.call("enqueue_jobs", p_org=org.id, p_type="PLAN", p_modules=None)


def test_a_pin_must_exist(org: Organization, other_org: Organization) -> None:
    with refused("RY404"):
        enqueue_many(org.owner, org, [org.module("a/b")], pinned_worker_id=other_org.worker("r1"))


@pytest.mark.parametrize("call", ["enqueue_job", "enqueue_jobs"])
def test_a_runner_that_is_being_removed_gets_no_job_pinned_to_it(world: World, org: Organization, call: str) -> None:
    """The pin may have been checked before the removal; the job would wait for ever."""
    worker, module, operator = org.worker("r1"), org.module("a/b"), org.member("operator")
    options = {"pinned_worker_id": worker}
    asked = world.during(
        org.owner,
        lambda: org.owner.call("remove_worker", p_worker=worker),
        lambda: operator.call(call, p_org=org.id, p_type="PLAN", p_options=options, **one_module(call, module)),
    )
    with refused("RY404"):
        asked.result()
    assert world.owner.one("select count(*) from public.provision_jobs where module_id = %s", module) == 0


@pytest.mark.parametrize("call", ["enqueue_job", "enqueue_jobs"])
def test_a_module_whose_pinned_runner_was_removed_gets_no_job(world: World, org: Organization, call: str) -> None:
    gone, module = org.worker("gone"), org.module("a/b")
    org.owner.call("remove_worker", p_worker=gone)
    world.owner.connection.execute("update public.modules set pinned_worker_id = %s where id = %s", [gone, module])
    with refused("RY409", 'The runner that it is pinned to, "gone", was removed.'):
        org.owner.call(call, p_org=org.id, p_type="PLAN", **one_module(call, module))
    assert world.owner.one("select count(*) from public.provision_jobs where module_id = %s", module) == 0


def test_viewers_may_not_enqueue(org: Organization) -> None:
    with refused("RY403"):
        enqueue_many(org.member("viewer"), org, [org.module("a/b")])
