"""Runs as terminals see them: what a plan or an apply waits for, and logs that only grow."""

import base64
from typing import Any

import pytest

from tests.db.test_policies import CHANGES, apply_of, approve, attach, check, override, plan
from tests.db.world import Organization, Runner, World, refused


@pytest.fixture
def org(world: World) -> Organization:
    return world.organization()


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r", is_assigned_to_all_modules=True)


def log(who: Any, plan_id: int, is_apply: bool = True) -> str:
    args = {"p_is_apply": is_apply, "p_url": "https://runyard.example", "p_offset": 0, "p_limit": 65536}
    return base64.b64decode(who.call("terminal_log", p_run=plan_id, **args)).decode()


def test_an_apply_s_log_keeps_approvals_that_an_override_ended(world: World, org: Organization, runner: Runner) -> None:
    org.module("a/b", approvals_required=2)
    policy = attach(org, "a/b", "cost", "overridable")
    people = [org.member(role) for role in ("operator", "admin", "admin")]
    made = plan(org, runner, people[0], cost="failed")
    job = apply_of(world, made)
    said = [log(org.owner, made["id"])]

    def grows(words: str) -> None:
        said.append(log(org.owner, made["id"]))
        assert said[-1].startswith(said[-2])
        assert words in said[-1].removeprefix(said[-2])

    assert "Needs an override of a policy check: open https://runyard.example/o/" in said[0]
    assert "Needs 2 more approvals: open" in said[0]
    approve(people[1], job)
    grows("Needs 1 more approval: open")
    override(people[2], job, policy)
    grows("Overridden by")
    approve(people[1], job)
    grows("Needs 1 more approval: open")
    approve(people[2], job)
    grows("Approved by")
    assert "Needs" not in said[-1].removeprefix(said[-2])


def test_a_plan_that_waits_for_an_override_names_its_check(world: World, org: Organization, runner: Runner) -> None:
    org.module("a/b")
    policy = attach(org, "a/b", "cost", "overridable")
    org.owner.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=org.modules["a/b"])
    made = runner.claim_one()
    check(runner, made, cost="failed")
    runner.finish(made, p_plan_summary=CHANGES)
    [found] = org.owner.call("terminal_run", p_run=made["id"])["checks"]
    assert (found["name"], found["text"], found["overridden_by"]) == ("cost", "no cost tag", None)
    assert "cannot be applied here" not in log(org.owner, made["id"], is_apply=False)
    override(org.owner, made["id"], policy)
    seen = org.owner.call("terminal_run", p_run=made["id"])
    assert (seen["checks"][0]["reason"], seen["problem"]) == ("known", None)


def test_a_workspace_is_found_by_the_first_digits_of_its_id(org: Organization) -> None:
    org.module("a/b")
    org.module("a/c")
    digits = str(org.modules["a/b"]).replace("-", "")
    for known in (digits, digits[:16]):
        found = org.owner.call("terminal_workspaces", p_slug=None, p_module=known)
        assert [each["path"] for each in found["workspaces"]] == ["a/b"]
    with refused("RY404", ""):
        org.world.user().call("terminal_workspaces", p_slug=None, p_module=digits[:16])
