"""Runs as terminals see them: what a plan or an apply waits for, and logs that only grow."""

import base64
from typing import Any

import pytest

from tests.db.test_policies import CHANGES, apply_of, approve, attach, check, override, plan
from tests.db.test_reading import guest
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


def test_a_guest_finds_the_workspaces_of_their_own_path(world: World, org: Organization) -> None:
    for path in ("a/b", "c/d"):
        org.group(path.partition("/")[0])
        org.module(path)
    reader, slug = guest(org, "a"), world.owner.one("select slug from public.organizations where id = %s", org.id)
    found = reader.call("terminal_workspaces", p_slug=slug)
    assert ([each["path"] for each in found["workspaces"]], found["total"]) == (["a/b"], 1)
    groups = reader.call("terminal_workspaces", p_slug=slug, p_path="")["groups"]
    assert [each["path"] for each in groups] == ["a"]
    with refused("RY404"):
        reader.call("terminal_workspaces", p_slug=None, p_module=str(org.modules["c/d"]).replace("-", "")[:16])


def test_a_log_leaves_out_what_came_too_late(org: Organization, runner: Runner) -> None:
    org.module("a/b")
    org.enqueue("a/b")
    made = runner.claim_one()
    runner.append(made, (1, "in time"))
    runner.finish(made, p_plan_summary=CHANGES)
    runner.append(made, (2, "too late"), is_late=True)
    text = log(org.owner, made["id"], is_apply=False)
    assert ("in time" in text, "too late" in text) == (True, False)


def test_a_lock_of_the_workspace_is_in_the_way_of_an_apply(org: Organization, runner: Runner) -> None:
    org.module("a/b")
    org.enqueue("a/b")
    made = runner.claim_one()
    runner.finish(made, p_plan_summary=CHANGES)
    assert org.owner.call("terminal_run", p_run=made["id"])["problem"] is None
    org.owner.call("lock_module", p_module=org.modules["a/b"], p_reason="a move")
    assert "locked" in org.owner.call("terminal_run", p_run=made["id"])["problem"]
