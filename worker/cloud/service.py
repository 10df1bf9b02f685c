"""Cluster, task definition and service of a deployed runner."""

import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from worker.cloud.access import Place
from worker.cloud.session import Cloud, open_cloud, refused, tag_list
from worker.cloud.target_store import CLUSTER, MANAGED_BY, Target
from worker.errors import JobFailed

CONTAINER = "runner"
# As the image's own CMD: it stands behind an entry point that only hands signals on.
COMMAND = ("runyard-worker", "run")
STOP_TIMEOUT_SECONDS = 120


def ensure_cluster(cloud: Cloud) -> str:
    """Create the cluster that all of Runyard's services share, unless it is active."""
    ecs = cloud.client("ecs")
    found = ecs.describe_clusters(clusters=[CLUSTER])["clusters"]
    if found and found[0]["status"] == "ACTIVE":
        cloud.say(f"Cluster {CLUSTER} stands already")
        return str(found[0]["clusterArn"])
    tags = tag_list({"runyard:managed-by": MANAGED_BY}, "key", "value")
    arn = ecs.create_cluster(clusterName=CLUSTER, tags=tags)["cluster"]["clusterArn"]
    cloud.say(f"Created cluster {CLUSTER}")
    return str(arn)


def register_task(cloud: Cloud, execution_role: str, task_role: str, secret_arn: str) -> str:
    """Register a revision of the task; an equal newest one is used again."""
    if not cloud.target.image:
        raise JobFailed(
            "Nobody has said which image the tasks run.",
            code="cloud_image",
            hint="Push deploy/Dockerfile's image to a registry that the account can read, and name its repository in "
            "RUNYARD__SCALING__IMAGEREPOSITORY of the runner that deploys; docs: Cloud-hosted runners, 'The image'.",
        )
    ecs, wanted = cloud.client("ecs"), _definition(cloud, execution_role, task_role, secret_arn)
    newest = latest_task(cloud)
    if newest is not None and all(_same(newest.get(key), value) for key, value in wanted.items() if key != "tags"):
        cloud.say(f"Task definition {newest['family']}:{newest['revision']} stands already")
        return str(newest["taskDefinitionArn"])
    made = ecs.register_task_definition(**wanted)["taskDefinition"]
    cloud.say(f"Registered task definition {made['family']}:{made['revision']} for version {cloud.target.version}")
    return str(made["taskDefinitionArn"])


