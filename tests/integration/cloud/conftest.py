"""A real AWS API on loopback: moto's server, started for the tests of this folder."""

import os
import subprocess
import sys
from collections.abc import Iterator

import boto3
import httpx
import pytest

from tests.support.ports import free_port
from tests.support.waiting import wait_until
from worker.cloud.session import new_session


@pytest.fixture(scope="session")
def aws_endpoint() -> Iterator[str]:
    """The address of moto's server."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        address = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: _answers(address))
            yield address
        finally:
            server.terminate()


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/moto-api/", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def aws(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Point boto3, here and in child processes, at an empty account."""
    httpx.post(f"{aws_endpoint}/moto-api/reset", timeout=60).raise_for_status()
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws_endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert os.environ["AWS_ENDPOINT_URL"] == aws_endpoint
    # The large descriptions of AWS's services are read once for all tests, as the runner itself does.
    boto3.DEFAULT_SESSION = new_session(region_name="eu-west-1")
    return aws_endpoint
