"""Updates by policy: when a window is open, and the rollout that starts automatically."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.db.world import Organization, World, refused


def window(world: World, policy: dict[str, Any], at: str) -> bool:
    whole = {"days": [6, 0], "begins_at": "02:00", "ends_at": "05:00", "zone": "UTC", **policy}
    query = "select private.is_in_window(jsonb_populate_record(null::public.update_policies, %s), %s::timestamptz)"
    return bool(world.owner.one(query, Jsonb(whole), at))


def test_a_window_is_open_between_its_hours_on_its_days(world: World) -> None:
    # 21 November 2026 is a Saturday.
    assert window(world, {}, "2026-11-21 02:00Z")
    assert not window(world, {}, "2026-11-21 05:00Z")
    assert not window(world, {}, "2026-11-20 03:00Z")
    assert window(world, {"zone": "Europe/Lisbon"}, "2026-07-18 01:30Z")
    night = {"days": [6], "begins_at": "22:00", "ends_at": "04:00"}
    assert window(world, night, "2026-11-22 03:00Z")
    assert not window(world, night, "2026-11-21 03:00Z")


def outdated_runner(world: World, org: Organization) -> None:
    identity = org.cloud_identity()
    org.owner.call("deploy_worker", p_org=org.id, p_name="c1", p_cloud_identity=identity, p_region="eu-west-1")
    world.owner.connection.execute("update public.workers set version = '1.0.0' where org_id = %s", [org.id])
    world.owner.connection.execute("delete from private.live_jobs where org_id = %s", [org.id])
    world.service.call("publish_release", p_spec={"version": "2.0.0"})


def sweep_updates(world: World) -> None:
    world.owner.connection.execute("delete from private.clocks")
    world.sweep()


def test_a_policy_starts_the_rollout_that_a_person_would_and_leaves_an_aborted_one_alone(fresh_world: World) -> None:
    world = fresh_world
    org = world.organization()
    outdated_runner(world, org)
    rollouts = "select status::text, is_by_policy, version from public.rollouts where org_id = %s"
    sweep_updates(world)
    assert world.owner.rows(rollouts, org.id) == [], "off until somebody says otherwise"
    shown = org.owner.call("set_update_policy", p_org=org.id, p_spec={"mode": "NOW"})
    assert (shown["outdated"], shown["version"], shown["is_open"]) == (1, "2.0.0", True)
    sweep_updates(world)
    assert world.owner.rows(rollouts, org.id) == [("RUNNING", True, "2.0.0")]
    asked = "select created_by_label from public.provision_jobs where org_id = %s and rollout_id is not null"
    assert world.owner.rows(asked, org.id) == ["update policy"]
    rollout = world.owner.one("select id from public.rollouts where org_id = %s", org.id)
    org.owner.call("abort_rollout", p_rollout=rollout)
    sweep_updates(world)
    assert world.owner.rows(rollouts, org.id) == [("ABORTED", True, "2.0.0")]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        *((spec, "The update policy is not valid.") for spec in [
            {"mode": "SOMETIMES"}, {"mode": None}, {"days": [7]}, {"days": []}, {"days": "x"}, {"days": [10**9]}, {"begins_at": "25:00"},
            {"begins_at": "x"}, {"ends_at": "02:00"},
        ]),
        ({"zone": "Nowhere"}, 'There is no time zone "Nowhere".'),
        ({"x": 1}, "Unknown option: x."),
    ],
)  # fmt: skip
def test_a_wrong_policy_is_refused(org: Organization, spec: dict[str, Any], words: str) -> None:
    with refused("RY422", words):
        org.owner.call("set_update_policy", p_org=org.id, p_spec=spec)
