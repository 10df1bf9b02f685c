"""The address to which the built page connects."""

import json
import os
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from cli.dashboard.serve import PLAIN_FACTS, build_fingerprint, dashboard_environment, socket_address
from cli.dashboard.settings import DashboardSettings
from cli.errors import ExitCode
from stack.settings import PROJECT, Settings


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("", "http://localhost:3000"),
        # Reflex's own rule finds these from the page's host, so that localhost continues to work, too.
        ("https://runyard.example.com", "http://localhost:3000"),
        ("https://runyard.example.com:443/", "http://localhost:3000"),
        ("http://10.0.0.5:3000", "http://localhost:3000"),
        ("https://runyard.example.com:8443", "https://runyard.example.com:8443"),
        ("http://runyard.internal", "http://runyard.internal"),
    ],
)
def test_the_page_connects_to_where_it_is_opened(url: str, address: str) -> None:
    settings = DashboardSettings(dashboard_address=url)
    assert socket_address(settings) == address
    assert dashboard_environment(settings)["REFLEX_API_URL"] == address


def test_another_address_builds_the_page_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build_fingerprint(DashboardSettings())
    monkeypatch.setenv("RUNYARD_DASHBOARD_URL", "http://runyard.internal/")
    assert DashboardSettings().dashboard_url == "http://runyard.internal"
    assert build_fingerprint(DashboardSettings()) != before


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"RUNYARD_PORT_OFFSET": "100", "RUNYARD_HOME": "somewhere", "RUNYARD_CACHE": "~/elsewhere"},
        {
            "RUNYARD_DASHBOARD_URL": "https://runyard.example.com/",
            "RUNYARD_DASHBOARD_BASE": "4000",
            "RUNYARD_HOST": "0.0.0.0",
        },
    ],
)
def test_the_dashboard_reads_its_variables_as_the_stack_does(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ours, stack = DashboardSettings(), Settings()
    names = ("home", "host", "dashboard_port", "dashboard_url", "dashboard_local_url", "cache_folder")
    assert {name: getattr(ours, name) for name in names} == {name: getattr(stack, name) for name in names}


def test_a_port_in_use_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    """The other server shares its port with any process, as the server itself does."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        project = {"SUPABASE_URL": "http://127.0.0.1:9", "SUPABASE_PUBLISHABLE_KEY": "sb_publishable_x"}
        own = {"RUNYARD_HOME": str(tmp_path), "RUNYARD_DASHBOARD_BASE": str(port), "RUNYARD_PORT_OFFSET": "0"}
        done = subprocess.run(
            [sys.executable, "-m", "cli", "dashboard"], cwd=PROJECT, env=os.environ | project | own,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == ExitCode.TAKEN, done.stderr
    assert f"port {port}: Address already in use" in done.stderr
    assert "RUNYARD_PORT_OFFSET=100" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_reflex_puts_its_version_alone_into_the_page(tmp_path: Path) -> None:
    """Its own file has a random number and the time, which would give every file of the page another name."""
    facts = tmp_path / "reflex.json"
    facts.write_text('{"project_hash": 1, "last_reflex_run_datetime": "now"}')
    environment = os.environ | {"REFLEX_WEB_WORKDIR": str(tmp_path), "REFLEX_TELEMETRY_ENABLED": "false"}
    set_up = f"{PLAIN_FACTS}\nfrom pathlib import Path\nfrom reflex.utils import build\nbuild.setup_frontend(Path())"
    subprocess.run([sys.executable, "-c", set_up], cwd=PROJECT, env=environment, check=True)
    assert json.loads(facts.read_text()) == {"version": version("reflex")}
