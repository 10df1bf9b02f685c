"""Deploying, updating and removing a runner: each a list of steps that can be run again from the start."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from worker.cloud import access, network, service
from worker.cloud.session import NO_RIGHTS, Cloud, open_cloud, refused
from worker.cloud.target_store import ServerTargetStore, Target
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
        _calling("The network could not be made", network.ensure_place, "place"),
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


async def _drain_for_good(progress: Progress) -> None:
    await progress.store.drain("Being removed")


REMOVE = (
    LifecycleStep("drain", "Drain", _drain_for_good),
    LifecycleStep("service", "Service", _calling("The service could not be removed", service.remove_service)),
    LifecycleStep(
        "task", "Task definitions", _calling("The task definitions could not be removed", service.remove_tasks)
    ),
    LifecycleStep("cluster", "Cluster", _calling("The cluster could not be removed", service.remove_cluster)),
    LifecycleStep(
        "network", "Network and security group", _calling("The network could not be removed", network.remove_place)
    ),
    LifecycleStep("roles", "IAM roles", _calling("The roles could not be removed", access.remove_roles)),
    LifecycleStep("secret", "Token secret", _calling("The secret could not be removed", access.remove_secret)),
    LifecycleStep("log_group", "Log group", _calling("The log group could not be removed", access.remove_log_group)),
)
