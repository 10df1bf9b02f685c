"""The compose files, started by a real Docker daemon."""

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from stack.settings import PROJECT
from tests.integration.worker_bench import Bench, bench
from tests.support.forwarding import forwarded
from tests.support.must import unavailable
from tests.support.ports import free_ports
from tests.support.real_docker import RealDocker, gateway_of, real_docker
from tests.support.waiting import wait_until

__all__ = ["bench", "real_docker"]
SERVER_IMAGE_VARIABLE = "RUNYARD_TEST_SERVER_IMAGE"
FILE = "deploy/server/compose.yaml"
WORDS = "echo correct horse battery > /tmp/words"


class Compose:
    """One project of one file."""

    def __init__(self, host: str, file: str, **variables: str) -> None:
        self.host = host
        self.command = [*compose_command(host), "-p", f"test-{uuid.uuid4().hex[:8]}", "-f", str(PROJECT / file)]
        self.environment = {**os.environ, "DOCKER_HOST": host, **variables}

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self.command, *arguments], env=self.environment, capture_output=True, text=True, check=False, timeout=500
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def health(self, service: str) -> str:
        """The result of the image's own health check, from the daemon."""
        found = subprocess.run(
            ["docker", "-H", self.host, "inspect", self("ps", "-q", service)],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return str(json.loads(found.stdout)[0]["State"].get("Health", {}).get("Status"))


def compose_command(host: str) -> list[str]:
    """Compose as a part of docker, or the older program beside it."""
    is_part = subprocess.run(["docker", "-H", host, "compose", "version"], capture_output=True, check=False)
    if is_part.returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose") is None:
        unavailable("docker", "there is no docker compose")
    return ["docker-compose"]


@contextmanager
def started(compose: Compose, *services: str) -> Iterator[Compose]:
    """Start services from existing images, and remove all of it afterwards."""
    try:
        compose("up", "-d", "--no-build", *services)
        yield compose
    except (AssertionError, TimeoutError, httpx.HTTPError) as error:
        raise AssertionError(compose("logs")[-4000:]) from error
    finally:
        compose("down", "--volumes", "--timeout", "60")


@pytest.fixture(scope="module")
def host() -> str:
    """The daemon of this machine, if it has the server's image."""
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    image = os.environ.get(SERVER_IMAGE_VARIABLE, "runyard-server")
    if shutil.which("docker") is None:
        unavailable("docker", "no docker command is here")
    found = subprocess.run(
        ["docker", "-H", host, "image", "inspect", image], capture_output=True, check=False, timeout=60
    )
    if found.returncode:
        unavailable("docker", f"no Docker daemon with the image {image}")
    gateway_of("docker0")
    return host


def variables(**others: str) -> tuple[dict[str, str], int, int]:
    dashboard, api = free_ports(2)
    image = os.environ.get(SERVER_IMAGE_VARIABLE, "runyard-server")
    named = {"RUNYARD_SERVER_IMAGE": image, "RUNYARD_DASHBOARD_PORT": str(dashboard), "RUNYARD_API_PORT": str(api)}
    return named | others, dashboard, api


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=30, follow_redirects=True).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.slow
def test_one_command_starts_the_server_side_and_its_backup_starts_another(host: str, tmp_path: Path) -> None:
    account = {"email": "ada@example.com", "password": uuid.uuid4().hex}
    backup = tmp_path / "backup"
    given, dashboard, api = variables(RUNYARD_SIGN_UP="open")
    with started(Compose(host, FILE, **given)) as compose:
        wait_until(lambda: compose.health("runyard") == "healthy", timeout_seconds=400, every_seconds=1)
        assert answers(f"http://127.0.0.1:{dashboard}/login")
        assert answers(f"http://127.0.0.1:{api}/functions/v1/health")
        inside = ("exec", "-T", "runyard")
        assert compose(*inside, "id", "-u") == "10001"
        key = json.loads(compose(*inside, "runyard", "status", "--json"))["SUPABASE_PUBLISHABLE_KEY"]
        assert auth(api, key, "signup", account) == 200
        write = f"{WORDS} && runyard backup /tmp/b --passphrase-file /tmp/words >&2 && cat /tmp/b"
        with backup.open("wb") as output:
            subprocess.run(
                [*compose.command, *inside, "sh", "-c", write], env=compose.environment, stdout=output, check=True
            )
    second, _, api = variables()
    other = Compose(host, FILE, **second)
    restore = f"{WORDS} && cat > /tmp/b && runyard restore /tmp/b --passphrase-file /tmp/words"
    with backup.open("rb") as given_file:
        subprocess.run(
            [*other.command, "run", "--rm", "-T", "runyard", "sh", "-c", restore],
            env=other.environment, stdin=given_file, check=True,
        )  # fmt: skip
    with started(other):
        wait_until(lambda: answers(f"http://127.0.0.1:{api}/health"), timeout_seconds=400, every_seconds=1)
        assert auth(api, key, "token?grant_type=password", account) == 200


def auth(api: int, key: str, path: str, account: dict[str, str]) -> int:
    """Send an account to Auth; its answer's status."""
    url = f"http://127.0.0.1:{api}/auth/v1/{path}"
    return httpx.post(url, json=account, headers={"apikey": key}, timeout=60).status_code


@pytest.mark.slow
def test_the_dashboard_alone_serves_a_project_elsewhere(host: str, bench: Bench) -> None:
    port = urlsplit(bench.project.url).port or 80
    with forwarded(gateway_of("docker0"), ("127.0.0.1", port)) as given_port:
        project = f"http://{gateway_of('docker0')}:{given_port}"
        given, dashboard, _ = variables(SUPABASE_URL=project, SUPABASE_PUBLISHABLE_KEY=bench.project.publishable_key)
        with started(Compose(host, FILE, **given), "dashboard") as compose:
            wait_until(lambda: compose.health("dashboard") == "healthy", timeout_seconds=400, every_seconds=1)
            assert answers(f"http://127.0.0.1:{dashboard}/login")


def test_the_runners_compose_file_brings_a_runner_online(real_docker: RealDocker, bench: Bench, tmp_path: Path) -> None:
    worker, token = bench.register()
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    file.chmod(0o444)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o001)
    port = urlsplit(bench.project.url).port or 80
    with forwarded(real_docker.gateway, ("127.0.0.1", port)) as given:
        named = {"WORKER_ID": worker, "WORKER_TOKEN_FILE": str(file), "WORKER_INSTANCE": "from-compose"}
        url = f"http://{real_docker.gateway}:{given}"
        with started(Compose(real_docker.host, "deploy/compose.yaml", SUPABASE_URL=url, **named)):
            bench.online((worker, token))
            assert bench.finished("PLAN", bench.module())["worker_id"] == worker
