"""Log group, secret and roles of a deployed runner, with the least rights that it needs."""

import json
import re
from typing import Any

from botocore.exceptions import ClientError

from worker.cloud.session import Cloud, is_missing, tag_list
from worker.cloud.target_store import CLUSTER

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
    try:
        return str(cloud.client("secretsmanager").describe_secret(SecretId=cloud.target.secret_name)["ARN"])
    except ClientError as problem:
        if is_missing(problem):
            return ""
        raise


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
        try:
            _take_rights(cloud, name)
            cloud.client("iam").delete_role(RoleName=name)
            cloud.say(f"Deleted role {name}")
        except ClientError as problem:
            if not is_missing(problem):
                raise


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
    try:
        cloud.client("logs").delete_log_group(logGroupName=cloud.target.log_group)
        cloud.say(f"Deleted log group {cloud.target.log_group}")
    except ClientError as problem:
        if not is_missing(problem):
            raise
