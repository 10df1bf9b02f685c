"""Lifecycle jobs as the steps of an ordinary job: same log, same cancel checks, same report."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from worker.attempt.workspace import Step, Workspace
from worker.cloud.lifecycle import DEPLOY, REMOVE, UPDATE, LifecycleStep, Progress, begin, call
from worker.cloud.session import Cloud, open_cloud
from worker.cloud.target_store import CLUSTER, POLL_SECONDS, ServerTargetStore, Target
from worker.enums import JobPhase, JobType
from worker.errors import JobFailed


def targets(payload: dict[str, Any], url: str) -> list[Target]:
    """Read what to try: the identity in each of its regions, with no runner yet."""
    spec = payload.get("lifecycle") or {}
    if "regions" not in spec:
        raise JobFailed("The job's payload has no regions.", code="cloud_payload")
    whole = {**spec, "worker": spec.get("identity"), "version": ""}
    return [Target.from_payload({"lifecycle": {**whole, "region": each}}, url) for each in spec["regions"]]


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


_PARTS = {JobType.DEPLOY_WORKER: DEPLOY, JobType.UPDATE_WORKER: UPDATE, JobType.REMOVE_WORKER: REMOVE}


def lifecycle_recipe(kind: JobType) -> list[Step]:
    """List the steps of a lifecycle job; each can be done again, so none of them is a changing phase."""
    if kind is JobType.VERIFY_IDENTITY:
        return verify_recipe()
    session: list[Progress] = []

    async def open_session(space: Workspace) -> None:
        scaling = space.context.settings.scaling
        target = Target.from_payload(space.job.payload, space.context.settings.server.url, scaling.image_repository)
        store = ServerTargetStore(
            space.context.server,
            space.ref,
            space.log.redactor.add,
            scaling.start_patience_seconds,
            poll_seconds=min(POLL_SECONDS, scaling.poll_seconds),
        )
        session.append(await begin(target, store, space.say))

    opening = Step("identity", "Cloud identity", JobPhase.PREPARE, open_session)
    return [opening, *(_step(part, session) for part in _PARTS[kind])]


def _step(part: LifecycleStep, session: list[Progress]) -> Step:
    act: Callable[[Workspace], Awaitable[None]] = lambda _: part.act(session[0])  # noqa: E731 - closes over the part
    return Step(part.name, part.title, JobPhase.INIT, act)
