"""Nobody gives, takes over or starts what their own verbs do not reach: not through a role, an account, a schedule, a plan or a set."""

from typing import Any

import pytest

from tests.db.test_cascades import start_cascades
from tests.db.test_dependencies import applied, depend
from tests.db.test_personal_tokens import acting, make
from tests.db.test_rights import grant, run
from tests.db.world import TOKEN_HASH, Caller, Organization, User, World, refused, sha256


def holder(org: Organization, path: str, *verbs: str) -> User:
    """A viewer with an own role of these verbs at a path."""
    name = verbs[0].replace(".", "-")
    org.owner.call("set_role", p_org=org.id, p_name=name, p_verbs="{" + ",".join(verbs) + "}")
    made = org.member("viewer")
    grant(org, name, path, made)
    return made


def planned(org: Organization, asked: Any) -> None:
    """A runner finishes that plan with changes."""
    runner = org.runner(f"r{asked['id']}", is_assigned_to_all_modules=True)
    job = runner.claim_one()
    assert job["id"] == asked["id"]
    runner.finish(job, p_result={"plan_sha256": "0" * 64}, p_plan_summary={"has_changes": True, "add": 1})


def followers(org: Organization, plan: Any) -> list[Any]:
    query = "select status from public.provision_jobs where plan_job_id = %s"
    return org.world.owner.rows(query, plan["id"])


@pytest.fixture
def auto(org: Organization) -> Organization:
    """An organisation with a module whose plans are applied automatically, and one elsewhere."""
    org.module("a/auto", auto_apply=True)
    org.module("b/x")
    return org


def test_who_manages_members_gives_no_role_with_more_than_their_own_verbs(org: Organization) -> None:
    manager, other = holder(org, "", "member.manage"), org.member("operator")
    for person, role in ((manager, "admin"), (manager, "operator"), (other, "viewer")):
        with refused("RY403", "in the whole organisation; your role is viewer."):
            manager.call("set_member_role", p_org=org.id, p_user=person.id, p_role=role)
    invitation = {"p_org": org.id, "p_email": "x@example.org", "p_token_hash": sha256("s")}
    for role in ("owner", "admin", "operator"):
        with refused("RY403"):
            manager.call("invite_member", p_role=role, **invitation)
    assert manager.call("invite_member", p_role="viewer", **invitation)["role"] == "viewer"
    manager.call("set_member_role", p_org=org.id, p_user=org.member("viewer").id, p_role="guest")


def test_who_manages_accounts_takes_over_none_that_does_more(org: Organization) -> None:
    manager, admin, bound = holder(org, "", "account.manage"), org.account("admin"), org.account()
    weak = org.account("viewer")
    org.module("a/x")
    given = {"p_path": "a", "p_role": "operator", "p_kind": "account", "p_subject": bound["id"]}
    org.owner.call("grant_role", p_org=org.id, **given)
    secret = {"p_secret_hash": TOKEN_HASH, "p_secret_hint": "abcd"}
    for account in (admin, bound):
        for function, more in (("rotate_service_account_secret", secret), ("update_service_account", {"p_spec": {}})):
            with refused("RY403", "You need "):
                manager.call(function, p_account=account["id"], **more)
    with refused("RY403"):
        manager.call("create_service_account", p_org=org.id, p_spec={"name": "n", "role": "operator"}, **secret)
    with refused("RY403"):
        manager.call("update_service_account", p_account=weak["id"], p_spec={"role": "admin"})
    manager.call("create_service_account", p_org=org.id, p_spec={"name": "n", "role": "viewer"}, **secret)
    manager.call("rotate_service_account_secret", p_account=weak["id"], **secret)


