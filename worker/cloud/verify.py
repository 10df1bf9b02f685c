"""Testing a cloud identity: the calls that a deployment begins with, in each of its regions, changing nothing."""

import asyncio
from typing import Any

from worker.attempt.workspace import Step, Workspace
from worker.cloud.lifecycle import call
from worker.cloud.session import Cloud, open_cloud
from worker.cloud.target import CLUSTER, Network, Target
from worker.enums import JobPhase
from worker.errors import JobFailed


def targets(payload: dict[str, Any], url: str) -> list[Target]:
    """Read what to try: the identity in each of its regions, with no runner yet."""
    spec = payload.get("lifecycle") or {}
    identity = spec.get("identity") or {}
    try:
        return [_target(identity, str(region), url) for region in spec["regions"]]
    except KeyError as missing:
        raise JobFailed(f"The job's payload has no {missing.args[0]}.", code="cloud_payload") from missing


def _target(identity: dict[str, Any], region: str, url: str) -> Target:
    return Target(
        worker_id=str(identity["id"]),
        worker_name=str(identity["name"]),
        region=region,
        account_id=str(identity["account_id"]),
        role_arn=str(identity["role_arn"]),
        external_id=str(identity["external_id"]),
        url=url,
        image="",
        version="",
        network=Network.of(identity),
    )


def check_ecs(cloud: Cloud) -> None:
    """Make the calls that read: the cluster, and the network that was named."""
    cloud.client("ecs").describe_clusters(clusters=[CLUSTER])
    cloud.say(f"{cloud.target.region}: ECS answers")


def check_network(cloud: Cloud) -> None:
    """Check that the subnets and security groups exist; where none are named, that networks can be read."""
    ec2, network = cloud.client("ec2"), cloud.target.network
    if network.is_own:
        ec2.describe_vpcs(MaxResults=5)
        cloud.say(f"{cloud.target.region}: networks can be read; a small one is made for each runner")
        return
    ec2.describe_subnets(SubnetIds=list(network.subnets))
    if network.security_groups:
        ec2.describe_security_groups(GroupIds=list(network.security_groups))
    cloud.say(f"{cloud.target.region}: {len(network.subnets)} subnet(s) found")


def verify_recipe() -> list[Step]:
    """List the steps of a test; the first that fails shows what is missing."""
    clouds: list[Cloud] = []

    async def assume(space: Workspace) -> None:
        wanted = targets(space.job.payload, space.context.settings.server.url)
        clouds.extend([await asyncio.to_thread(open_cloud, target, space.say) for target in wanted])

    async def services(_: Workspace) -> None:
        for cloud in clouds:
            await call(f"ECS cannot be read in {cloud.target.region}", check_ecs, cloud)

    async def network(_: Workspace) -> None:
        for cloud in clouds:
            await call(f"The network cannot be used in {cloud.target.region}", check_network, cloud)

    return [
        Step("identity", "Assume the role", JobPhase.PREPARE, assume),
        Step("services", "Container service", JobPhase.INIT, services),
        Step("network", "Network", JobPhase.INIT, network),
    ]
