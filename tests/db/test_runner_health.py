"""A runner's health beyond its own report: a clock that is off, and slots that stay free while jobs wait."""

import pytest

from tests.db.test_lists import names, runners
from tests.db.world import Organization, Runner, World, refused


def test_a_wrong_clock_is_reported_with_its_difference(org: Organization) -> None:
    runner = org.runner("early")
    runner.heartbeat(p_facts={"clock_off": -41})
    (row,) = runners(org, p_filters={"health": ["clock_off"]})["rows"]
    assert (row["name"], row["health"], row["clock_off"]) == ("early", ["clock_off"], -41)
    runner.heartbeat(p_facts={"clock_off": None})
    (row,) = runners(org)["rows"]
    assert (row["health"], row["clock_off"]) == (["healthy"], None)
    for wrong in ("soon", {}, [1], 1.5, True, 10**10):
        with refused("RY422", "The runner's facts about its host"):
            runner.heartbeat(p_facts={"clock_off": wrong})


@pytest.mark.parametrize(("dispatcher", "health"), [("docker", "healthy"), ("local", "degraded")])
def test_a_runner_that_dispatches_needs_no_engine_of_its_own(org: Organization, dispatcher: str, health: str) -> None:
    runner = org.runner("bare")
    runner.heartbeat(p_facts={"dispatcher": dispatcher, "engines": {}, "engine_note": "no engine was found"})
    (row,) = runners(org)["rows"]
    assert row["health"] == [health]
    assert org.owner.call("runner_facets", p_org=org.id)["counts"]["health"] == {health: 1}


@pytest.fixture
def idle(world: World, org: Organization) -> Runner:
    """A runner that sends heartbeats and claims nothing, while a job that it may claim has waited for long."""
    runner = org.runner("idle", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    for statement in (
        "update public.provision_jobs set queued_at = now() - interval '3 minutes' where id = %s",
        "update public.worker_instances set connected_at = now() - interval '1 hour' where %s > 0",
    ):
        world.owner.connection.execute(statement, [job])
    return runner


def idlers(org: Organization) -> list[str]:
    return names(runners(org, p_filters={"health": ["takes_no_jobs"]}))


def test_a_runner_that_claims_none_of_its_waiting_jobs_is_reported(org: Organization, idle: Runner) -> None:
    assert idlers(org) == ["idle"]
    assert org.owner.call("runner_facets", p_org=org.id)["counts"]["health"] == {"takes_no_jobs": 1}
    job = idle.claim_one()
    assert idlers(org) == []
    idle.finish(job)
    assert names(runners(org, p_filters={"health": ["healthy"]})) == ["idle"]


@pytest.mark.parametrize(
    "excuse",
    [
        "update public.provision_jobs set queued_at = now()",
        "update public.worker_instances set connected_at = now()",
        "update public.workers set is_draining = true",
        "update public.workers set is_disabled = true",
        "update public.worker_instances set capacity = 0",
        "update private.heartbeats set last_seen_at = now() - interval '2 minutes'",
        "update private.lane_workers set instance_name = 'another'",
        """update public.worker_instances set facts = facts || '{"degraded": {"reason": "Full."}}'""",
        "delete from private.lane_workers",
    ],
)
def test_a_runner_with_a_reason_to_claim_none_is_not_reported(
    world: World, org: Organization, idle: Runner, excuse: str
) -> None:
    assert idlers(org) == ["idle"]
    world.owner.connection.execute(excuse)
    assert idlers(org) == []


def test_no_runner_is_reported_during_maintenance_or_after_a_claim(
    world: World, org: Organization, idle: Runner
) -> None:
    until = world.owner.one("select now() + interval '1 hour'")
    org.owner.call("set_maintenance", p_org=org.id, p_until=until, p_reason="The network moves.")
    assert idlers(org) == []
    org.owner.call("set_maintenance", p_org=org.id)
    assert idlers(org) == ["idle"]
    world.owner.connection.execute("update public.worker_instances set capacity = 2")
    org.enqueue("c/d")
    idle.claim_one()
    assert idlers(org) == []
