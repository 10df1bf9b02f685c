"""The ecs dispatcher's place: a cluster that is active, and a task definition with the executor's container."""

import asyncio
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from worker.dispatch.ecs import EcsDispatcher
from worker.doctor.check import Check, fail, ok
from worker.settings.dispatcher import DispatcherData
from worker.settings.model import Settings

RIGHTS = "Check the region and the names; the runner's role needs ecs:DescribeClusters and ecs:DescribeTaskDefinition for this look."


async def check_ecs(settings: Settings) -> list[Check]:
    """Ask for the cluster and the definition; no task is run."""
    dispatcher = EcsDispatcher(settings)
    data = dispatcher.data
    try:
        clusters = await asyncio.to_thread(
            lambda: dispatcher.client.describe_clusters(clusters=[data.cluster])["clusters"]
        )
        named = {"taskDefinition": data.task_definition}
        definition = await asyncio.to_thread(
            lambda: dispatcher.client.describe_task_definition(**named)["taskDefinition"]
        )
    except (BotoCoreError, ClientError) as error:
        return [fail("ECS", str(error), RIGHTS)]
    finally:
        await dispatcher.close()
    return [_cluster(clusters, data), _definition(definition, data)]


def _cluster(found: list[dict[str, Any]], data: DispatcherData) -> Check:
    if not found or found[0].get("status") != "ACTIVE":
        return fail("ECS", f"there is no active cluster {data.cluster}", "Check the dispatcher's cluster and region.")
    return ok("ECS", f"the cluster {data.cluster} is active")


def _definition(found: dict[str, Any], data: DispatcherData) -> Check:
    """See that the container is in it, and that it suits the launch type."""
    name = str(found.get("taskDefinitionArn", data.task_definition)).rsplit("/", 1)[-1]
    containers = {each["name"]: each for each in found.get("containerDefinitions", [])}
    if data.container_name not in containers:
        remedy = f"Name its container {data.container_name}, or set ContainerName to one of: {', '.join(containers)}."
        return fail("Task definition", f"{name} has no container {data.container_name}", remedy)
    suits = found.get("compatibilities") or found.get("requiresCompatibilities") or []
    if suits and data.launch_type.upper() not in suits:
        remedy = f"Set LaunchType to one of: {', '.join(suits).lower()}, or change the definition."
        return fail("Task definition", f"{name} is not made for {data.launch_type}", remedy)
    return ok("Task definition", f"{name} runs {containers[data.container_name].get('image')}")
