"""Testing a cloud identity against an AWS API: the calls that a deployment begins with, and nothing made."""

from typing import Any

import boto3
import pytest

from tests.integration.cloud.account import listing
from worker.cloud.lifecycle import call, check_ecs, check_network, targets
from worker.cloud.session import open_cloud
from worker.errors import JobFailed

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("aws")]
REGIONS = ["eu-west-1", "us-east-1"]


def payload(**identity: Any) -> dict[str, Any]:
    whole = {
        "id": "6f1c2a52-6a3e-4f0e-9d0a-0c8b8d4c8f10",
        "name": "aws",
        "account_id": "123456789012",
        "role_arn": "arn:aws:iam::123456789012:role/runyard-deployer",
        "external_id": "external",
        "network": {"create_vpc": True},
        **identity,
    }
    return {"lifecycle": {"regions": REGIONS, "identity": whole}}


async def verify(given: dict[str, Any]) -> list[str]:
    """Do what the job does, region by region."""
    lines: list[str] = []
    for target in targets(given, "http://127.0.0.1"):
        cloud = open_cloud(target, lines.append)
        await call("ECS cannot be read", check_ecs, cloud)
        await call(f"The network cannot be used in {target.region}", check_network, cloud)
    return lines


async def test_every_region_is_tried_and_nothing_is_made() -> None:
    before = [listing(region) for region in REGIONS]
    lines = await verify(payload())
    for region in REGIONS:
        assert f"Using AWS account 123456789012 in {region}" in lines
        assert any(line.startswith(f"{region}: networks can be read") for line in lines)
    assert [listing(region) for region in REGIONS] == before


async def test_named_subnets_must_exist_in_every_region() -> None:
    ec2 = boto3.client("ec2", region_name="eu-west-1")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.1.1.0/24")["Subnet"]["SubnetId"]
    with pytest.raises(JobFailed, match=rf"cannot be used in us-east-1: .*{subnet}"):
        await verify(payload(network={"subnets": [subnet]}))


async def test_another_account_is_refused_with_a_code_that_the_database_knows() -> None:
    with pytest.raises(JobFailed, match="999999999999") as failure:
        await verify(payload(account_id="999999999999"))
    assert failure.value.code == "cloud_account"


async def test_a_role_that_cannot_be_assumed_fails_with_a_hint_at_its_trust_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(JobFailed, match="role/runyard-deployer could not be used") as failure:
        await verify(payload())
    assert failure.value.code == "cloud_identity"
    assert "trust policy" in failure.value.hint


def test_a_payload_without_regions_fails_and_names_them() -> None:
    with pytest.raises(JobFailed, match="regions"):
        targets({"lifecycle": {"identity": {}}}, "")
