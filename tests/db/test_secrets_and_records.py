"""Records of secrets, cloud identities and cloud-hosted runners are made or checked in the database for every caller."""

from typing import Any

import pytest

from tests.db.world import ROLE, TOKEN_HASH, Organization, World, refused

BODY = "a" * 53
COSTS = ["04", "07", "13", "16", "31", "99"]


@pytest.mark.parametrize("cost", COSTS)
def test_a_hash_that_would_cost_too_little_or_too_much_is_refused(org: Organization, cost: str) -> None:
    spec = {"name": f"sa-{cost}"}
    hashed = f"$2b${cost}${BODY}"
    runner = org.worker("r1")
    for call in (
        lambda: org.owner.call("register_worker", p_org=org.id, p_name="r2", p_token_hash=hashed, p_token_hint="abcd"),
        lambda: org.owner.call("rotate_worker_token", p_worker=runner, p_token_hash=hashed, p_token_hint="abcd"),
        lambda: org.owner.call(
            "create_service_account", p_org=org.id, p_spec=spec, p_secret_hash=hashed, p_secret_hint="abcd"
        ),
    ):
        with refused("RY422", "must come as a bcrypt hash of cost 8 to 12"):
            call()


@pytest.mark.parametrize("cost", ["04", "31"])
def test_hashes_of_shared_runners_and_in_tables_are_checked_too(world: World, org: Organization, cost: str) -> None:
    with refused("RY422", "must come as a bcrypt hash of cost 8 to 12"):
        world.service.call(
            "ensure_shared_worker", p_name="s", p_token_hash=f"$2b${cost}${BODY}", p_token_hint="abcd", p_options={}
        )
    for table in ("private.worker_tokens", "private.service_account_secrets"):
        check = "select string_agg(pg_get_constraintdef(oid), ' ') from pg_constraint where conrelid = %s::regclass and contype = 'c'"
        assert "is_bcrypt_hash" in world.owner.one(check, table)


@pytest.mark.parametrize("cost", ["08", "10", "12"])
def test_usual_costs_are_accepted(org: Organization, cost: str) -> None:
    made = org.owner.call(
        "register_worker", p_org=org.id, p_name="r1", p_token_hash=f"$2y${cost}${BODY}", p_token_hint="abcd"
    )
    assert made["name"] == "r1"


SPEC: dict[str, Any] = {"name": "aws", "role_arn": ROLE, "regions": ["eu-west-1"]}


def test_an_external_id_is_made_here(org: Organization, other_org: Organization) -> None:
    mine = org.owner.call("create_cloud_identity", p_org=org.id, p_spec=SPEC)
    with refused("RY422", "Unknown option: external_id."):
        other_org.owner.call(
            "create_cloud_identity", p_org=other_org.id, p_spec={**SPEC, "external_id": mine["external_id"]}
        )
    theirs = other_org.owner.call("create_cloud_identity", p_org=other_org.id, p_spec=SPEC)
    with refused("RY422", "Unknown option: external_id."):
        other_org.owner.call(
            "update_cloud_identity", p_identity=theirs["id"], p_spec={"external_id": mine["external_id"]}
        )
    assert len({mine["external_id"], theirs["external_id"]}) == 2
    assert len(mine["external_id"]) >= 32


def test_an_external_id_is_unique_and_stays(world: World, org: Organization) -> None:
    identity = org.owner.call("create_cloud_identity", p_org=org.id, p_spec=SPEC)
    second = org.owner.call("create_cloud_identity", p_org=org.id, p_spec={**SPEC, "name": "aws 2"})
    with refused("23505"):
        world.owner.connection.execute(
            "update public.cloud_identities set external_id = %s where id = %s",
            [identity["external_id"], second["id"]],
        )
    changed = org.owner.call("update_cloud_identity", p_identity=identity["id"], p_spec={"name": "other"})
    assert changed["external_id"] == identity["external_id"]


def test_removing_a_cloud_hosted_runner_requires_its_removal_from_the_cloud_first(
    world: World, org: Organization
) -> None:
    identity = org.cloud_identity()
    made = org.owner.call(
        "deploy_worker", p_org=org.id, p_name="c1", p_cloud_identity=identity, p_region="eu-west-1", p_options={}
    )
    worker = made["worker"]["id"]
    with refused("RY409", '"c1" runs in your cloud, and would keep running there.') as caught:
        org.owner.call("remove_worker", p_worker=worker)
    assert "remove_cloud_worker" in str(caught.value.diag.message_hint)
    assert world.worker_row(worker)["removed_at"] is None
    self_hosted = org.owner.call(
        "register_worker", p_org=org.id, p_name="r1", p_token_hash=TOKEN_HASH, p_token_hint="abcd"
    )
    assert org.owner.call("remove_worker", p_worker=self_hosted["id"])["removed_at"]
