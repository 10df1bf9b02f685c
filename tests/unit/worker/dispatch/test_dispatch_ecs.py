"""Executors in ECS, against moto's server."""

import json
import re
from typing import Any

import boto3
import pytest

from stack.settings import PROJECT
from tests.unit.worker.dispatch.conftest import REGION, RUNNER_TOKEN, MakeSettings
from tests.unit.worker.fakes import HandClock
from worker.clock import Clock
from worker.dispatch.base import LOST, Order
from worker.dispatch.choose import dispatcher_for
from worker.dispatch.ecs import EcsDispatcher, EcsExecution
from worker.errors import RunnerUnfit
from worker.settings.model import Settings

pytestmark = pytest.mark.anyio


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


class QuickClock(Clock):
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
    await execution.remove()
    await dispatcher.close()


class Telling:
    """An ECS that reports a task with a delay."""

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self.answers = list(answers)

    def describe_tasks(self, **_: Any) -> dict[str, Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {"tasks": [answer] if answer else [], "failures": [] if answer else [{"reason": "MISSING"}]}


def stopped(**facts: Any) -> dict[str, Any]:
    return {"lastStatus": "STOPPED", "containers": [{"name": "executor"}], **facts}


async def test_a_task_that_ecs_does_not_report_yet_is_not_lost() -> None:
    ended = stopped(
        containers=[{"name": "executor", "exitCode": 7}], stoppedReason="Essential container in task exited"
    )
    telling = Telling(None, None, {"lastStatus": "RUNNING"}, None, ended)
    execution = EcsExecution(telling, "jobs", "arn", "executor", HandClock())
    assert await execution.wait() == 7
    assert execution.why == "Essential container in task exited (exit code 7)"


async def test_a_task_that_stays_unknown_is_lost() -> None:
    clock = HandClock()
    execution = EcsExecution(Telling(None), "jobs", "arn", "executor", clock)
    assert await execution.wait() == LOST
    assert clock.time - 1000 >= 120


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"stoppedReason": "CannotPullContainerError: no such image"}, "image"),
        ({"stoppedReason": "ResourceInitializationError: no route", "stopCode": "TaskFailedToStart"}, "dispatcher"),
    ],
)
async def test_a_task_that_never_began_is_reported_as_the_runners_problem(facts: dict[str, str], code: str) -> None:
    execution = EcsExecution(Telling(stopped(**facts)), "jobs", "arn", "executor", HandClock())
    with pytest.raises(RunnerUnfit, match=facts["stoppedReason"]) as caught:
        await execution.wait()
    assert caught.value.code == code


async def test_a_task_without_an_exit_code_is_lost_with_the_message_of_ecs() -> None:
    task = stopped(stoppedReason="Host EC2 terminated", containers=[{"name": "executor", "reason": "OutOfMemoryError"}])
    execution = EcsExecution(Telling(task), "jobs", "arn", "executor", HandClock())
    assert await execution.wait() == LOST
    assert execution.why == "Host EC2 terminated; OutOfMemoryError"


async def test_a_task_on_ec2_has_a_role_and_no_public_address(
    aws: str, make_settings: MakeSettings, order: Order
) -> None:
    settings = make_settings(
        TYPE="ecs", DATA_TASK_DEFINITION="executor", DATA_REGION=REGION, DATA_CLUSTER="jobs", DATA_LAUNCH_TYPE="ec2",
        DATA_SUBNETS="subnet-a", DATA_ASSIGN_PUBLIC_IP="true", DATA_TASK_ROLE_ARN="arn:aws:iam::1:role/deployer",
    )  # fmt: skip
    request = EcsDispatcher(settings).request(order)
    assert request["launchType"] == "EC2"
    assert request["networkConfiguration"] == {"awsvpcConfiguration": {"subnets": ["subnet-a"]}}
    assert request["overrides"]["taskRoleArn"] == "arn:aws:iam::1:role/deployer"


async def test_a_task_of_an_earlier_process_is_found_by_its_starter(settings: Settings, order: Order) -> None:
    first, second = EcsDispatcher(settings, clock=QuickClock()), EcsDispatcher(settings, clock=QuickClock())
    execution = await first.start(order)
    found = await second.find(order.name)
    assert found is not None
    assert found.arn == execution.arn
    await execution.stop()
    ended = await second.find(order.name)
    assert ended is not None
    assert await ended.wait() == await execution.wait()
    assert await found.restart() is False
    assert await second.find("runyard-job-1-1") is None


async def test_a_missing_task_definition_fails_the_start(
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


def test_the_settings_choose_the_dispatcher(make_settings: MakeSettings, settings: Settings) -> None:
    assert dispatcher_for(make_settings()) is None
    assert isinstance(dispatcher_for(settings), EcsDispatcher)


async def test_the_documented_rights_are_those_of_the_calls(settings: Settings, order: Order) -> None:
    dispatcher = EcsDispatcher(settings, clock=QuickClock())
    made: set[str] = set()
    dispatcher.client.meta.events.register("before-call", lambda model, **_: made.add(f"ecs:{model.name}"))
    await dispatcher.probe()
    execution = await dispatcher.start(order)
    assert await dispatcher.find(order.name) is not None
    await execution.stop()
    await execution.wait()
    await dispatcher.close()
    page = (PROJECT / "docs/runner/dispatchers.md").read_text()
    (sentence,) = re.findall(r"The runner's role\s+needs (.*?) for the definition's roles", page, re.DOTALL)
    # Not calls of ours: rights that AWS requires beside them.
    implied = {"ecs:TagResource", "iam:PassRole"}
    assert set(re.findall(r"`(\w+:\w+)`", sentence)) == made | implied
