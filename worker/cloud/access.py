"""Log group, secret, roles and network of a deployed runner, with the least rights that it needs; matched by tag when they are removed."""

import json
import re
from dataclasses import dataclass
from typing import Any

from worker.cloud.session import Cloud, tag_list, unless_missing
from worker.cloud.target_store import CLUSTER
from worker.errors import JobFailed

LOG_RETENTION_DAYS = 30
POLICY = "runyard"
ECR = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com/([^:@]+)")
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ecs-tasks.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


def ensure_log_group(cloud: Cloud) -> str:
    """Create the log group unless it stands; set how long lines are kept."""
    logs, name = cloud.client("logs"), cloud.target.log_group
    try:
        logs.create_log_group(logGroupName=name, tags=cloud.target.tags)
        cloud.say(f"Created log group {name}")
    except logs.exceptions.ResourceAlreadyExistsException:
        cloud.say(f"Log group {name} stands already")
    logs.put_retention_policy(logGroupName=name, retentionInDays=LOG_RETENTION_DAYS)
    return name


def ensure_secret(cloud: Cloud, token: str) -> str:
    """Put the token into a secret of its own; the task reads it from there and nowhere else."""
    secrets, name = cloud.client("secretsmanager"), cloud.target.secret_name
    try:
        arn = secrets.create_secret(Name=name, SecretString=token, Tags=tag_list(cloud.target.tags))["ARN"]
        cloud.say(f"Created secret {name}")
    except secrets.exceptions.ResourceExistsException:
        arn = secrets.put_secret_value(SecretId=name, SecretString=token)["ARN"]
        cloud.say(f"Secret {name} stands already; it holds a new token now")
    return str(arn)


def find_secret(cloud: Cloud) -> str:
    """Return the secret's ARN, or nothing when there is none."""
    with unless_missing():
        return str(cloud.client("secretsmanager").describe_secret(SecretId=cloud.target.secret_name)["ARN"])
    return ""


def ensure_execution_role(cloud: Cloud, secret_arn: str) -> str:
    """Let ECS pull the image, write this log group, and read this one secret."""
    target = cloud.target
    logs = f"arn:aws:logs:{target.region}:{target.account_id}:log-group:{target.log_group}:*"
    rights = [
        _allow(["logs:CreateLogStream", "logs:PutLogEvents"], logs),
        _allow(["secretsmanager:GetSecretValue"], secret_arn),
        *_pull(target.image),
    ]
    return _ensure_role(cloud, f"{target.name}-execution", rights)


def _pull(image: str) -> list[dict[str, Any]]:
    """Let ECS pull this one image; a registry other than ECR asks AWS for nothing."""
    found = ECR.match(image)
    if found is None:
        return []
    account, region, repository = found.groups()
    actions = ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"]
    return [
        _allow(["ecr:GetAuthorizationToken"], "*"),
        _allow(actions, f"arn:aws:ecr:{region}:{account}:repository/{repository}"),
    ]


def ensure_task_role(cloud: Cloud) -> str:
    """Allow a task to protect its runner's tasks while it applies; everything else is the owner's to grant."""
    target = cloud.target
    if target.task_role_arn:
        cloud.say(f"Using the given task role {target.task_role_arn}")
        return target.task_role_arn
    tasks = f"arn:aws:ecs:{target.region}:{target.account_id}:task/{CLUSTER}/*"
    # The cluster is shared; the service hands its tags on to its tasks.
    own = {"StringEquals": {"aws:ResourceTag/runyard:worker-id": target.worker_id}}
    protect = _allow(["ecs:UpdateTaskProtection", "ecs:GetTaskProtection"], tasks)
    return _ensure_role(cloud, f"{target.name}-task", [protect | {"Condition": own}])


def _allow(actions: list[str], resource: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resource}


def _ensure_role(cloud: Cloud, name: str, rights: list[dict[str, Any]]) -> str:
    iam = cloud.client("iam")
    try:
        arn = iam.create_role(
            RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST), Tags=tag_list(cloud.target.tags)
        )["Role"]["Arn"]
        cloud.say(f"Created role {name}")
    except iam.exceptions.EntityAlreadyExistsException:
        arn = iam.get_role(RoleName=name)["Role"]["Arn"]
        cloud.say(f"Role {name} stands already")
    policy = json.dumps({"Version": "2012-10-17", "Statement": rights})
    iam.put_role_policy(RoleName=name, PolicyName=POLICY, PolicyDocument=policy)
    return str(arn)


def remove_roles(cloud: Cloud) -> None:
    """Delete both roles with their policies; one that no longer exists is not an error."""
    for name in (f"{cloud.target.name}-execution", f"{cloud.target.name}-task"):
        with unless_missing():
            _take_rights(cloud, name)
            cloud.client("iam").delete_role(RoleName=name)
            cloud.say(f"Deleted role {name}")


