"""The edge functions in a Deno process of the test's own, in front of the running stack."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from stack.functions import functions_command, functions_environment
from tests.integration.edge.people import Person, Runner
from tests.integration.worker_bench import plain_client
from tests.support.ports import free_ports
from tests.support.stack import RunningStack
from tests.support.waiting import wait_until

RELEASE_TOKEN = "release-credential-of-the-pipeline"
METRICS_TOKEN = "credential-of-the-monitoring"


@dataclass(frozen=True)
class Edge:
    """The functions' address."""

    url: str
    stack: RunningStack
    pid: int = 0
    http: httpx.Client = field(default_factory=plain_client)

    def cpu_seconds(self) -> float:
        """The computing time of the functions, in all of their threads, without the delays of a busy machine."""
        return sum(psutil.Process(self.pid).cpu_times()[:2])

    def post(self, function: str, body: Any, token: str | None = None, **headers: str) -> httpx.Response:
        """Send JSON, with a Bearer token if there is one."""
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        return self.http.post(f"{self.url}/{function}", json=body, headers=headers)

    def worker_rpc(self, token: str, name: str, **arguments: Any) -> httpx.Response:
        """Call a database function with a runner's token."""
        headers = {"apikey": self.stack.publishable_key, "authorization": f"Bearer {token}"}
        return httpx.post(f"{self.stack.url}/rest/v1/rpc/{name}", json=arguments, headers=headers, timeout=60)


@pytest.fixture(scope="session")
def edge(running_stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """Start the functions as the stack does, with secrets that only these tests know."""
    environment = functions_environment(running_stack.settings, running_stack.secrets)
    [port] = free_ports(1)
    setup = json.loads(environment["RUNYARD_FUNCTIONS"])
    environment |= {
        "RUNYARD_FUNCTIONS": json.dumps({**setup, "port": port}),
        "RELEASE_PUBLISH_TOKEN": RELEASE_TOKEN,
        "METRICS_TOKEN": METRICS_TOKEN,
        "RUNYARD_ALLOW_PRIVATE_ISSUERS": "true",
    }
    log = tmp_path_factory.mktemp("edge") / "log"
    command = functions_command(running_stack.settings, environment)
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as process:
        try:
            wait_until(lambda: is_up(port, process, log), timeout_seconds=180, every_seconds=0.2)
            yield Edge(f"http://127.0.0.1:{port}", running_stack, process.pid)
        finally:
            process.terminate()


def is_up(port: int, process: subprocess.Popen[bytes], log: Path) -> bool:
    """Return whether the functions answer; fail with the log of a process that has ended."""
    if process.poll() is not None:
        raise ChildProcessError(log.read_text())
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).is_success
    except httpx.HTTPError:
        return False


@pytest.fixture
def other_edge(running_stack: RunningStack, tmp_path: Path) -> Iterator[Any]:
    """Functions with other settings of the issuer than the stack's."""
    started: list[subprocess.Popen[bytes]] = []

    def start(**settings: str) -> Edge:
        [port] = free_ports(1)
        environment = functions_environment(running_stack.settings, running_stack.secrets)
        setup = {**json.loads(environment["RUNYARD_FUNCTIONS"]), "port": port}
        environment |= {"RUNYARD_FUNCTIONS": json.dumps(setup), **settings}
        log = tmp_path / f"{port}.log"
        with log.open("wb") as output:
            command = functions_command(running_stack.settings, environment)
            started.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
        wait_until(lambda: is_up(port, started[-1], log), timeout_seconds=180, every_seconds=0.2)
        return Edge(f"http://127.0.0.1:{port}", running_stack)

    yield start
    for process in started:
        process.terminate()
        process.wait(60)


@pytest.fixture
def person(running_stack: RunningStack) -> Person:
    return Person(running_stack)


@pytest.fixture
def runner(person: Person) -> Runner:
    return person.register()


@pytest.fixture
def sql(running_stack: RunningStack) -> Iterator[psycopg.Connection[Any]]:
    """A connection as the database's owner."""
    with psycopg.connect(running_stack.db_url, autocommit=True) as connection:
        yield connection
