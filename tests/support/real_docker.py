"""A Docker daemon that is really there, with the runner's image: tests that need it are skipped, with a reason, elsewhere."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from stack.settings import PROJECT
from tests.support.must import unavailable

IMAGE_VARIABLE = "RUNYARD_TEST_RUNNER_IMAGE"
INSIDE = "/opt/runyard/lib/python3.13/site-packages/worker"
PROGRAM = "/opt/runyard/bin/runyard-worker"


@dataclass(frozen=True)
class RealDocker:
    """One daemon, spoken to by its own command."""

    host: str
    image: str
    gateway: str

    def __call__(self, *arguments: str, is_checked: bool = True) -> str:
        done = subprocess.run(
            ["docker", "-H", self.host, *arguments], capture_output=True, text=True, check=False, timeout=300
        )
        assert not is_checked or done.returncode == 0, done.stderr
        return done.stdout.strip()

    @property
    def code(self) -> str:
        """The binding that puts the code under test into the image's place."""
        return f"{PROJECT / 'worker'}:{INSIDE}:ro"


def find_docker(host: str | None = None) -> RealDocker:
    """The daemon that DOCKER_HOST, or Docker's own default, names; or a skipped test."""
    host = host or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    image = os.environ.get(IMAGE_VARIABLE, "runyard-worker")
    try:
        found = subprocess.run(
            ["docker", "-H", host, "image", "inspect", image], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        unavailable("docker", "no docker command is here")
    if found.returncode:
        why = found.stderr.strip().splitlines()[-1:] or ["no answer"]
        unavailable("docker", f"no Docker daemon with the image {image}: {why[0]}")
    return RealDocker(host, image, gateway_of("docker0"))


def gateway_of(bridge: str) -> str:
    """This machine's address on a bridge of containers."""
    found = subprocess.run(["ip", "-json", "-4", "addr", "show", bridge], capture_output=True, text=True, check=False)
    try:
        return str(json.loads(found.stdout)[0]["addr_info"][0]["local"])
    except (ValueError, LookupError):
        pytest.skip(f"the bridge {bridge} is not on this machine: the daemon is elsewhere")


@pytest.fixture(scope="session")
def real_docker() -> RealDocker:
    """The machine's Docker."""
    return find_docker()


def is_readable_by_others(path: Path) -> bool:
    """Whether the image's user could read a folder of this machine."""
    return all(each.stat().st_mode & 0o001 for each in [path, *path.parents])