def _take_rights(cloud: Cloud, name: str) -> None:
    """Take away what the role may do, also what somebody gave it by hand: AWS deletes no role that may do something."""
    iam = cloud.client("iam")
    for page in iam.get_paginator("list_attached_role_policies").paginate(RoleName=name):
        for policy in page["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
            cloud.say(f"Detached policy {policy['PolicyName']} from role {name}; the policy itself stays")
    for page in iam.get_paginator("list_role_policies").paginate(RoleName=name):
        for inline in page["PolicyNames"]:
            iam.delete_role_policy(RoleName=name, PolicyName=inline)


def remove_secret(cloud: Cloud) -> None:
    """Delete the secret at once: a token that waits for deletion could still be restored."""
    if not find_secret(cloud):
        return
    cloud.client("secretsmanager").delete_secret(SecretId=cloud.target.secret_name, ForceDeleteWithoutRecovery=True)
    cloud.say(f"Deleted secret {cloud.target.secret_name}")


def remove_log_group(cloud: Cloud) -> None:
    """Delete the log group; the job logs of the runner are in Runyard and stay there."""
    with unless_missing():
        cloud.client("logs").delete_log_group(logGroupName=cloud.target.log_group)
        cloud.say(f"Deleted log group {cloud.target.log_group}")


VPC_CIDR = "10.77.0.0/24"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the service's tasks in the network."""

    subnets: list[str]
    security_groups: list[str]
    has_public_address: bool


def ensure_place(cloud: Cloud) -> Place:
    """Find or make the subnets and an outbound-only security group."""
    network = cloud.target.network
    subnets = [_ensure_own_subnet(cloud)] if network.is_own else list(network.subnets)
    if network.security_groups:
        return Place(subnets, list(network.security_groups), network.is_own)
    return Place(subnets, [_ensure_security_group(cloud, subnets[0])], network.is_own)


def _tagged(cloud: Cloud, kind: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": tag_list({"Name": cloud.target.name, **cloud.target.tags})}]


def _mine(cloud: Cloud) -> list[dict[str, Any]]:
    return [{"Name": "tag:runyard:worker-id", "Values": [cloud.target.worker_id]}]


def _ensure_own_subnet(cloud: Cloud) -> str:
    vpc = _ensure_vpc(cloud)
    ec2 = cloud.client("ec2")
    found = ec2.describe_subnets(Filters=_mine(cloud))["Subnets"]
    if found:
        subnet = found[0]["SubnetId"]
    else:
        made = ec2.create_subnet(VpcId=vpc, CidrBlock=VPC_CIDR, TagSpecifications=_tagged(cloud, "subnet"))
        subnet = made["Subnet"]["SubnetId"]
        cloud.say(f"Created subnet {subnet}")
    _ensure_way_out(cloud, vpc)
    return str(subnet)


def _ensure_vpc(cloud: Cloud) -> str:
    ec2 = cloud.client("ec2")
    found = ec2.describe_vpcs(Filters=_mine(cloud))["Vpcs"]
    if found:
        return str(found[0]["VpcId"])
    vpc = ec2.create_vpc(CidrBlock=VPC_CIDR, TagSpecifications=_tagged(cloud, "vpc"))["Vpc"]["VpcId"]
    cloud.say(f"Created VPC {vpc}")
    return str(vpc)


def _ensure_way_out(cloud: Cloud, vpc: str) -> None:
    """Attach an internet gateway and route to it: the runner only ever calls out."""
    ec2 = cloud.client("ec2")
    found = ec2.describe_internet_gateways(Filters=_mine(cloud))["InternetGateways"]
    if found:
        gateway, attached = found[0]["InternetGatewayId"], bool(found[0]["Attachments"])
    else:
        made = ec2.create_internet_gateway(TagSpecifications=_tagged(cloud, "internet-gateway"))
        gateway, attached = made["InternetGateway"]["InternetGatewayId"], False
        cloud.say(f"Created internet gateway {gateway}")
    if not attached:
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    tables = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
    routes = tables[0]["Routes"]
    if not any(route.get("GatewayId") == gateway for route in routes):
        ec2.create_route(RouteTableId=tables[0]["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)


def _ensure_security_group(cloud: Cloud, subnet: str) -> str:
    ec2 = cloud.client("ec2")
    found = ec2.describe_security_groups(Filters=_mine(cloud))["SecurityGroups"]
    if found:
        cloud.say(f"Security group {found[0]['GroupId']} stands already")
        return str(found[0]["GroupId"])
    subnets = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]
    if not subnets:
        raise JobFailed(f"Subnet {subnet} was not found.", code="cloud_subnet", hint="Correct the cloud identity.")
    made = ec2.create_security_group(
        GroupName=cloud.target.name,
        Description=f"Runyard runner {cloud.target.worker_id}: outbound only",
        VpcId=subnets[0]["VpcId"],
        TagSpecifications=_tagged(cloud, "security-group"),
    )
    cloud.say(f"Created security group {made['GroupId']}, outbound only")
    return str(made["GroupId"])


def remove_place(cloud: Cloud) -> None:
    """Delete the security group and, where it was made for this runner, the VPC; matched by tag, so nothing else goes."""
    ec2 = cloud.client("ec2")
    for group in ec2.describe_security_groups(Filters=_mine(cloud))["SecurityGroups"]:
        _delete(
            cloud, "security group", group["GroupId"], lambda g=group: ec2.delete_security_group(GroupId=g["GroupId"])
        )
    for gateway in ec2.describe_internet_gateways(Filters=_mine(cloud))["InternetGateways"]:
        for link in gateway["Attachments"]:
            ec2.detach_internet_gateway(InternetGatewayId=gateway["InternetGatewayId"], VpcId=link["VpcId"])
        name = gateway["InternetGatewayId"]
        _delete(cloud, "internet gateway", name, lambda n=name: ec2.delete_internet_gateway(InternetGatewayId=n))
    for subnet in ec2.describe_subnets(Filters=_mine(cloud))["Subnets"]:
        _delete(cloud, "subnet", subnet["SubnetId"], lambda s=subnet: ec2.delete_subnet(SubnetId=s["SubnetId"]))
    for vpc in ec2.describe_vpcs(Filters=_mine(cloud))["Vpcs"]:
        _delete(cloud, "VPC", vpc["VpcId"], lambda v=vpc: ec2.delete_vpc(VpcId=v["VpcId"]))


def _delete(cloud: Cloud, kind: str, name: str, act: Any) -> None:
    with unless_missing():
        act()
    cloud.say(f"Deleted {kind} {name}")
