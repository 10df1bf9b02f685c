"""The steps of deploy, update and remove against an AWS API."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import boto3
import pytest

from tests.integration.cloud.account import listing
from tests.support.extent import sampled
from worker.cloud.lifecycle import DEPLOY, REMOVE, UPDATE, LifecycleStep, begin
from worker.cloud.target_store import CLUSTER, Network, Target
from worker.errors import JobFailed

pytestmark = pytest.mark.anyio
REGION = "eu-west-1"
TOKEN = "ryw_the-one-that-must-not-be-seen"
TARGET = Target(
    worker_id="6f1c2a52-6a3e-4f0e-9d0a-0c8b8d4c8f10",
    worker_name="prod-eu",
    region=REGION,
    account_id="123456789012",
    role_arn="arn:aws:iam::123456789012:role/runyard-deployer",
    external_id="external",
    url="http://127.0.0.1:54321",
    image="runyard/worker:1.8.2",
    version="1.8.2",
)


@dataclass
class RecordingTargetStore:
    """The database's side of a lifecycle job, reduced to what these steps ask of it."""

    comes_online: bool = True
    tokens: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    async def register_token(self) -> str:
        self.tokens += 1
        return TOKEN

    async def record_cloud(self, facts: dict[str, Any]) -> None:
        self.facts.update(facts)

    async def drain(self, reason: str) -> None:
        self.calls.append(f"drain: {reason}")

    async def resume(self) -> None:
        self.calls.append("resume")

    async def note_awake(self) -> None:
        self.calls.append("awake")

    async def wait_online(self, version: str | None) -> bool:
        self.calls.append(f"wait: {version}")
        return self.comes_online


async def run(
    steps: tuple[LifecycleStep, ...],
    target: Target,
    store: RecordingTargetStore,
    stop_after: str = "",
    updates: list[dict[str, Any]] | None = None,
) -> list[str]:
    """Run steps as a job would; `stop_after` is where the process dies, `updates` gets what ECS is sent about the service."""
    lines: list[str] = []
    progress = await begin(target, store, lines.append)
    if updates is not None:
        events = progress.cloud.client("ecs").meta.events
        events.register("provide-client-params.ecs.UpdateService", lambda params, **_: updates.append(params))
    for step in steps:
        await step.act(progress)
        if step.name == stop_after:
            break
    return lines


def service() -> dict[str, Any]:
    return boto3.client("ecs").describe_services(cluster=CLUSTER, services=[TARGET.name])["services"][0]


@pytest.mark.usefixtures("aws")
async def test_deploy_makes_a_service_whose_token_comes_from_a_secret() -> None:
    store = RecordingTargetStore()
    lines = await run(DEPLOY, TARGET, store)
    ecs = boto3.client("ecs")
    task = ecs.describe_task_definition(taskDefinition=service()["taskDefinition"])["taskDefinition"]
    container = task["containerDefinitions"][0]
    assert container["secrets"] == [{"name": "WORKER_TOKEN", "valueFrom": store.facts["secret_arn"]}]
    assert {e["name"]: e["value"] for e in container["environment"]}["WORKER_ID"] == TARGET.worker_id
    stored = boto3.client("secretsmanager").get_secret_value(SecretId=TARGET.secret_name)["SecretString"]
    assert stored == TOKEN
    assert TOKEN not in json.dumps([lines, task, store.facts], default=str)


@pytest.mark.usefixtures("aws")
async def test_the_execution_role_reads_this_secret_and_no_other() -> None:
    store = RecordingTargetStore()
    await run(DEPLOY, TARGET, store)
    policy = boto3.client("iam").get_role_policy(RoleName=f"{TARGET.name}-execution", PolicyName="runyard")
    rights = {tuple(s["Action"]): s["Resource"] for s in policy["PolicyDocument"]["Statement"]}
    assert rights["secretsmanager:GetSecretValue",] == store.facts["secret_arn"]


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("died_after", sampled([step.name for step in DEPLOY], 3))
async def test_an_interrupted_deployment_continues_and_its_removal_leaves_nothing(died_after: str) -> None:
    before = listing(REGION)
    await run(DEPLOY, TARGET, RecordingTargetStore(), stop_after=died_after)
    await run(DEPLOY, TARGET, RecordingTargetStore())
    after = listing(REGION)
    grown = {kind: len(after[kind]) - len(before[kind]) for kind in after}
    # Two groups: the new VPC brings its default one along.
    assert grown == dict.fromkeys(after, 1) | {"roles": 2, "groups": 2}
    await run(REMOVE, TARGET, RecordingTargetStore())
    assert listing(REGION) == before


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("died_after", sampled([step.name for step in REMOVE], 3))
async def test_an_interrupted_removal_continues(died_after: str) -> None:
    before = listing(REGION)
    await run(DEPLOY, TARGET, RecordingTargetStore())
    await run(REMOVE, TARGET, RecordingTargetStore(), stop_after=died_after)
    await run(REMOVE, TARGET, RecordingTargetStore())
    assert listing(REGION) == before


@pytest.mark.usefixtures("aws")
async def test_removal_deletes_nothing_of_another_runner() -> None:
    other = replace(TARGET, worker_id="0b0b0b0b-6a3e-4f0e-9d0a-0c8b8d4c8f10", worker_name="prod-us")
    await run(DEPLOY, other, RecordingTargetStore())
    before = listing(REGION)
    await run(DEPLOY, TARGET, RecordingTargetStore())
    await run(REMOVE, TARGET, RecordingTargetStore())
    assert listing(REGION) == before


