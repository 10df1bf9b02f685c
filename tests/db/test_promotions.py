"""A commit is promoted: production is applied only with the commit that staging was applied with."""

from typing import Any

import pytest

from tests.db.test_dependencies import depend
from tests.db.test_set_order import progress, start
from tests.db.test_set_reviews import confirm, review
from tests.db.world import Organization, Runner, World, refused

URL = "https://example.org/site.git"
SESSION = ("worker_id", "session_id", "instance_id", "boot_id", "token_id", "instance")
OLD, NEW = "a" * 40, "b" * 40


@pytest.fixture
def runner(org: Organization) -> Runner:
    """Staging and production of one repository, and a runner."""
    for path in ("a/staging", "a/production"):
        org.module(path, source_kind="git", source={"url": URL, "ref": "main"})
    depend(org, "a/production", "a/staging", is_promotion=True)
    return org.runner("r", is_assigned_to_all_modules=True, capacity=50)


def ran(org: Organization, runner: Runner, path: str, kind: str, commit: str) -> dict[str, Any]:
    """A job that finds this commit in the branch, unless its payload names another."""
    org.enqueue(path, kind)
    return ended(runner, commit)


def ended(runner: Runner, commit: str) -> dict[str, Any]:
    job = runner.claim_one()
    used = job["payload"]["module"]["source"].get("commit") or commit
    runner.finish(job, p_result={"commit": used}, p_plan_summary={"create": 1, "has_changes": True})
    return {**job, "used": used}


def pushed(world: World, org: Organization, path: str, commit: str) -> None:
    """A plan at a commit that a push has named."""
    world.owner.connection.execute(
        """select private.place_jobs(%(org)s, private.add_module_jobs(%(org)s, 'PLAN', array[%(module)s]::uuid[], null,
          jsonb_build_object('confirm', true, 'git', jsonb_build_object('commit', %(commit)s::text))), null)""",
        {"org": org.id, "module": org.modules[path], "commit": commit},
    )


def test_production_gets_the_commit_of_staging_and_nothing_before(org: Organization, runner: Runner) -> None:
    with refused("RY409", "Waits for a/staging: nothing was applied there."):
        org.enqueue("a/production", "APPLY")
    ran(org, runner, "a/staging", "APPLY", OLD)
    assert ran(org, runner, "a/production", "PLAN", NEW)["used"] == OLD
    assert ran(org, runner, "a/production", "APPLY", NEW)["used"] == OLD


def test_plan_of_another_commit_waits_until_staging_has_it(world: World, org: Organization, runner: Runner) -> None:
    ran(org, runner, "a/staging", "APPLY", OLD)
    pushed(world, org, "a/production", NEW)
    plan = ended(runner, NEW)
    waits = f"Waits for a/staging: commit {NEW[:7]} was not applied there, which has {OLD[:7]}."
    [apply] = world.owner.rows("select id from public.provision_jobs where plan_job_id = %s", plan["id"])
    assert org.owner.call("explain_queue", p_job=apply)["summary"] == waits
    with refused("RY409", waits):
        org.owner.call("approve_job", p_job=apply, p_decision="approve")
    ran(org, runner, "a/staging", "APPLY", NEW)
    assert world.status(apply) == "AWAITING_APPROVAL", "a person confirms it"
    org.owner.call("approve_job", p_job=apply, p_decision="approve")
    assert runner.claim_one()["id"] == apply


def test_a_module_with_auto_apply_follows_staging(world: World, org: Organization, runner: Runner) -> None:
    org.owner.call("update_module", p_module=org.modules["a/production"], p_spec={"auto_apply": True})
    ran(org, runner, "a/staging", "APPLY", OLD)
    pushed(world, org, "a/production", NEW)
    plan = ended(runner, NEW)
    assert runner.claim(9) == []
    ran(org, runner, "a/staging", "APPLY", NEW)
    apply = runner.claim_one()
    assert (apply["plan_job_id"], apply["type"]) == (plan["id"], "APPLY")


