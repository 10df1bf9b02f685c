"""Testing a cloud identity is a job: queued, fenced, and its end shows whether the identity works."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.db.world import ROLE, Caller, Organization, Runner, World, refused
from tests.support.waiting import wait_until

Site = tuple[World, Organization, Runner, str]


@pytest.fixture
def site(fresh_world: World) -> Site:
    """An organisation with an identity that nobody has tried, and a runner that could try it."""
    org = fresh_world.organization()
    shared = fresh_world.connect_runner(fresh_world.shared_worker(capacity=20))
    return fresh_world, org, shared, org.cloud_identity(is_tested=False)


def state(org: Organization, identity: str) -> tuple[bool, str | None]:
    sql = "select {} from public.cloud_identities where id = %s"
    return (
        org.owner.one(sql.format("verified_at is not null"), identity),
        org.owner.one(sql.format("verification_error"), identity),
    )


def test_a_test_is_a_job_with_the_identity_frozen_and_its_success_verifies(site: Site) -> None:
    _, org, shared, aws = site
    asked = org.owner.call("verify_cloud_identity", p_identity=aws)
    job = shared.claim_one()
    spec = job["payload"]["lifecycle"]
    assert (job["type"], asked["job"]["id"], spec["regions"]) == (
        "VERIFY_IDENTITY",
        job["id"],
        ["eu-west-1", "us-east-1"],
    )
    assert (spec["identity"]["role_arn"], spec["identity"]["name"]) == (ROLE, "aws")
    assert state(org, aws) == (False, None)
    shared.finish(job)
    assert state(org, aws) == (True, None)


def test_a_second_request_returns_the_test_that_is_under_way(site: Site) -> None:
    _, org, shared, aws = site
    first = org.owner.call("verify_cloud_identity", p_identity=aws)["job"]["id"]
    assert org.owner.call("verify_cloud_identity", p_identity=aws)["job"]["id"] == first
    shared.finish(shared.claim_one())
    assert org.owner.call("verify_cloud_identity", p_identity=aws)["job"]["id"] != first


def test_a_failed_test_records_its_reason_and_a_later_success_clears_it(site: Site) -> None:
    _, org, shared, aws = site
    org.owner.call("verify_cloud_identity", p_identity=aws)
    shared.finish(shared.claim_one(), "FAILED", p_error={"code": "cloud_identity", "message": "The role refused us."})
    assert state(org, aws) == (False, "The role refused us.")
    org.owner.call("verify_cloud_identity", p_identity=aws)
    shared.finish(shared.claim_one())
    assert state(org, aws) == (True, None)


@pytest.mark.parametrize("change", [{"role_arn": ROLE + "-2"}, {"network": {"subnets": ["subnet-1"]}}])
def test_a_changed_identity_is_untested_and_an_old_test_cannot_vouch_for_it(site: Site, change: dict[str, Any]) -> None:
    _, org, shared, aws = site
    org.owner.call("verify_cloud_identity", p_identity=aws)
    job = shared.claim_one()
    org.owner.call("update_cloud_identity", p_identity=aws, p_spec=change)
    shared.finish(job)
    assert state(org, aws) == (False, None)


def deploy(org: Organization, aws: str, by: Caller | None = None) -> None:
    (by or org.owner).call(
        "deploy_worker", p_org=org.id, p_name="x", p_cloud_identity=aws, p_region="eu-west-1", p_options={}
    )


def test_a_test_and_a_deployment_at_once_do_not_wait_for_each_other_for_ever(site: Site) -> None:
    world, org, _, aws = site
    try_it(site)
    admin = org.member("admin")
    with ThreadPoolExecutor(1) as pool:
        with org.owner.connection.transaction():
            org.owner.call("update_cloud_identity", p_identity=aws, p_spec={"name": "renamed"})
            deployed = pool.submit(deploy, org, aws, admin)
            wait_until(world.is_anybody_waiting)
            org.owner.call("verify_cloud_identity", p_identity=aws)
        deployed.result()


def test_nothing_is_deployed_with_an_identity_that_was_removed_meanwhile(site: Site) -> None:
    world, org, _, aws = site
    try_it(site)
    admin = org.member("admin")
    late = world.during(
        org.owner,
        lambda: org.owner.call("remove_cloud_identity", p_identity=aws),
        lambda: deploy(org, aws, admin),
    )
    with refused("RY404", "There is no such cloud identity"):
        late.result()


def try_it(site: Site, status: str = "SUCCEEDED", **more: Any) -> None:
    _, org, shared, aws = site
    org.owner.call("verify_cloud_identity", p_identity=aws)
    shared.finish(shared.claim_one(), status, **more)


def test_a_deployment_that_failed_for_another_reason_does_not_change_the_verdict_on_the_role(site: Site) -> None:
    _, org, shared, aws = site
    try_it(site)
    deploy(org, aws)
    shared.finish(shared.claim_one(), "FAILED", p_error={"code": "cloud_no_heartbeat", "message": "No heartbeat came."})
    assert state(org, aws) == (True, None)


def test_nothing_is_deployed_with_an_identity_that_nobody_has_tried(site: Site) -> None:
    _, org, _, aws = site
    with refused("RY409") as refusal:
        deploy(org, aws)
    assert refusal.value.diag.message_primary == '"aws" has not been tested since it was created or changed.'
    assert "Test the connection" in (refusal.value.diag.message_hint or "")
    try_it(site)
    deploy(org, aws)


def test_nothing_is_deployed_with_an_identity_whose_last_test_failed(site: Site) -> None:
    _, org, _, aws = site
    try_it(site)
    try_it(site, "FAILED", p_error={"code": "cloud_identity", "message": "The role refused us."})
    with refused("RY409") as refusal:
        deploy(org, aws)
    assert refusal.value.diag.message_primary == 'The last test of "aws" failed: The role refused us.'
    try_it(site)
    deploy(org, aws)


def test_a_changed_identity_has_to_be_tried_again_before_it_deploys(site: Site) -> None:
    _, org, _, aws = site
    try_it(site)
    org.owner.call("update_cloud_identity", p_identity=aws, p_spec={"regions": ["eu-west-1"]})
    with refused("RY409"):
        deploy(org, aws)


def test_only_admins_test_and_retry_identities(site: Site) -> None:
    world, org, shared, aws = site
    for role in ("operator", "viewer"):
        with refused("RY403"):
            org.member(role).call("verify_cloud_identity", p_identity=aws)
    with refused("RY404", "There is no such cloud identity."):
        world.organization().owner.call("verify_cloud_identity", p_identity=aws)
    job = org.owner.call("verify_cloud_identity", p_identity=aws)["job"]["id"]
    shared.finish(shared.claim_one(), "FAILED", p_error={"code": "cloud_identity", "message": "no"})
    with refused("RY403"):
        org.member("operator").call("retry_job", p_job=job)
    assert org.owner.call("retry_job", p_job=job)["target_identity_id"] == aws


def test_a_failed_update_ends_its_own_draining_but_not_that_of_a_person(site: Site) -> None:
    world, org, shared, aws = site
    try_it(site)
    made = org.owner.call(
        "deploy_worker", p_org=org.id, p_name="x", p_cloud_identity=aws, p_region="eu-west-1", p_options={}
    )["worker"]["id"]
    shared.finish(shared.claim_one())
    world.service.call("publish_release", p_spec={"version": "9.9.9"})
    for reason, is_draining in (("Update to 9.9.9", False), ("Maintenance", True)):
        org.owner.call("update_one_worker", p_worker=made)
        job = shared.claim_one()
        patch = {"is_draining": True, "drain_reason": reason}
        shared.call("worker_target_update", p_job=job["id"], p_attempt=1, p_patch=patch)
        shared.finish(job, "FAILED", p_error={"code": "cloud_ServerException", "message": "AWS said no."})
        assert world.worker_row(made)["is_draining"] is is_draining