def _same(stands: Any, wanted: Any) -> bool:
    """Compare the requested settings; AWS adds defaults to those that it returns."""
    if isinstance(wanted, dict) and isinstance(stands, dict):
        return all(_same(stands.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(stands, list):
        return len(stands) == len(wanted) and all(map(_same, stands, wanted))
    return bool(stands == wanted)


def _definition(cloud: Cloud, execution_role: str, task_role: str, secret_arn: str) -> dict[str, Any]:
    target = cloud.target
    # Only the deployer has cloud rights; tasks have none and do not scale others.
    environment = {"WORKER_ID": target.worker_id, "SUPABASE_URL": target.url, "RUNYARD__SCALING__ENABLED": "false"}
    container = {
        "name": CONTAINER,
        "image": target.image,
        "essential": True,
        "command": list(COMMAND),
        "stopTimeout": STOP_TIMEOUT_SECONDS,
        "environment": tag_list(environment, "name", "value"),
        "secrets": [{"name": "WORKER_TOKEN", "valueFrom": secret_arn}],
        "logConfiguration": {
            "logDriver": "awslogs",
            "options": {
                "awslogs-group": target.log_group,
                "awslogs-region": target.region,
                "awslogs-stream-prefix": CONTAINER,
            },
        },
    }
    return {
        "family": target.name,
        "networkMode": "awsvpc",
        "requiresCompatibilities": ["FARGATE"],
        "cpu": target.cpu,
        "memory": target.memory,
        "executionRoleArn": execution_role,
        "taskRoleArn": task_role,
        "containerDefinitions": [container],
        "tags": tag_list(target.tags, "key", "value"),
    }


def latest_task(cloud: Cloud) -> dict[str, Any] | None:
    """Return the newest active revision, if there is one."""
    ecs = cloud.client("ecs")
    listed = ecs.list_task_definitions(familyPrefix=cloud.target.name, status="ACTIVE", sort="DESC")
    arns = listed["taskDefinitionArns"]
    if not arns:
        return None
    newest = max(arns, key=lambda arn: int(arn.rsplit(":", 1)[1]))
    return dict(ecs.describe_task_definition(taskDefinition=newest)["taskDefinition"])


def find_service(cloud: Cloud) -> dict[str, Any] | None:
    """Return the service unless it was removed."""
    ecs = cloud.client("ecs")
    try:
        found = ecs.describe_services(cluster=CLUSTER, services=[cloud.target.name])["services"]
    except ecs.exceptions.ClusterNotFoundException:
        return None
    return dict(found[0]) if found and found[0]["status"] == "ACTIVE" else None


def ensure_service(cloud: Cloud, task: str, place: Place) -> str:
    """Create the service, or point the existing one at this task definition."""
    ecs, target = cloud.client("ecs"), cloud.target
    current = find_service(cloud)
    if current is not None:
        return redeploy(cloud, task, current)
    made = ecs.create_service(
        cluster=CLUSTER,
        serviceName=target.name,
        taskDefinition=task,
        desiredCount=target.desired,
        launchType="FARGATE",
        networkConfiguration={
            "awsvpcConfiguration": {
                "subnets": place.subnets,
                "securityGroups": place.security_groups,
                "assignPublicIp": "ENABLED" if place.has_public_address else "DISABLED",
            }
        },
        deploymentConfiguration={"minimumHealthyPercent": 100, "maximumPercent": 200},
        propagateTags="SERVICE",
        tags=tag_list(target.tags, "key", "value"),
    )["service"]
    cloud.say(f"Created service {target.name} with {target.desired} task(s)")
    return str(made["serviceArn"])


def redeploy(cloud: Cloud, task: str, current: dict[str, Any]) -> str:
    """Force a new deployment of the service with this task definition; one that sleeps is woken to prove itself."""
    if current["taskDefinition"] == task and current["desiredCount"]:
        cloud.say(f"Service {cloud.target.name} runs {task.rsplit('/', 1)[-1]} already")
        return str(current["serviceArn"])
    count = current["desiredCount"] or 1
    cloud.client("ecs").update_service(
        cluster=CLUSTER, service=cloud.target.name, taskDefinition=task, desiredCount=count, forceNewDeployment=True
    )
    if not current["desiredCount"]:
        cloud.say(f"Service {cloud.target.name} was scaled to zero: waking one task")
    cloud.say(f"Service {cloud.target.name} now runs {task.rsplit('/', 1)[-1]}: new deployment forced")
    return str(current["serviceArn"])


def set_desired(cloud: Cloud, count: int) -> None:
    """Set the number of tasks."""
    if find_service(cloud) is None:
        raise JobFailed(
            f"Service {cloud.target.name} is not there.", code="cloud_service", hint="Deploy the runner again."
        )
    cloud.client("ecs").update_service(cluster=CLUSTER, service=cloud.target.name, desiredCount=count)


def remove_service(cloud: Cloud, sleep: Callable[[float], None] = time.sleep, patience_seconds: float = 300) -> None:
    """Stop the tasks, delete the service, and wait until its network interfaces can go."""
    ecs = cloud.client("ecs")
    if find_service(cloud) is None:
        return
    ecs.update_service(cluster=CLUSTER, service=cloud.target.name, desiredCount=0)
    ecs.delete_service(cluster=CLUSTER, service=cloud.target.name, force=True)
    cloud.say(f"Deleted service {cloud.target.name}")
    waited = 0.0
    while ecs.list_tasks(cluster=CLUSTER, family=cloud.target.name)["taskArns"] and waited < patience_seconds:
        sleep(5)
        waited += 5


def remove_tasks(cloud: Cloud) -> None:
    """Deregister and delete every revision of the task."""
    ecs = cloud.client("ecs")
    for status in ("ACTIVE", "INACTIVE"):
        arns = ecs.list_task_definitions(familyPrefix=cloud.target.name, status=status)["taskDefinitionArns"]
        for arn in arns:
            if status == "ACTIVE":
                ecs.deregister_task_definition(taskDefinition=arn)
            ecs.delete_task_definitions(taskDefinitions=[arn])
            cloud.say(f"Deleted task definition {arn.rsplit('/', 1)[-1]}")


def active_services(ecs: Any, cluster: str) -> list[str]:
    """List the services of a cluster that are not already deleted."""
    arns = ecs.list_services(cluster=cluster)["serviceArns"]
    if not arns:
        return []
    found = ecs.describe_services(cluster=cluster, services=arns[:10])["services"]
    return [service["serviceArn"] for service in found if service["status"] != "INACTIVE"]


def remove_cluster(cloud: Cloud) -> None:
    """Delete the cluster when Runyard made it and the last service was removed."""
    ecs = cloud.client("ecs")
    found = ecs.describe_clusters(clusters=[CLUSTER], include=["TAGS"])["clusters"]
    if not found or found[0]["status"] != "ACTIVE":
        return
    is_ours = any(tag["key"] == "runyard:managed-by" for tag in found[0].get("tags", []))
    if not is_ours or active_services(ecs, CLUSTER):
        cloud.say(f"Cluster {CLUSTER} is still in use; left as it is")
        return
    ecs.delete_cluster(cluster=CLUSTER)
    cloud.say(f"Deleted cluster {CLUSTER}")


def set_count(entry: dict[str, Any], url: str, count: int) -> None:
    """Set how many tasks the runner's service should have."""
    lifecycle = {
        "identity": entry["identity"],
        "region": entry["region"],
        "worker": {"id": entry["worker_id"], "name": entry["name"]},
        "version": "unchanged",
    }
    target = Target.from_payload({"lifecycle": lifecycle}, url)
    try:
        set_desired(open_cloud(target, lambda _: None), count)
    except (BotoCoreError, ClientError) as problem:
        raise refused("The number of tasks could not be set", problem) from problem