@pytest.fixture
def waiting(org: Organization, runner: Runner, world: World) -> dict[str, Any]:
    """Production's plan of a commit that staging is just applying; production applies its plans at once."""
    org.owner.call("update_module", p_module=org.modules["a/production"], p_spec={"auto_apply": True})
    ran(org, runner, "a/staging", "APPLY", OLD)
    pushed(world, org, "a/production", NEW)
    plan = runner.claim_one()
    org.enqueue("a/staging", "APPLY")
    return {"plan": plan, "apply": runner.claim_one()}


def end(runner: Runner, job: dict[str, Any]) -> None:
    runner.finish(job, p_result={"commit": NEW}, p_plan_summary={"create": 1, "has_changes": True})


def follower(world: World, waiting: dict[str, Any]) -> str:
    query = "select status::text from public.provision_jobs where plan_job_id = %s"
    return str(world.owner.one(query, waiting["plan"]["id"]))


def test_promotion_is_not_lost_while_somebody_is_at_productions_state(
    world: World, org: Organization, runner: Runner, waiting: dict[str, Any]
) -> None:
    end(runner, waiting["plan"])
    other = world.caller("postgres").connection
    with other.transaction():
        other.execute("select private.lock_state(%s, %s)", [org.id, org.modules["a/production"]])
        end(runner, waiting["apply"])
    assert follower(world, waiting) == "AWAITING_APPROVAL"
    assert world.sweep()["promoted"] == 1
    assert follower(world, waiting) == "QUEUED"
    assert world.sweep()["promoted"] == 0


def test_promotion_is_not_lost_when_the_plan_and_stagings_apply_end_together(
    world: World, runner: Runner, waiting: dict[str, Any]
) -> None:
    """Neither transaction sees what the other one changes."""
    other = world.caller("worker", sub=runner.worker_id, sid=runner.session_id)
    second = Runner(other.connection, *(getattr(runner, name) for name in SESSION))
    with runner.connection.transaction():
        end(runner, waiting["plan"])
        end(second, waiting["apply"])
    assert follower(world, waiting) == "AWAITING_APPROVAL"
    assert world.sweep()["promoted"] == 1
    assert follower(world, waiting) == "QUEUED"


@pytest.mark.parametrize("why", ["locked", "on request"])
def test_apply_that_waits_for_a_person_is_not_promoted(
    world: World, org: Organization, runner: Runner, why: str, waiting: dict[str, Any]
) -> None:
    module = org.modules["a/production"]
    if why == "locked":
        org.owner.call("lock_module", p_module=module, p_reason="Friday")
    else:
        options = """update public.provision_jobs set payload = jsonb_set(payload, '{options,auto_apply}', 'false')
          where id = %s"""
        world.owner.connection.execute(options, [waiting["plan"]["id"]])
    end(runner, waiting["plan"])
    if why == "locked":
        org.owner.call("unlock_module", p_module=module)
    end(runner, waiting["apply"])
    assert world.sweep()["promoted"] == 0
    assert follower(world, waiting) == "AWAITING_APPROVAL"


def test_review_names_a_missing_promotion_and_a_set_applies_staging_first(org: Organization, runner: Runner) -> None:
    made = start(org, "PLAN")
    ended(runner, NEW)
    ended(runner, NEW)
    row = review(org, made)["a/production"]
    assert (row["decision"], row["message"]) == (None, "Waits for a/staging: nothing was applied there.")
    confirm(org, made)
    ended(runner, NEW)
    assert review(org, made)["a/production"]["decision"] == "apply"
    both = start(org, "APPLY")
    assert [ended(runner, NEW)["module_path"] for _ in range(2)] == ["a/staging", "a/production"]
    assert progress(org, both)["status"] == "SUCCEEDED"


def test_promotion_needs_one_repository(org: Organization, runner: Runner) -> None:
    org.module("a/other", source_kind="git", source={"url": "https://example.org/other.git"})
    org.module("a/inline")
    for path in ("a/other", "a/inline"):
        with refused("RY409", f'"{path}" and "a/staging" do not come from one git repository.'):
            depend(org, path, "a/staging", is_promotion=True)
    with refused("RY422", "is_promotion is true or false."):
        depend(org, "a/production", "a/staging", is_promotion="yes")
    depend(org, "a/production", "a/staging", is_promotion=False)
    assert ran(org, runner, "a/production", "APPLY", NEW)["used"] == NEW
