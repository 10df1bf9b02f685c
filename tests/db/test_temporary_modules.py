"""A module that was made for one plan is removed when the plan has ended, with its group; modules and groups in use stay."""

from typing import Any

import pytest

from tests.db.world import Organization, Runner, World


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("fresh", is_assigned_to_all_modules=True)


def later(world: World) -> int:
    """A minute has passed, and the sweep has run."""
    world.owner.connection.execute("update public.modules set updated_at = now() - interval '2 minutes'")
    return int(world.owner.one("select private.remove_temporary_modules()"))


def left(world: World, org: Organization) -> list[Any]:
    modules = "select path from public.modules where org_id = %s and deleted_at is null"
    mine = f"{modules} union all select path from public.groups where org_id = %s"
    return world.owner.rows(mine, org.id, org.id)


def test_a_temporary_module_is_removed_when_its_plan_has_ended_and_the_plan_stays(
    world: World, org: Organization, runner: Runner
) -> None:
    org.module("runyard/runner-test", is_temporary=True)
    number = org.enqueue("runyard/runner-test")
    assert later(world) == 0, "its plan waits"
    job = runner.claim_one()
    assert later(world) == 0, "its plan runs"
    runner.finish(job)
    assert world.owner.one("select private.remove_temporary_modules()") == 1
    assert left(world, org) == []
    assert world.job(number)["module_path"] == "runyard/runner-test"
    last = "select target_label, actor_label, actor_id from public.audit_events where action = 'module.deleted'"
    assert world.owner.rows(last) == [("runyard/runner-test", "system", None)]


def test_a_new_temporary_module_waits_for_its_job(world: World, org: Organization) -> None:
    org.module("runyard/runner-test", is_temporary=True)
    assert world.owner.one("select private.remove_temporary_modules()") == 0
    assert later(world) == 1


@pytest.mark.parametrize("kept", ["state", "group", "sibling", "child", "assignment", "not temporary"])
def test_modules_and_groups_in_use_stay(world: World, org: Organization, runner: Runner, kept: str) -> None:
    org.module("runyard/runner-test", is_temporary=kept != "not temporary")
    if kept == "state":
        org.enqueue("runyard/runner-test", "APPLY")
        job = runner.claim_one()
        body = '{"version":4,"serial":1,"lineage":"x"}'
        runner.call("worker_state_put", p_job=job["id"], p_attempt=job["attempt"], p_body=body)
        runner.finish(job)
    elif kept == "group":
        org.group("runyard", p_description="Somebody's")
    elif kept in ("sibling", "child"):
        org.module("runyard/other" if kept == "sibling" else "runyard/below/other")
    elif kept == "assignment":
        org.owner.call("assign_worker", p_worker=runner.worker_id, p_path="runyard")
    is_module_kept = kept in ("state", "not temporary")
    assert later(world) == (0 if is_module_kept else 1)
    assert ("runyard/runner-test" in left(world, org)) == is_module_kept
    assert "runyard" in left(world, org)


def test_a_module_that_is_no_longer_temporary_stays(world: World, org: Organization) -> None:
    module = org.module("runyard/runner-test", is_temporary=True)
    org.owner.call("update_module", p_module=module, p_spec={"is_temporary": False})
    assert later(world) == 0
