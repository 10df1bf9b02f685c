"""The parts that the supervisor runs, in the order they start."""

import os
import signal
import sys
from functools import partial
from pathlib import Path

from cli.launcher.health import (
    is_dashboard_healthy,
    is_functions_healthy,
    is_gateway_alive,
    is_gateway_healthy,
    is_postgres_healthy,
)
from cli.launcher.process import Part
from stack.functions import functions_command, functions_environment
from stack.postgres import Cluster
from stack.secrets import Secrets
from stack.settings import PROJECT, Settings

VENV_BIN = Path(sys.prefix) / "bin"


def postgres_part(cluster: Cluster) -> Part:
    """PostgreSQL; SIGINT is its fast and safe shutdown."""
    return Part(
        "postgres",
        cluster.command,
        partial(is_postgres_healthy, cluster),
        account=cluster.account,
        stop_signal=signal.SIGINT,
        stop_seconds=30,
    )


def gateway_part(settings: Settings) -> Part:
    """REST, Auth, Realtime and the way to the functions, in one ASGI process."""
    command = [
        sys.executable, "-m", "cli.granian", "--interface", "asgi", "--factory", "stack.gateway:create",
        "--host", settings.host, "--port", str(settings.gateway_port),
        "--workers", "1", "--no-access-log", "--log-level", "warning",
        "--workers-kill-timeout", "5", "--respawn-failed-workers",
    ]  # fmt: skip
    return Part(
        "gateway",
        lambda: command,
        partial(is_gateway_healthy, settings),
        partial(is_gateway_alive, settings),
        environment=lambda: _environment(settings),
        folder=PROJECT,
    )


def functions_part(settings: Settings, secrets: Secrets) -> Part:
    """The edge functions; command and environment are built at each start, as functions come and go."""
    environment = partial(functions_environment, settings, secrets)
    return Part(
        "functions",
        lambda: functions_command(settings, environment()),
        partial(is_functions_healthy, settings),
        environment=environment,
        folder=settings.supabase_folder,
        start_seconds=180,
    )


def dashboard_part(settings: Settings, secrets: Secrets) -> Part:
    """The dashboard as production serves it; the first start builds the page."""
    client = {
        # Not the public address: a container or a firewall may not let this machine reach it.
        "SUPABASE_URL": f"http://127.0.0.1:{settings.gateway_port}",
        "RUNYARD_RUNNER_URL": os.environ.get("RUNYARD_RUNNER_URL") or settings.url,
        "SUPABASE_PUBLISHABLE_KEY": secrets.publishable_key,
        "RUNYARD_FORWARDING_KEY": secrets.forwarding_key,
    }
    return Part(
        "dashboard",
        lambda: [sys.executable, "-m", "cli", "dashboard"],
        partial(is_dashboard_healthy, settings),
        environment=lambda: {**_environment(settings), **client},
        folder=PROJECT,
        start_seconds=600,
    )


def _environment(settings: Settings) -> dict[str, str]:
    """The machine's environment with the state folder pinned and the venv's programs first."""
    path = f"{VENV_BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SUPABASE_")}
    return {**inherited, "PATH": path, "RUNYARD_HOME": str(settings.home), "PYTHONUNBUFFERED": "1"}
