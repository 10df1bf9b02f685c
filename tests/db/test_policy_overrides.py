"""Verdicts of policy sets: what they hold up, who sees them, and which plans an override is for."""

import json

import pytest

from tests.db.git_site import announce, first_reading, merged, open_site
from tests.db.test_policies import CHANGES, apply_of, approve, attach, check, override, plan
from tests.db.test_reading import guest
from tests.db.world import Organization, Runner, World, refused

OWN = "You requested this job; somebody else overrides its checks"
OVER = "Nothing of this plan waits any more"


@pytest.fixture
def org(world: World) -> Organization:
    return world.organization()


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r", is_assigned_to_all_modules=True)


def test_a_verdict_of_a_lost_attempt_does_not_count_for_the_next_one(
    world: World, org: Organization, runner: Runner
) -> None:
    org.module("a/b")
    attach(org, "", "base", "overridable")
    options = {"p_org": org.id, "p_type": "PLAN", "p_module": org.modules["a/b"], "p_options": {"confirm": True}}
    org.owner.call("enqueue_job", **options)
    first = runner.claim_one()
    check(runner, first)
    check(runner, first, base="failed")
    check(runner, first)
    runner.call("worker_recover", p_running=[{"job": first["id"], "attempt": 1, "is_dead": True}])
    world.end_backoff(first["id"])
    second = runner.claim_one()
    assert (second["id"], second["attempt"]) == (first["id"], 2)
    runner.finish(second, p_plan_summary=CHANGES)
    with refused("RY409", "has not checked this plan"):
        approve(org.owner, apply_of(world, second))


def test_a_set_that_became_mandatory_since_the_plan_refuses_its_confirmation(
    world: World, org: Organization, runner: Runner
) -> None:
    attach(org, "", "base", "advisory")
    job = plan(org, runner, base="failed")
    attach(org, "", "base")
    with refused("RY409", '"base" has changed since this plan'):
        approve(org.owner, apply_of(world, job))


@pytest.mark.parametrize("kind", ["APPLY", "DESTROY"])
def test_no_change_begins_unchecked(org: Organization, runner: Runner, kind: str) -> None:
    org.module("a/b")
    attach(org, "", "base")
    org.enqueue("a/b", kind)
    job = runner.claim_one()
    with refused("RY409", "has not checked this plan"):
        runner.report(job, "APPLY")


def test_a_guest_sees_the_sets_and_verdicts_of_their_own_path(org: Organization, runner: Runner) -> None:
    for path in ("a/b", "c/d"):
        org.module(path)
        attach(org, path.partition("/")[0], "base")
        org.enqueue(path)
        check(runner, job := runner.claim_one())
        runner.finish(job)
    reader = guest(org, "a")
    assert reader.rows("select path from public.policy_sets") == ["a"]
    assert reader.rows("select path from public.policy_checks") == ["a"]


def test_a_plan_that_still_runs_is_not_overridden(org: Organization, runner: Runner) -> None:
    org.module("a/b")
    base = attach(org, "", "base", "overridable")
    org.enqueue("a/b")
    job = runner.claim_one()
    check(runner, job, base="failed")
    with refused("RY409", OVER):
        override(org.owner, job["id"], base)


def test_a_plan_whose_state_has_moved_on_is_not_overridden(org: Organization, runner: Runner) -> None:
    org.module("a/b")
    base = attach(org, "", "base", "overridable")
    org.enqueue("a/b")
    job = runner.claim_one()
    check(runner, job, base="failed")
    runner.finish(job, p_plan_summary=CHANGES)
    body = json.dumps({"version": 4, "serial": 5, "lineage": "l", "resources": []})
    org.owner.call("push_state", p_module=org.modules["a/b"], p_body=body)
    with refused("RY409", "The state has moved on"):
        override(org.owner, job["id"], base)


@pytest.mark.parametrize("of", ["the plan", "its apply"])
def test_who_lowers_the_number_of_approvals_does_not_override_the_own_plan_by_it(
    world: World, org: Organization, runner: Runner, of: str
) -> None:
    org.module("a/b", approvals_required=2)
    admin = org.member("admin")
    base = attach(org, "", "base", "overridable")
    job = plan(org, runner, by=admin, base="failed")
    admin.call("update_module", p_module=org.modules["a/b"], p_spec={"approvals_required": 0})
    with refused("RY403", OWN):
        override(admin, job["id"] if of == "the plan" else apply_of(world, job), base)


def test_a_review_of_a_pull_request_that_was_given_before_an_override_ends(world: World, org: Organization) -> None:
    base = attach(org, "", "base", "overridable")
    site = open_site(world, org)
    org.owner.call("update_module", p_module=org.modules["net/vpc"], p_spec={"approvals_required": 1})
    first_reading(site)
    announce(site, 5)
    (job,) = merged(site, 5, dns="d1", vpc="v2")
    check(site[2], job, base="failed")
    site[2].finish(job, p_plan_summary=CHANGES)
    approve(org.member("operator"), job["id"])
    query = "select count(*) from public.approvals where job_id = %s"
    assert world.owner.one(query, job["id"]) == 1
    override(org.owner, job["id"], base)
    assert world.owner.one(query, job["id"]) == 0
