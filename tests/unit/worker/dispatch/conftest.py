"""An order to execute, and settings for each dispatcher."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from worker.dispatch.base import Order
from worker.settings.load import load_settings
from worker.settings.model import Settings

RUNNER_TOKEN = "ryw_the_record_s_own_token"
REGION = "us-east-2"
MakeSettings = Callable[..., Settings]


@pytest.fixture
def order() -> Order:
    return Order(41, 2, "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11", "http://outside:1", "sb_publishable_x", "job-token")


@pytest.fixture
def make_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeSettings:
    """Load settings from dispatcher variables, given without their prefix."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def make(**variables: str) -> Settings:
        environ = {f"RUNYARD_JOB_DISPATCHER_{name}": value for name, value in variables.items()}
        needed = {"WORKER_ID": "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11", "SUPABASE_URL": "http://outside:1"}
        return load_settings(environ={**needed, "WORKER_TOKEN": RUNNER_TOKEN, **environ})

    return make


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
