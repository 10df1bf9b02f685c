"""Executors as ECS tasks."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from worker.clock import Clock
from worker.dispatch.base import COMMAND, LOST, Dispatcher, Execution, Order, whole_environment
from worker.errors import RunnerUnfit
from worker.runtime_log import get_logger
from worker.settings.dispatcher import LaunchType
from worker.settings.model import Settings

CONFIG = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10, read_timeout=60)
POLL_SECONDS = 5.0
# ECS lists a new task, or any, with a delay: only one that stays unknown for so long has ended.
UNKNOWN_SECONDS = 120.0
NEVER_BEGAN = "TaskFailedToStart"
NO_IMAGE = "CannotPull"


class EcsExecution(Execution):
    """One task."""

    def __init__(self, client: Any, cluster: str, arn: str, container: str, clock: Clock) -> None:
        self.client = client
        self.cluster = cluster
        self.arn = arn
        self.container = container
        self.clock = clock
        self.why = ""
        self._is_noted = False

    async def wait(self) -> int:
        """Return the exit code of the task's executor once the task has stopped."""
        known_at = self.clock.monotonic()
        while True:
            try:
                task = await self._describe()
            except (BotoCoreError, ClientError) as error:
                self._note(error)
            else:
                if task is not None and task.get("lastStatus") == "STOPPED":
                    return self._exit_code(task)
                if task is not None:
                    known_at = self.clock.monotonic()
                elif self.clock.monotonic() - known_at > UNKNOWN_SECONDS:
                    self.why = "ECS does not know the task any more"
                    return LOST
            await self.clock.sleep(POLL_SECONDS)

    async def stop(self) -> None:
        """Stop the task: ECS sends SIGTERM, and SIGKILL after the definition's stopTimeout."""
        with suppress(BotoCoreError, ClientError):
            await asyncio.to_thread(
                self.client.stop_task, cluster=self.cluster, task=self.arn, reason="The job was cancelled"
            )

    async def kill(self) -> None:
        """Stop the task; ECS has no harder way."""
        await self.stop()

    async def remove(self) -> None:
        """Do nothing: ECS removes a stopped task."""

    async def _describe(self) -> dict[str, Any] | None:
        found = await asyncio.to_thread(self.client.describe_tasks, cluster=self.cluster, tasks=[self.arn])
        return next(iter(found["tasks"]), None)

    def _note(self, error: Exception) -> None:
        """Log once that ECS does not list the task; the executor still works, so wait for it."""
        if not self._is_noted:
            self._is_noted = True
            hint = "The runner's role needs ecs:DescribeTasks."
            get_logger("worker.dispatch").error("ECS does not list the task", task=self.arn, why=str(error), hint=hint)

    def _exit_code(self, task: dict[str, Any]) -> int:
        """Read the container's exit code; a task that never ran has none, and its job can be done elsewhere."""
        mine = [each for each in task.get("containers", []) if each.get("name") == self.container]
        reasons = [task.get("stoppedReason"), *(each.get("reason") for each in mine)]
        self.why = "; ".join(dict.fromkeys(str(reason) for reason in reasons if reason)) or "the task stopped"
        for container in mine:
            if container.get("exitCode") is not None:
                self.why += f" (exit code {container['exitCode']})"
                return int(container["exitCode"])
        if task.get("stopCode") == NEVER_BEGAN or NO_IMAGE in self.why:
            raise RunnerUnfit(
                f"ECS could not start the executor: {self.why}",
                code="image" if NO_IMAGE in self.why else "dispatcher",
                hint="Check the task definition's image, execution role, secrets and logs, and the way out of its subnets.",
            )
        return LOST


class EcsDispatcher(Dispatcher):
    """Starts tasks in one cluster."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.data = settings.dispatcher.data
        self.clock = clock or Clock()
        self._client: Any = None

    @property
    def client(self) -> Any:
        """The connection to ECS."""
        make: Callable[..., Any] = boto3.client
        self._client = self._client or make("ecs", region_name=self.data.region, config=CONFIG)
        return self._client

    async def start(self, order: Order) -> EcsExecution:
        """Run one task; the attempt's name is the client token, so that a repeated call starts no second one."""
        try:
            answer = await asyncio.to_thread(lambda: self.client.run_task(**self.request(order)))
        except (BotoCoreError, ClientError) as error:
            raise self._refused(str(error)) from error
        if not answer["tasks"]:
            reasons = ", ".join(str(failure.get("reason")) for failure in answer.get("failures", []))
            raise self._refused(reasons or "no task was started")
        return self._execution(answer["tasks"][0]["taskArn"])

    async def find(self, name: str) -> EcsExecution | None:
        """Find a task by its starter; ECS lists one that has ended for about an hour."""
        try:
            for status in ("RUNNING", "STOPPED"):
                found = await asyncio.to_thread(
                    self.client.list_tasks, cluster=self.data.cluster, startedBy=name, desiredStatus=status
                )
                if found["taskArns"]:
                    return self._execution(found["taskArns"][0])
        except (BotoCoreError, ClientError) as error:
            raise self._refused(str(error)) from error
        return None

    def _execution(self, arn: str) -> EcsExecution:
        return EcsExecution(self.client, str(self.data.cluster), arn, self.data.container_name, self.clock)

    async def probe(self) -> None:
        """Ask for the cluster's tasks; whether the image can be had is seen with the next task only."""
        try:
            await asyncio.to_thread(lambda: self.client.list_tasks(cluster=self.data.cluster, maxResults=1))
        except (BotoCoreError, ClientError) as error:
            raise self._refused(str(error)) from error

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()

    def request(self, order: Order) -> dict[str, Any]:
        """Return the task as ECS describes it."""
        request: dict[str, Any] = {
            "cluster": self.data.cluster,
            "taskDefinition": self.data.task_definition,
            "launchType": self.data.launch_type.upper(),
            "count": 1,
            "clientToken": order.name,
            "startedBy": order.name,
            "overrides": self._overrides(order),
            "tags": [{"key": key, "value": value} for key, value in order.labels.items()],
        }
        return {**request, **self._network()}

    def _overrides(self, order: Order) -> dict[str, Any]:
        """Return the values with which this task overrides its definition's."""
        environment = whole_environment(order, self.settings)
        container = {
            "name": self.data.container_name,
            "command": list(COMMAND),
            "environment": [{"name": name, "value": value} for name, value in environment.items()],
        }
        role = {"taskRoleArn": self.data.task_role_arn} if self.data.task_role_arn else {}
        return {"containerOverrides": [container], **role}

    def _network(self) -> dict[str, Any]:
        """Return the task's network; every Fargate task has one of its own."""
        if not self.data.subnets and self.data.launch_type is LaunchType.EC2:
            return {}
        vpc: dict[str, Any] = {"subnets": self.data.subnets}
        if self.data.launch_type is LaunchType.FARGATE:
            vpc["assignPublicIp"] = "ENABLED" if self.data.assign_public_ip else "DISABLED"
        if self.data.security_groups:
            vpc["securityGroups"] = self.data.security_groups
        return {"networkConfiguration": {"awsvpcConfiguration": vpc}}

    def _refused(self, reason: str) -> RunnerUnfit:
        return RunnerUnfit(
            f"ECS could not start the executor: {reason}",
            code="dispatcher",
            hint="Check the task definition, the cluster, the subnets and the runner's right to ecs:RunTask.",
        )
