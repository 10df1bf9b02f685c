"""Everything of an AWS account that Runyard could have touched, as one comparable listing."""

from functools import cache
from typing import Any

from worker.cloud.service import active_services
from worker.cloud.session import new_session


@cache
def _clients(region: str) -> tuple[Any, ...]:
    """Load the large service models once; the endpoint is the same for the whole run."""
    make: Any = new_session(region_name=region).client
    return tuple(make(name) for name in ("ec2", "ecs", "iam", "logs", "secretsmanager"))


def listing(region: str) -> dict[str, Any]:
    """List names and ids of every kind of thing that a deployment makes."""
    ec2, ecs, iam, logs, secrets = _clients(region)
    # A deleted cluster stays as INACTIVE for a while; its owner no longer sees it.
    found = ecs.describe_clusters(clusters=ecs.list_clusters()["clusterArns"])["clusters"]
    clusters = [cluster["clusterArn"] for cluster in found if cluster["status"] == "ACTIVE"]
    return {
        "vpcs": sorted(vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"]),
        "subnets": sorted(subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]),
        "gateways": sorted(g["InternetGatewayId"] for g in ec2.describe_internet_gateways()["InternetGateways"]),
        "groups": sorted(group["GroupId"] for group in ec2.describe_security_groups()["SecurityGroups"]),
        "clusters": sorted(clusters),
        "services": sorted(arn for cluster in clusters for arn in active_services(ecs, cluster)),
        "tasks": sorted(ecs.list_task_definitions(status="ACTIVE")["taskDefinitionArns"]),
        "roles": sorted(role["RoleName"] for role in iam.list_roles()["Roles"]),
        "logs": sorted(group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]),
        "secrets": sorted(secret["Name"] for secret in secrets.list_secrets()["SecretList"]),
    }
