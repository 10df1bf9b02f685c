"""Executors in ECS, against moto's server; and the sign-in to EKS by IAM."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.unit.worker.dispatch.conftest import RUNNER_TOKEN, MakeSettings
from worker.clock import SystemClock
from worker.dispatch import Order, dispatcher_for
from worker.dispatch.ecs import EcsDispatcher
from worker.dispatch.eks import EksAccess
from worker.errors import RunnerUnfit
from worker.settings import Settings

pytestmark = pytest.mark.anyio
REGION = "us-east-2"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run moto's server and point every client at it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    for name, value in {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
    }.items():
        monkeypatch.setenv(name, value)
    yield url
    server.stop()


@pytest.fixture
def subnet(aws: str) -> str:
    """A cluster, a task definition and a subnet to run in."""
    ecs: Any = boto3.client("ecs", region_name=REGION)
    ecs.create_cluster(clusterName="jobs")
    ecs.register_task_definition(
        family="executor",
        networkMode="awsvpc",
        requiresCompatibilities=["FARGATE"],
        cpu="256",
        memory="512",
        containerDefinitions=[{"name": "executor", "image": "runyard-worker", "memory": 512}],
    )
    ec2: Any = boto3.client("ec2", region_name=REGION)
    return str(ec2.describe_subnets()["Subnets"][0]["SubnetId"])


@pytest.fixture
def security_group(aws: str) -> str:
    ec2: Any = boto3.client("ec2", region_name=REGION)
    return str(ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"])


@pytest.fixture
def settings(subnet: str, security_group: str, make_settings: MakeSettings) -> Settings:
    return make_settings(
        TYPE="ecs",
        DATA_TASK_DEFINITION="executor",
        DATA_REGION=REGION,
        DATA_CLUSTER="jobs",
        DATA_SUBNETS=subnet,
        DATA_SECURITY_GROUPS=security_group,
        DATA_LAUNCH_TYPE="fargate",
    )


class QuickClock(SystemClock):
    """Does not wait between two looks."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0.01)


async def test_a_task_runs_with_one_job_s_credential_and_can_be_stopped(settings: Settings, order: Order) -> None:
    dispatcher = EcsDispatcher(settings, clock=QuickClock())
    execution = await dispatcher.start(order)
    ecs: Any = boto3.client("ecs", region_name=REGION)
    task = ecs.describe_tasks(cluster="jobs", tasks=[execution.arn])["tasks"][0]
    assert task["launchType"] == "FARGATE"
    assert task["startedBy"] == order.name
    override = task["overrides"]["containerOverrides"][0]
    environment = {item["name"]: item["value"] for item in override["environment"]}
    assert environment["RUNYARD_JOB_TOKEN"] == "job-token"
    assert override["command"] == ["runyard-worker", "run", "--single"]
    assert RUNNER_TOKEN not in json.dumps(task, default=str)
    await execution.stop()
    stopped = ecs.describe_tasks(cluster="jobs", tasks=[execution.arn])["tasks"][0]
    assert stopped["lastStatus"] == "STOPPED"
    assert await execution.wait() == stopped["containers"][0]["exitCode"]
    never_ran = {"containers": [{"name": "executor"}], "stoppedReason": "CannotPullContainerError"}
    with pytest.raises(RunnerUnfit) as caught:
        execution._exit_code(never_ran)
    assert caught.value.code == "image"
    assert execution.why == "CannotPullContainerError"
    await execution.remove()
    await dispatcher.close()


async def test_a_task_definition_that_is_not_there_fails_the_job(
    subnet: str, make_settings: MakeSettings, order: Order
) -> None:
    settings = make_settings(
        TYPE="ecs", DATA_TASK_DEFINITION="absent", DATA_REGION=REGION, DATA_CLUSTER="jobs", DATA_SUBNETS=subnet
    )
    dispatcher = EcsDispatcher(settings)
    with pytest.raises(RunnerUnfit, match="ECS could not start"):
        await dispatcher.start(order)


async def test_a_request_repeated_for_an_attempt_carries_the_same_token(settings: Settings, order: Order) -> None:
    dispatcher = EcsDispatcher(settings)
    assert dispatcher.request(order)["clientToken"] == dispatcher.request(order)["clientToken"] == order.name


async def test_eks_gives_address_certificate_and_a_fresh_token(aws: str) -> None:
    eks: Any = boto3.client("eks", region_name=REGION)
    eks.create_cluster(name="prod", roleArn="arn:aws:iam::123456789012:role/eks", resourcesVpcConfig={"subnetIds": []})
    access = EksAccess(REGION, "prod", SystemClock())
    configuration = await access.configuration()
    assert configuration.host == eks.describe_cluster(name="prod")["cluster"]["endpoint"]
    token = await configuration.get_api_key_with_prefix("BearerToken")
    assert token.startswith("Bearer k8s-aws-v1.")
    assert await configuration.get_api_key_with_prefix("BearerToken") == token, "not signed anew for every call"


def test_the_settings_choose_the_dispatcher(make_settings: MakeSettings, settings: Settings) -> None:
    assert dispatcher_for(make_settings()) is None
    assert isinstance(dispatcher_for(settings), EcsDispatcher)
