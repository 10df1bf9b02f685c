"""Deploying, updating and removing a runner: each a list of steps that can be run again from the start."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from worker.attempt.workspace import Step, Workspace
from worker.cloud import access, service
from worker.cloud.session import NO_RIGHTS, Cloud, open_cloud, refused
from worker.cloud.target_store import CLUSTER, POLL_SECONDS, ServerTargetStore, Target
from worker.enums import JobPhase, JobType
from worker.errors import JobFailed, RunnerUnfit


@dataclass(slots=True)
class Progress:
    """The cloud, the store, and the facts that earlier steps found for later ones."""

    cloud: Cloud
    store: ServerTargetStore
    found: dict[str, Any] = field(default_factory=dict)


Act = Callable[[Progress], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class LifecycleStep:
    """One section of the job's log."""

    name: str
    title: str
    act: Act


async def begin(target: Target, store: ServerTargetStore, say: Callable[[str], None]) -> Progress:
    """Open the cloud session in a thread and hand it to the steps; without the rights to, another runner may have them."""
    try:
        return Progress(await asyncio.to_thread(open_cloud, target, say), store)
    except JobFailed as problem:
        if problem.code != NO_RIGHTS:
            raise
        raise RunnerUnfit(problem.message, code="rights", hint=problem.hint) from problem


async def call(what: str, act: Callable[..., Any], *arguments: Any) -> Any:
    """Run one AWS call in a thread; its refusal becomes a job error."""
    try:
        return await asyncio.to_thread(act, *arguments)
    except (BotoCoreError, ClientError) as problem:
        raise refused(what, problem) from problem


def _calling(problem: str, act: Callable[[Cloud], Any], fact: str = "") -> Act:
    """Make a step of one AWS call, whose answer later steps find under this name."""

    async def run(progress: Progress) -> None:
        progress.found[fact] = await call(problem, act, progress.cloud)

    return run


async def _secret(progress: Progress) -> None:
    # A second try makes a new token: the first one's plaintext was only ever in that process.
    token = await progress.store.register_token()
    arn = await call("The token could not be put into a secret", access.ensure_secret, progress.cloud, token)
    progress.found["secret_arn"] = arn


async def _roles(progress: Progress) -> None:
    cloud, found = progress.cloud, progress.found
    found["execution_role_arn"] = await call(
        "The execution role could not be made", access.ensure_execution_role, cloud, found["secret_arn"]
    )
    found["task_role_arn"] = await call("The task role could not be made", access.ensure_task_role, cloud)


async def _task(progress: Progress) -> None:
    found = progress.found
    found["task_definition_arn"] = await call(
        "The task definition could not be registered",
        service.register_task,
        progress.cloud,
        found["execution_role_arn"],
        found["task_role_arn"],
        found["secret_arn"],
    )


async def _service(progress: Progress) -> None:
    found = progress.found
    found["service_arn"] = await call(
        "The service could not be made",
        service.ensure_service,
        progress.cloud,
        found["task_definition_arn"],
        found["place"],
    )
    await progress.store.record_cloud({key: value for key, value in found.items() if key.endswith("_arn")})
    await progress.store.note_awake()


async def _first_heartbeat(progress: Progress) -> None:
    target = progress.cloud.target
    progress.cloud.say("Waiting for the runner's first heartbeat")
    if not await progress.store.wait_online(None):
        raise JobFailed(
            "The task was started, but no heartbeat came.",
            code="cloud_no_heartbeat",
            hint=f"Look at log group {target.log_group}; then retry this job, or remove the runner.",
        )
    progress.cloud.say(f"{target.worker_name} is online")


DEPLOY = (
    LifecycleStep(
        "log_group", "Log group", _calling("The log group could not be made", access.ensure_log_group, "log_group")
    ),
    LifecycleStep("secret", "Token secret", _secret),
    LifecycleStep("roles", "IAM roles", _roles),
    LifecycleStep(
        "network",
        "Network and security group",
        _calling("The network could not be made", access.ensure_place, "place"),
    ),
    LifecycleStep(
        "cluster", "Cluster", _calling("The cluster could not be made", service.ensure_cluster, "cluster_arn")
    ),
    LifecycleStep("task", "Task definition", _task),
    LifecycleStep("service", "Service", _service),
    LifecycleStep("heartbeat", "First heartbeat", _first_heartbeat),
)


async def _drain(progress: Progress) -> None:
    progress.cloud.say("Draining: running jobs finish, new ones wait")
    await progress.store.drain(f"Update to {progress.cloud.target.version}")


async def _current_service(progress: Progress) -> None:
    """Remember what runs now, so that a failed update can go back to it."""
    cloud, found = progress.cloud, progress.found
    current = await call("The service could not be read", service.find_service, cloud)
    if current is None:
        raise JobFailed(
            "There is no service to update.", code="cloud_service", hint="Deploy the runner again, or remove it."
        )
    # The revision of the last successful job: a try that died after the roll-out must not mistake its own for the old one.
    found["previous"] = cloud.target.proven_task_arn or current["taskDefinition"]
    found["secret_arn"] = await call("The secret could not be read", access.find_secret, cloud)


async def _roll_out(progress: Progress) -> None:
    cloud, found = progress.cloud, progress.found
    current = await call("The service could not be read", service.find_service, cloud)
    await call("The new version could not be deployed", service.redeploy, cloud, found["task_definition_arn"], current)
    await progress.store.note_awake()
    await progress.store.resume()


async def _prove(progress: Progress) -> None:
    """Wait for the new version; go back to the old one if it does not come."""
    target, found = progress.cloud.target, progress.found
    if await progress.store.wait_online(target.version):
        progress.cloud.say(f"{target.worker_name} is online at {target.version}")
        await progress.store.record_cloud({"task_definition_arn": found["task_definition_arn"]})
        return
    progress.cloud.say(f"No heartbeat at {target.version}: going back to {found['previous'].rsplit('/', 1)[-1]}")
    current = await call("The service could not be read", service.find_service, progress.cloud)
    await call(
        "The old version could not be brought back", service.redeploy, progress.cloud, found["previous"], current
    )
    raise JobFailed(
        f"The runner did not come online at {target.version}; the version before it was put back.",
        code="cloud_rolled_back",
        hint=f"Look at log group {target.log_group}, then update again.",
    )


UPDATE = (
    LifecycleStep("current", "What runs now", _current_service),
    # The new version may come from another repository, or need other rights than the one that was deployed.
    LifecycleStep("roles", "IAM roles", _roles),
    LifecycleStep("drain", "Drain", _drain),
    LifecycleStep("task", "Task definition", _task),
    LifecycleStep("roll_out", "New deployment", _roll_out),
    LifecycleStep("prove", "Wait for the new version", _prove),
)


REMOVE = (
    LifecycleStep("drain", "Drain", lambda progress: progress.store.drain("Being removed")),
    LifecycleStep("service", "Service", _calling("The service could not be removed", service.remove_service)),
    LifecycleStep(
        "task", "Task definitions", _calling("The task definitions could not be removed", service.remove_tasks)
    ),
    LifecycleStep("cluster", "Cluster", _calling("The cluster could not be removed", service.remove_cluster)),
    LifecycleStep(
        "network", "Network and security group", _calling("The network could not be removed", access.remove_place)
    ),
    LifecycleStep("roles", "IAM roles", _calling("The roles could not be removed", access.remove_roles)),
    LifecycleStep("secret", "Token secret", _calling("The secret could not be removed", access.remove_secret)),
    LifecycleStep("log_group", "Log group", _calling("The log group could not be removed", access.remove_log_group)),
)


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