@pytest.mark.parametrize(("kind", "needs"), [("DRIFT", "job.plan"), ("PLAN", "job.apply"), ("APPLY", "job.apply")])
def test_a_schedule_does_nothing_that_its_maker_may_not_do(auto: Organization, kind: str, needs: str) -> None:
    spec = {"path": "a/auto", "type": kind, "cron": "0 2 * * *"}
    with refused("RY403", f"You need {needs} at a/auto"):
        holder(auto, "a", "schedule.write").call("create_schedule", p_org=auto.id, p_spec=spec)
    holder(auto, "a", "schedule.write", needs).call("create_schedule", p_org=auto.id, p_spec=spec)


def planners(org: Organization) -> list[Caller]:
    """Somebody who may plan only, and a program of an operator whose token may plan only."""
    planner, operator = org.member("viewer"), org.member("operator")
    grant(org, "planner", "a", planner)
    make(operator, f"of {operator.id}", p_role="planner", p_path="a")
    return [planner, acting(org.world, f"of {operator.id}")]


def test_the_plan_of_a_planner_is_applied_by_no_auto_apply(auto: Organization) -> None:
    for planner in planners(auto):
        plan = run(planner, auto, "a/auto")
        planned(auto, plan)
        assert followers(auto, plan) == []
    plan = run(auto.member("operator"), auto, "a/auto")
    planned(auto, plan)
    assert followers(auto, plan) == ["QUEUED"], "an operator's plan is applied, as before"


def test_a_set_and_a_retry_of_a_planner_are_applied_by_no_auto_apply(auto: Organization) -> None:
    for planner in planners(auto):
        planner.call("start_set", p_org=auto.id, p_type="PLAN", p_path="a")
        newest = "select id from public.provision_jobs where org_id = %s order by id desc limit 1"
        plan = {"id": auto.world.owner.one(newest, auto.id)}
        planned(auto, plan)
        assert followers(auto, plan) == []
        failed = run(auto.owner, auto, "a/auto")
        auto.owner.call("cancel_job", p_job=failed["id"])
        again = planner.call("retry_job", p_job=failed["id"])
        planned(auto, again)
        assert followers(auto, again) == []


def test_who_may_not_apply_makes_nothing_apply_automatically(auto: Organization) -> None:
    writer = holder(auto, "b", "module.write", "group.write")
    module = auto.modules["b/x"]
    auto.owner.call("set_module_git", p_module=module, p_spec={})
    for function, given in (
        ("update_module", {"p_module": module, "p_spec": {"auto_apply": True}}),
        ("create_module", {"p_org": auto.id, "p_group_path": "b", "p_name": "y", "p_spec": {"auto_apply": True}}),
        ("set_module_git", {"p_module": module, "p_spec": {"apply": "after_merge"}}),
        ("upsert_group", {"p_org": auto.id, "p_path": "b", "p_git_apply": "after_merge"}),
    ):
        with refused("RY403", "You need job.apply at b"):
            writer.call(function, **given)
    writer.call("update_module", p_module=module, p_spec={"description": "x"})
    writer.call("set_module_git", p_module=module, p_spec={"is_on": False})
    writer.call("upsert_group", p_org=auto.id, p_path="b", p_description="x")


def test_a_cascade_is_decided_about_where_its_modules_are(world: World, org: Organization) -> None:
    """Its set is at the producer's path, and its jobs are in the groups of the consumers."""
    org.module("net/vpc")
    org.module("apps/site")
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=50)
    applied(org, runner, "net/vpc", 1, id="vpc-1")
    depend(org, "apps/site", "net/vpc", bindings={"vpc_id": "id"}, cascades="on_change")
    applied(org, runner, "apps/site")
    applied(org, runner, "net/vpc", 2, id="vpc-2")
    start_cascades(world)
    [made] = org.owner.call("list_sets", p_org=org.id)
    producer, consumer = org.member("viewer"), org.member("viewer")
    grant(org, "operator", "net", producer)
    grant(org, "operator", "apps", consumer)
    for function in ("cancel_set", "retry_set", "confirm_set"):
        with refused("RY403", "at apps/site; your role is viewer."):
            producer.call(function, p_set=made["id"])
    assert consumer.call("cancel_set", p_set=made["id"])["id"] == made["id"]