def give_rights_by_hand() -> str:
    """Do what an owner does whose jobs need more; returns the policy."""
    iam = boto3.client("iam")
    document = json.dumps(
        {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    )
    policy = iam.create_policy(PolicyName="by-hand", PolicyDocument=document)["Policy"]["Arn"]
    iam.attach_role_policy(RoleName=f"{TARGET.name}-task", PolicyArn=policy)
    iam.put_role_policy(RoleName=f"{TARGET.name}-task", PolicyName="inline", PolicyDocument=document)
    return policy


@pytest.mark.usefixtures("aws")
async def test_rights_that_somebody_gave_the_role_by_hand_do_not_keep_it() -> None:
    before = listing(REGION)
    await run(DEPLOY, TARGET, RecordingTargetStore())
    policy = give_rights_by_hand()
    await run(REMOVE, TARGET, RecordingTargetStore())
    assert listing(REGION) == before
    assert boto3.client("iam").get_policy(PolicyArn=policy)["Policy"]["AttachmentCount"] == 0, (
        "the policy itself is not ours to delete"
    )


@pytest.mark.usefixtures("aws")
async def test_given_subnets_are_used_and_outlive_the_runner() -> None:
    ec2 = boto3.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.1.1.0/24")["Subnet"]["SubnetId"]
    before = listing(REGION)
    target = replace(TARGET, network=Network(subnets=(subnet,)))
    await run(DEPLOY, target, RecordingTargetStore())
    placed = service()["networkConfiguration"]["awsvpcConfiguration"]
    assert placed["subnets"] == [subnet]
    assert placed["assignPublicIp"] == "DISABLED"
    await run(REMOVE, target, RecordingTargetStore())
    assert listing(REGION) == before


@pytest.mark.usefixtures("aws")
async def test_update_drains_registers_a_revision_and_forces_a_deployment() -> None:
    await run(DEPLOY, TARGET, RecordingTargetStore())
    old = service()["taskDefinition"]
    store, updates = RecordingTargetStore(), list[dict[str, Any]]()
    await run(UPDATE, replace(TARGET, version="1.9.0", image="runyard/worker:1.9.0"), store, updates=updates)
    # moto keeps the new definition and forgets the rest; without this, ECS would leave tasks of an unchanged definition.
    assert [update["forceNewDeployment"] for update in updates] == [True]
    assert updates[0]["taskDefinition"].endswith(service()["taskDefinition"].rsplit("/", 1)[-1])
    assert store.calls == ["drain: Update to 1.9.0", "awake", "resume", "wait: 1.9.0"]
    assert service()["taskDefinition"] != old
    assert store.tokens == 0


@pytest.mark.usefixtures("aws")
async def test_an_update_that_does_not_come_online_is_rolled_back() -> None:
    await run(DEPLOY, TARGET, RecordingTargetStore())
    old = service()["taskDefinition"]
    with pytest.raises(JobFailed, match="put back") as failure:
        await run(UPDATE, replace(TARGET, version="1.9.0", image="broken"), RecordingTargetStore(comes_online=False))
    assert failure.value.code == "cloud_rolled_back"
    assert service()["taskDefinition"] == old


@pytest.mark.usefixtures("aws")
async def test_an_update_that_died_after_its_roll_out_still_restores_the_proven_task_definition() -> None:
    store = RecordingTargetStore()
    await run(DEPLOY, TARGET, store)
    old = service()["taskDefinition"]
    newer = replace(TARGET, version="1.9.0", image="broken", proven_task_arn=store.facts["task_definition_arn"])
    await run(UPDATE, newer, RecordingTargetStore(), stop_after="roll_out")
    assert service()["taskDefinition"] != old
    with pytest.raises(JobFailed, match="put back"):
        await run(UPDATE, newer, RecordingTargetStore(comes_online=False))
    assert service()["taskDefinition"] == old


@pytest.mark.usefixtures("aws")
async def test_another_account_is_refused_before_anything_is_made() -> None:
    before = listing(REGION)
    target = replace(TARGET, account_id="999999999999")
    with pytest.raises(JobFailed, match="999999999999"):
        await run(DEPLOY, target, RecordingTargetStore())
    assert listing(REGION) == before


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("steps", [UPDATE, DEPLOY])
async def test_a_runner_that_was_scaled_to_zero_is_woken(steps: tuple[LifecycleStep, ...]) -> None:
    await run(DEPLOY, TARGET, RecordingTargetStore())
    boto3.client("ecs").update_service(cluster=CLUSTER, service=TARGET.name, desiredCount=0)
    store = RecordingTargetStore()
    lines = await run(steps, TARGET, store)
    assert service()["desiredCount"] == 1
    assert "awake" in store.calls
    assert any("was scaled to zero" in line for line in lines)


@pytest.mark.usefixtures("aws")
async def test_an_update_keeps_the_number_of_tasks() -> None:
    await run(DEPLOY, TARGET, RecordingTargetStore())
    boto3.client("ecs").update_service(cluster=CLUSTER, service=TARGET.name, desiredCount=3)
    await run(UPDATE, replace(TARGET, version="1.9.0", image="runyard/worker:1.9.0"), RecordingTargetStore())
    assert service()["desiredCount"] == 3


@pytest.mark.usefixtures("aws")
async def test_a_deployment_without_an_image_fails_and_names_the_setting() -> None:
    with pytest.raises(JobFailed, match="which image") as failure:
        await run(DEPLOY, replace(TARGET, image=""), RecordingTargetStore())
    assert failure.value.code == "cloud_image"
    assert "RUNYARD__SCALING__IMAGEREPOSITORY" in failure.value.hint
