"""A private registry that is really there: distribution's own program behind a user and a password, on loopback."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bcrypt
import httpx
import pytest

from tests.support.ports import free_port
from tests.support.real_docker import RealDocker
from tests.support.waiting import wait_until

CONFIG = """
version: 0.1
storage: {filesystem: {rootdirectory: FOLDER/blobs}}
http: {addr: "ADDRESS"}
auth: {htpasswd: {realm: test, path: FOLDER/htpasswd}}
"""
USER, PASSWORD = "puller", "correct horse battery staple"


@dataclass(frozen=True)
class PrivateRegistry:
    """Its address, and the runner's image in it."""

    address: str
    image: str


@pytest.fixture(scope="session")
def private_registry(real_docker: RealDocker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateRegistry]:
    """A registry with the runner's image, which the daemon itself has under another name alone."""
    program = os.environ.get("RUNYARD_TEST_REGISTRY") or shutil.which("registry")
    if program is None:
        pytest.skip("no registry program is here: RUNYARD_TEST_REGISTRY names distribution's")
    folder, address = tmp_path_factory.mktemp("registry"), f"127.0.0.1:{free_port()}"
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(5)).decode()
    (folder / "htpasswd").write_text(f"{USER}:{hashed}\n")
    config = folder / "config.yml"
    config.write_text(CONFIG.replace("FOLDER", str(folder)).replace("ADDRESS", address))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(config)], stdout=log, stderr=log)
    try:
        wait_until(lambda: status_of(address) == httpx.codes.UNAUTHORIZED, timeout_seconds=60)
        yield PrivateRegistry(address, push(real_docker, address, folder))
    finally:
        process.terminate()
        process.wait(30)


def status_of(address: str) -> int:
    try:
        return httpx.get(f"http://{address}/v2/").status_code
    except httpx.HTTPError:
        return 0


def push(docker: RealDocker, address: str, folder: Path) -> str:
    """Push the runner's image as somebody who may; that somebody's password is not kept where the daemon finds it."""
    image, own = f"{address}/team/runner:1", ("--config", str(folder / "docker"))
    docker("tag", docker.image, image)
    docker(*own, "login", "--username", USER, "--password", PASSWORD, address)
    docker(*own, "push", "--quiet", image)
    docker("rmi", image)
    return image
