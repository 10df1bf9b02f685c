"""Checks made when a job is enqueued, or a module changed, must still be true when it is written: others act meanwhile."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.db.world import Caller, Organization, World, refused


def enqueue(org: Organization, by: Caller, module: str, job_type: str = "APPLY", **options: Any) -> dict[str, Any]:
    made: dict[str, Any] = by.call("enqueue_job", p_org=org.id, p_type=job_type, p_module=module, p_options=options)
    return made


def delete(org: Organization, module: str) -> Callable[[], Any]:
    return lambda: org.owner.call("delete_module", p_module=module, p_confirm_name="b")


def jobs_of(world: World, module: str) -> list[str]:
    return world.owner.rows("select status::text from public.provision_jobs where module_id = %s", module)


@pytest.mark.parametrize("approvals", [0, 1])
def test_nothing_is_enqueued_for_a_module_that_is_removed_meanwhile(
    world: World, org: Organization, approvals: int
) -> None:
    module, operator = org.module("a/b", approvals_required=approvals), org.member("operator")
    with refused("RY404", "There is no such module."):
        world.during(org.owner, delete(org, module), lambda: enqueue(org, operator, module)).result()
    assert jobs_of(world, module) == []


def test_a_set_leaves_a_module_out_that_is_removed_meanwhile(world: World, org: Organization) -> None:
    module, operator = org.module("a/b"), org.member("operator")
    made = world.during(
        org.owner,
        delete(org, module),
        lambda: operator.call("start_set", p_org=org.id, p_type="PLAN", p_path="a"),
    ).result()
    assert (made["failed"], jobs_of(world, module)) == (1, [])


def test_no_job_awaits_approval_for_a_runner_that_is_removed_meanwhile(world: World, org: Organization) -> None:
    module, operator, worker = org.module("a/b", approvals_required=1), org.member("operator"), org.worker("r")
    with refused("RY404", "The runner that the job should be pinned to"):
        world.during(
            org.owner,
            lambda: org.owner.call("remove_worker", p_worker=worker),
            lambda: enqueue(org, operator, module, pinned_worker_id=worker),
        ).result()
    assert jobs_of(world, module) == []


@pytest.mark.parametrize("approvals", [0, 1])
def test_two_simultaneous_requests_apply_a_plan_once(world: World, org: Organization, approvals: int) -> None:
    module, operator = org.module("a/b", approvals_required=approvals), org.member("operator")
    runner = org.runner("r", is_assigned_to_all_modules=True)
    plan = org.enqueue("a/b")
    runner.finish(runner.claim_one(), p_plan_summary={"has_changes": True})
    with refused("RY409", "is already being applied"):
        world.during(
            org.owner,
            lambda: org.enqueue("a/b", "APPLY", plan_job_id=plan),
            lambda: enqueue(org, operator, module, plan_job_id=plan),
        ).result()
    assert len(jobs_of(world, module)) == 2


def test_nothing_is_applied_to_a_module_that_is_locked_meanwhile(world: World, org: Organization) -> None:
    module, operator = org.module("a/b"), org.member("operator")
    with refused("RY409", "has locked the module"):
        world.during(
            org.owner,
            lambda: org.owner.call("lock_module", p_module=module, p_reason="Month-end"),
            lambda: enqueue(org, operator, module),
        ).result()
    assert jobs_of(world, module) == []


CHANGES: dict[str, dict[str, Any]] = {
    "update_module": {"p_spec": {"description": "late"}},
    "delete_module": {"p_confirm_name": "b"},
    "roll_back_state": {"p_serial": 1},
    "force_unlock_state": {"p_lock_id": "abc"},
    "lock_module": {"p_reason": "late"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_module_that_is_removed_meanwhile_is_not_changed(world: World, org: Organization, change: str) -> None:
    module, admin = org.module("a/b"), org.member("admin")
    with refused("RY404", "There is no such module."):
        world.during(
            org.owner, delete(org, module), lambda: admin.call(change, p_module=module, **CHANGES[change])
        ).result()
    acts = world.owner.rows("select action from public.audit_events where target_id = %s order by id", module)
    assert acts == ["module.created", "module.deleted"]
