"""An apply plans those that depend on its outputs: once, in one set that names it, and only where it is wanted."""

from typing import Any

import pytest

from tests.db.test_dependencies import applied, depend, listed, state
from tests.db.world import Organization, Runner, World, this


@pytest.fixture
def runner(org: Organization) -> Runner:
    """A runner, and two modules of which the second uses an output of the first and was applied with it."""
    org.module("net/vpc")
    org.module("apps/site")
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=50)
    applied(org, runner, "net/vpc", 1, id="vpc-1")
    depend(org, "apps/site", "net/vpc", bindings={"vpc_id": "id"})
    applied(org, runner, "apps/site")
    return runner


def start_cascades(world: World) -> None:
    """Skip the seconds that a cascade waits for other applies, and sweep."""
    world.owner.connection.execute("update public.job_sets set starts_at = now() where starts_at is not null")
    world.sweep()


def sets(org: Organization) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = org.owner.call("list_sets", p_org=org.id)
    return found


def test_an_apply_plans_nothing_where_no_cascade_is_set(org: Organization, runner: Runner) -> None:
    applied(org, runner, "net/vpc", 2, id="vpc-2")
    assert (sets(org), runner.claim(9)) == ([], [])


def test_changed_output_plans_its_consumers_and_names_the_apply(
    world: World, org: Organization, runner: Runner
) -> None:
    depend(org, "apps/site", "net/vpc", cascades="on_change")
    applied(org, runner, "net/vpc", 2, id="vpc-1")
    assert sets(org) == [], "the output is the same"
    cause = applied(org, runner, "net/vpc", 3, id="vpc-2")
    [made] = sets(org)
    assert (made["cause_job_id"], made["type"], made["total"]) == (cause, "PLAN", 1)
    world.sweep()
    assert runner.claim(9) == [], "it waits for applies that follow at once"
    start_cascades(world)
    plan = runner.claim_one()
    assert (plan["module_path"], world.job(plan["id"])["message"]) == (
        "apps/site",
        f"After job {world.job(cause)['number']} of net/vpc.",
    )
    runner.call("worker_bound_values", **this(plan))
    runner.finish(plan, p_plan_summary={"has_changes": True})
    [waiting] = world.owner.rows(
        "select status from public.provision_jobs where plan_job_id = %s and type = 'APPLY'", plan["id"]
    )
    assert waiting == "AWAITING_APPROVAL"


def test_a_consumer_with_auto_apply_is_applied_and_cascades_further(
    world: World, org: Organization, runner: Runner
) -> None:
    org.owner.call("update_module", p_module=org.modules["apps/site"], p_spec={"auto_apply": True})
    org.module("apps/dns")
    depend(org, "apps/site", "net/vpc", cascades="on_change")
    depend(org, "apps/dns", "apps/site", cascades="always")
    applied(org, runner, "net/vpc", 2, id="vpc-2")
    start_cascades(world)
    plan = runner.claim_one()
    runner.call("worker_bound_values", **this(plan))
    runner.finish(plan, p_plan_summary={"has_changes": True})
    apply = runner.claim_one()
    runner.finish(apply)
    assert [module["changed_inputs"] for module in listed(org)["modules"]] == [[], [], []]
    assert {made["cause_job_id"] for made in sets(org)} >= {apply["id"]}
    start_cascades(world)
    assert runner.claim_one()["module_path"] == "apps/dns"


def test_consumer_that_waits_to_be_planned_is_not_planned_twice(org: Organization, runner: Runner) -> None:
    depend(org, "apps/site", "net/vpc", cascades="always")
    org.owner.call("update_module", p_module=org.modules["apps/site"], p_spec={"labels": ["gpu"]})
    applied(org, runner, "net/vpc", 2, id="vpc-2")
    applied(org, runner, "net/vpc", 3, id="vpc-3")
    assert [made["total"] for made in sets(org)] == [1]


def test_applies_that_follow_at_once_plan_a_shared_consumer_once_and_do_not_prolong_its_wait(
    world: World, org: Organization, runner: Runner
) -> None:
    org.module("net/dns")
    org.module("apps/mail")
    for consumer, producer in (("apps/site", "net/vpc"), ("apps/site", "net/dns"), ("apps/mail", "net/dns")):
        depend(org, consumer, producer, cascades="always")
    applied(org, runner, "net/vpc", 2, id="vpc-2")
    starts = "select starts_at from public.job_sets order by created_at limit 1"
    first = world.owner.one(starts)
    applied(org, runner, "net/dns")
    assert world.owner.one(starts) == first
    start_cascades(world)
    assert sorted(job["module_path"] for job in runner.claim(9)) == ["apps/mail", "apps/site"]


def test_set_that_applies_both_plans_neither_again(org: Organization, runner: Runner) -> None:
    depend(org, "apps/site", "net/vpc", cascades="always")
    org.owner.call("start_set", p_org=org.id, p_type="APPLY", p_path="")
    vpc = runner.claim_one()
    runner.call("worker_state_put", **this(vpc), p_body=state(2, id="vpc-2"))
    runner.finish(vpc)
    site = runner.claim_one()
    assert (site["module_path"], site["type"]) == ("apps/site", "APPLY")
    assert [made["type"] for made in sets(org)] == ["APPLY"]


def test_too_many_consumers_are_refused_in_words(world: World, org: Organization, runner: Runner) -> None:
    paths = [f"many/m{number}" for number in range(501)]
    for path in paths:
        org.module(path)
    edges = [{"consumer": path, "producer": "net/vpc", "cascades": "always"} for path in paths]
    org.owner.call("replace_dependencies", p_org=org.id, p_path="many", p_dependencies=edges)
    job = applied(org, runner, "net/vpc", 2, id="vpc-2")
    assert sets(org) == []
    why = "select reason from public.job_events where job_id = %s and event = 'cascade_refused'"
    assert "501 modules depend on its outputs" in world.owner.one(why, job)


def test_cascade_does_not_keep_people_from_planning_the_same_path(org: Organization, runner: Runner) -> None:
    depend(org, "apps/site", "net/vpc", cascades="always")
    applied(org, runner, "net/vpc", 2, id="vpc-2")
    assert sets(org)[0]["status"] == "RUNNING"
    made = org.owner.call("start_set", p_org=org.id, p_type="PLAN", p_path="net/vpc")
    assert (made["total"], made["cause_job_id"]) == (1, None)
