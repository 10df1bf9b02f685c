"""A stand-in for Fargate: it starts real runner processes the way the task definition says, as many as are desired."""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import boto3

from stack.settings import PROJECT
from worker.cloud.target_store import CLUSTER

# The image's tag is the version that is in it.
START = (
    "import sys; from worker import version; version.__version__ = sys.argv.pop(1); from worker.cli import main; main()"
)


class Fargate:
    """Looks at the services twice a second and makes it so."""

    def __init__(self, folder: Path, tofu: Path) -> None:
        self.folder = folder
        self.tofu = tofu
        self.tasks: dict[str, list[tuple[str, subprocess.Popen[bytes]]]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        session = boto3.session.Session()
        self.ecs: Any = session.client("ecs")
        self.secrets: Any = session.client("secretsmanager")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        for _, process in (task for tasks in self.tasks.values() for task in tasks):
            # Nobody asks any more how it leaves.
            process.kill()
            process.wait()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            # A service may name what no longer exists: the next round finds another service, or none.
            with suppress(self.ecs.exceptions.ClientError):
                self._look()

    def _look(self) -> None:
        wanted = {service["serviceName"]: service for service in self._services()}
        for name in {*wanted, *self.tasks}:
            service = wanted.get(name)
            count = service["desiredCount"] if service else 0
            self._match(name, count, service["taskDefinition"] if service else "")

    def _services(self) -> list[dict[str, Any]]:
        try:
            arns = self.ecs.list_services(cluster=CLUSTER)["serviceArns"]
            found = self.ecs.describe_services(cluster=CLUSTER, services=arns)["services"] if arns else []
        except self.ecs.exceptions.ClientError:
            return []
        return [service for service in found if service["status"] == "ACTIVE"]

    def _match(self, name: str, count: int, definition: str) -> None:
        running = self.tasks.setdefault(name, [])
        for task in [task for task in running if task[0] != definition or task[1].poll() is not None]:
            running.remove(task)
            end(task[1])
        while len(running) > count:
            end(running.pop()[1])
        while len(running) < count:
            running.append((definition, self._start(definition)))

    def _start(self, definition: str) -> "subprocess.Popen[bytes]":
        task = self.ecs.describe_task_definition(taskDefinition=definition)["taskDefinition"]
        container = task["containerDefinitions"][0]
        version = container["image"].rsplit(":", 1)[1]
        home = self.folder / f"task-{len(list(self.folder.iterdir()))}"
        home.mkdir()
        with (home / "log").open("wb") as log:
            program, *arguments = container["command"]
            assert program == "runyard-worker", "the image has no other program"
            command = [sys.executable, "-c", START, version, *arguments]
            return subprocess.Popen(
                command, cwd=PROJECT, env=self._environment(container, home), stdout=log, stderr=log
            )

    def _environment(self, container: dict[str, Any], home: Path) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("RUNYARD_", "SUPABASE_", "AWS_"))
        }
        given = {entry["name"]: entry["value"] for entry in container["environment"]}
        for entry in container["secrets"]:
            given[entry["name"]] = self.secrets.get_secret_value(SecretId=entry["valueFrom"])["SecretString"]
        own = {
            "WORKER_INSTANCE": home.name,
            "RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY": str(home),
            "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": str(self.tofu.parent),
            # As in an image: without the engines of the user who runs the tests.
            "RUNYARD_ENGINE_CACHE": str(home / "engine-cache"),
        }
        return kept | given | own


def end(process: "subprocess.Popen[bytes]") -> None:
    """Stop a task as ECS does: SIGTERM, then, when it takes too long, SIGKILL."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
