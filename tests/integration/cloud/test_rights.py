"""Least rights: what the deployer's policy grants is what its calls need; what tasks get is what is theirs."""

import json
from dataclasses import replace
from typing import Any

import boto3
import pytest

from stack.settings import PROJECT
from tests.integration.cloud.test_lifecycle_steps import REGION, TARGET, RecordingTargetStore, give_rights_by_hand, run
from worker.cloud import session
from worker.cloud.lifecycle import DEPLOY, REMOVE, UPDATE, check_ecs, check_network
from worker.cloud.service import set_desired
from worker.cloud.session import open_cloud
from worker.cloud.target_store import Network

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("aws")]
POLICY = PROJECT / "deploy/aws/deployer-policy.json"
# Not calls of ours: what AWS asks for beside them. Tags at the making, the role handed to a task, a new account's first cluster.
IMPLIED = {
    "ec2:CreateTags",
    "ecs:TagResource",
    "iam:CreateServiceLinkedRole",
    "iam:PassRole",
    "iam:TagRole",
    "logs:TagResource",
    "secretsmanager:TagResource",
}
ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/runyard-worker:1.8.2"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every call that is made to AWS, as a policy names it."""
    made: set[str] = set()
    plain = session.new_session

    def note(model: Any, **_: Any) -> None:
        made.add(f"{model.service_model.service_name}:{model.name}")

    def watched(**rights: str) -> boto3.session.Session:
        opened = plain(**rights)
        opened.events.register("before-call", note)
        return opened

    monkeypatch.setattr(session, "new_session", watched)
    return made


async def test_the_policy_grants_every_call_that_is_made_and_nothing_else(calls: set[str]) -> None:
    cloud = open_cloud(TARGET, lambda _: None)
    check_ecs(cloud)
    check_network(cloud)
    for _ in range(2):
        await run(DEPLOY, TARGET, RecordingTargetStore())
    await run(UPDATE, replace(TARGET, version="1.9.0", image="runyard/worker:1.9.0"), RecordingTargetStore())
    set_desired(cloud, 0)
    give_rights_by_hand()
    await run(REMOVE, TARGET, RecordingTargetStore())
    granted = {
        action
        for statement in json.loads(POLICY.read_text())["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }
    needed = {call for call in calls if not call.startswith("sts:")}
    assert needed - granted == set()
    assert granted - needed == IMPLIED


def rights(role: str) -> list[dict[str, Any]]:
    found = boto3.client("iam").get_role_policy(RoleName=f"{TARGET.name}-{role}", PolicyName="runyard")
    statements: list[dict[str, Any]] = found["PolicyDocument"]["Statement"]
    return statements


@pytest.mark.parametrize(("image", "repositories"), [(TARGET.image, []), (ECR, ["team/runyard-worker"])])
async def test_a_task_pulls_its_own_image_and_no_other(image: str, repositories: list[str]) -> None:
    await run(DEPLOY, replace(TARGET, image=image), RecordingTargetStore())
    pulls = [each["Resource"] for each in rights("execution") if "ecr:BatchGetImage" in each["Action"]]
    assert pulls == [f"arn:aws:ecr:eu-west-1:123456789012:repository/{name}" for name in repositories]


async def test_an_update_to_an_image_elsewhere_brings_the_right_to_pull_it() -> None:
    await run(DEPLOY, TARGET, RecordingTargetStore())
    await run(UPDATE, replace(TARGET, version="1.9.0", image=ECR), RecordingTargetStore())
    assert any("ecr:BatchGetImage" in each["Action"] for each in rights("execution"))


async def test_a_task_protects_the_tasks_of_its_own_runner_only() -> None:
    await run(DEPLOY, TARGET, RecordingTargetStore())
    [protect] = rights("task")
    assert protect["Resource"] == f"arn:aws:ecs:{REGION}:123456789012:task/runyard/*"
    assert protect["Condition"] == {"StringEquals": {"aws:ResourceTag/runyard:worker-id": TARGET.worker_id}}


async def test_everything_that_is_made_carries_the_runners_tags() -> None:
    await run(DEPLOY, TARGET, RecordingTargetStore())
    ec2, ecs = boto3.client("ec2"), boto3.client("ecs")
    mine = [{"Name": "tag:runyard:worker-id", "Values": [TARGET.worker_id]}]
    for found in (
        ec2.describe_vpcs(Filters=mine)["Vpcs"],
        ec2.describe_subnets(Filters=mine)["Subnets"],
        ec2.describe_internet_gateways(Filters=mine)["InternetGateways"],
        ec2.describe_security_groups(Filters=mine)["SecurityGroups"],
    ):
        assert len(found) == 1
    service = ecs.describe_services(cluster="runyard", services=[TARGET.name], include=["TAGS"])["services"][0]
    assert service["propagateTags"] == "SERVICE"
    task = ecs.describe_task_definition(taskDefinition=service["taskDefinition"], include=["TAGS"])
    roles = [boto3.client("iam").get_role(RoleName=f"{TARGET.name}-{kind}")["Role"] for kind in ("execution", "task")]
    secret = boto3.client("secretsmanager").describe_secret(SecretId=TARGET.secret_name)
    for tags in (service["tags"], task["tags"], secret["Tags"], *(role["Tags"] for role in roles)):
        assert {next(iter(tag.values())): list(tag.values())[1] for tag in tags} == TARGET.tags
    logs = boto3.client("logs").list_tags_log_group(logGroupName=TARGET.log_group)["tags"]
    assert logs == TARGET.tags


async def test_named_subnets_need_no_right_to_make_a_network(calls: set[str]) -> None:
    ec2 = boto3.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.1.1.0/24")["Subnet"]["SubnetId"]
    target = replace(TARGET, network=Network(subnets=(subnet,)))
    await run(DEPLOY, target, RecordingTargetStore())
    await run(REMOVE, target, RecordingTargetStore())
    made = {call for call in calls if call.startswith(("ec2:Create", "ec2:Attach"))}
    assert made == {"ec2:CreateSecurityGroup"}
