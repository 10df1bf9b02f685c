"""A real runner that starts its executors as ECS tasks, in moto's AWS: moto keeps the tasks, the test runs what they say."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest

from stack.settings import PROJECT
from tests.integration.test_doctor_command import findings
from tests.integration.worker_bench import Bench, bench
from tests.support.extent import sampled
from tests.support.waiting import wait_until
from tests.unit.worker.dispatch.processes import Box, write_executor

__all__ = ["bench"]
REGION = "eu-west-1"
ROLE = "arn:aws:iam::123456789012:role/deployer"
DATA = "RUNYARD_JOB_DISPATCHER_DATA_"
# Moto's tasks stop on their own after a few polls; these run until somebody stops them.
KEPT = {"model_name": "ecs::task", "transition": {"progression": "manual", "times": 1_000_000}}


@pytest.fixture
def amazon(aws: str) -> Iterator[str]:
    """Moto's account, whose tasks run until they are stopped."""
    manager = f"{aws}/moto-api/state-manager"
    httpx.post(f"{manager}/set-transition", json=KEPT, timeout=60).raise_for_status()
    yield aws
    httpx.post(f"{manager}/unset-transition", json={"model_name": KEPT["model_name"]}, timeout=60).raise_for_status()


@pytest.fixture
def ecs(amazon: str) -> Any:
    """A cluster and a definition that suits both launch types."""
    made: Any = boto3.client("ecs")
    made.create_cluster(clusterName="jobs")
    define(made, "executor", "executor")
    return made


def define(ecs: Any, family: str, *containers: str) -> None:
    ecs.register_task_definition(
        family=family, networkMode="awsvpc", requiresCompatibilities=["FARGATE", "EC2"], cpu="256", memory="512",
        containerDefinitions=[{"name": name, "image": "runyard-worker", "memory": 256} for name in containers],
    )  # fmt: skip


@pytest.fixture
def on_ecs(amazon: str, ecs: Any) -> dict[str, Any]:
    """Settings with which a runner executes its jobs on ECS."""
    ec2: Any = boto3.client("ec2")
    return {
        "RUNYARD_JOB_DISPATCHER_TYPE": "ecs",
        f"{DATA}TASK_DEFINITION": "executor",
        f"{DATA}CLUSTER": "jobs",
        f"{DATA}REGION": REGION,
        f"{DATA}SUBNETS": ec2.describe_subnets()["Subnets"][0]["SubnetId"],
        # ECS takes the VPC's own when none is named; moto fails without.
        f"{DATA}SECURITY_GROUPS": ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"],
        f"{DATA}TASK_ROLE_ARN": ROLE,
        "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": "/nonexistent",
    }


def add_machine(ecs: Any) -> None:
    """A machine of one's own in the cluster, for the launch type `ec2`."""
    ec2: Any = boto3.client("ec2")
    image = ec2.describe_images()["Images"][0]["ImageId"]
    machine = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"][0]["InstanceId"]
    document = f'{{"instanceId": "{machine}"}}'
    ecs.register_container_instance(cluster="jobs", instanceIdentityDocument=document)


def task_of(ecs: Any) -> dict[str, Any]:
    """Wait for the task that the runner starts."""
    arns = wait_until(lambda: ecs.list_tasks(cluster="jobs")["taskArns"], timeout_seconds=180, every_seconds=0.2)
    found: dict[str, Any] = ecs.describe_tasks(cluster="jobs", tasks=arns)["tasks"][0]
    return found


def run_task(bench: Bench, task: dict[str, Any], folder: Path) -> Box:
    """Do what ECS would: run the task's command with the task's variables, and nothing else."""
    override = task["overrides"]["containerOverrides"][0]
    environment = {item["name"]: item["value"] for item in override["environment"]}
    script = f'export HOME={folder} PYTHONPATH={PROJECT}\nexec {sys.executable} -m worker.cli "$@"'
    programs = write_executor(folder / "image", script)
    (programs / "tofu").symlink_to(bench.tofu)
    return Box(programs, override["command"], environment)


@pytest.mark.parametrize("launch_type", sampled(["fargate", "ec2"], 1))
def test_a_job_runs_as_a_task_and_its_executor_reports_it(
    bench: Bench, ecs: Any, on_ecs: dict[str, Any], tmp_path: Path, launch_type: str
) -> None:
    if launch_type == "ec2":
        add_machine(ecs)
    variables = on_ecs | {f"{DATA}LAUNCH_TYPE": launch_type}
    worker = bench.register()
    code, found = findings(bench, worker, tmp_path / "doctor", **variables)
    assert (code, found["ECS"]["verdict"], found["Task definition"]["verdict"]) == (0, "ok", "ok"), found
    process = bench.start_worker(worker, **variables)
    bench.online(worker)
    job = bench.enqueue("PLAN", bench.module())
    task = task_of(ecs)
    assert (task["launchType"], task["overrides"]["taskRoleArn"]) == (launch_type.upper(), ROLE)
    box = run_task(bench, task, tmp_path)
    ended = bench.wait_job(job)
    assert ended["status"] == "SUCCEEDED", ended["error"]
    assert box.wait() == 0
    ecs.stop_task(cluster="jobs", task=task["taskArn"], reason="Essential container in task exited")
    wait_until(lambda: process.said("executor_ended"), timeout_seconds=180)
    said = next(event for event in process.events() if event.get("id") == "executor_ended")
    # On a slow machine the runner sees that the job is over before ECS reports it, and stops the task itself.
    assert said["exit_code"] == 0


def test_the_job_of_a_task_that_exits_with_0_before_any_report_is_returned(
    bench: Bench, ecs: Any, on_ecs: dict[str, Any]
) -> None:
    bench.runner(**on_ecs)
    job = bench.enqueue("PLAN", bench.module())
    ecs.stop_task(cluster="jobs", task=task_of(ecs)["taskArn"], reason="Essential container in task exited")
    said = bench.given_back(job)
    assert "Essential container in task exited (exit code 0), before it had told anything" in said
    assert "Is the dispatcher's image a Runyard worker image" in said


def test_a_task_that_stops_without_an_exit_code_fails_its_job_with_the_reason_from_ecs(
    bench: Bench, ecs: Any, on_ecs: dict[str, Any]
) -> None:
    # Moto reports a task's first container alone, always with exit code 0: the second has none, as on a lost host.
    define(ecs, "beside", "router", "executor")
    bench.runner(**on_ecs | {f"{DATA}TASK_DEFINITION": "beside"})
    job = bench.enqueue("PLAN", bench.module())
    ecs.stop_task(cluster="jobs", task=task_of(ecs)["taskArn"], reason="Host was taken away")
    ended = bench.wait_job(job)
    assert (ended["status"], ended["error"]["code"]) == ("FAILED", "executor_lost"), ended["error"]
    assert "Host was taken away" in ended["error"]["message"]
