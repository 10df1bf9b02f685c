"""The dashboard's process: builds the frontend when something changed, then serves page and websocket on one port."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from cli.dashboard.kept_pages import BUILT_ADDRESS, provide_page
from cli.dashboard.settings import DashboardSettings
from cli.errors import CommandError, ExitCode
from cli.folders import PROJECT, sources_folder

CONFIG = "zensical.toml"

VENV_BIN = Path(sys.prefix) / "bin"
SOURCES = ("app", "assets", "reflex.lock", "rxconfig.py", "requirements.txt")


def run_dashboard(settings: DashboardSettings) -> None:
    """Build if needed and become the server; does not return."""
    need_free_port(settings)
    environment = build_dashboard(settings)
    os.chdir(_workplace(settings))
    os.execve(sys.executable, _serve_command(settings), environment)  # noqa: S606 - the supervisor watches this process


def build_dashboard(settings: DashboardSettings) -> dict[str, str]:
    """Provide the page and the documentation if they are not current; the environment to serve them with."""
    environment = dashboard_environment(settings)
    environment["RUNYARD_DOCS_DIRECTORY"] = str(build_documentation(settings))
    stamp = settings.home / "web.stamp"
    fingerprint = build_fingerprint(settings)
    if not stamp.exists() or stamp.read_text() != fingerprint or not _built(settings).exists():
        stamp.unlink(missing_ok=True)
        _copy_sources(settings)
        _provide(settings, environment)
        stamp.write_text(fingerprint)
    return environment


def need_free_port(settings: DashboardSettings) -> None:
    """Refuse a port that another process has: the server would share it, and answer every second request."""
    with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.dashboard_port))
        except OSError as error:
            raise CommandError(
                f"The dashboard cannot listen on {settings.host}, port {settings.dashboard_port}: {error.strerror}.",
                "Stop what listens there, or choose another port: RUNYARD_PORT_OFFSET=100.",
                ExitCode.TAKEN,
            ) from error


def dashboard_environment(settings: DashboardSettings) -> dict[str, str]:
    """Return the environment that Reflex needs to build and serve on one port without requests to the outside."""
    return {
        **os.environ,
        "PATH": f"{VENV_BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "RUNYARD_DASHBOARD_PORT": str(settings.dashboard_port),
        "REFLEX_WEB_WORKDIR": str(settings.home / "web"),
        "REFLEX_API_URL": socket_address(settings),
        # Sign-ins outlive a restart: encrypted, in the folder that nobody else may read.
        "RUNYARD_SESSION_DIRECTORY": os.environ.get("RUNYARD_SESSION_DIRECTORY", str(settings.home / "sessions")),
        "REFLEX_TELEMETRY_ENABLED": "false",
        "REFLEX_CHECK_LATEST_VERSION": "false",
        "REFLEX_ENV_MODE": "prod",
    }


def socket_address(settings: DashboardSettings) -> str:
    """Return the address that the page connects to, which is baked into it.

    For localhost the page uses the host that it was opened by: with this port over http, with https's own port over https.
    That fits nearly every address, and opening the page on this machine still works. Others are baked in as they are.
    """
    parts = urlsplit(settings.dashboard_url)
    is_found = parts.port == settings.dashboard_port if parts.scheme == "http" else parts.port in (None, 443)
    return settings.dashboard_local_url if is_found else f"{parts.scheme}://{parts.netloc}"


def build_fingerprint(settings: DashboardSettings) -> str:
    """Changes when a source of the page or the address that it connects to changes."""
    return f"{source_fingerprint()} {socket_address(settings)}"


def source_fingerprint() -> str:
    """Changes when a source of the page, or how it is built, changes."""
    return _digest(f"{sys.version} {BUILD} {REPRODUCIBLE}".encode(), SOURCES)


def _workplace(settings: DashboardSettings) -> Path:
    """Return the folder in which the page is built and served: the clone, else a copy, as an installed program may be read-only."""
    return PROJECT if sources_folder() == PROJECT else settings.home / "dashboard"


def _copy_sources(settings: DashboardSettings) -> None:
    place = _workplace(settings)
    if place != PROJECT:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(sources_folder(), place, ignore=shutil.ignore_patterns("__pycache__", "docs"))


def _provide(settings: DashboardSettings, environment: Mapping[str, str]) -> None:
    """Take the page that was built from the same sources, or build it."""
    shelf, address = settings.cache_folder / "pages", socket_address(settings)
    provide_page(shelf, source_fingerprint, _built(settings), address, lambda: _build(settings, environment))


def _build(settings: DashboardSettings, environment: Mapping[str, str]) -> None:
    print("building the page; half a minute, a little more the first time", flush=True)
    settings.home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", BUILD, "export", "--frontend-only", "--no-zip", "--loglevel", "warning"]
    place = _workplace(settings)
    with _lock_kept(place / "reflex.lock" / "package.json"):
        result = subprocess.run(command, cwd=place, env={**environment, **REPRODUCIBLE}, check=False)
    if result.returncode != 0:
        # The leftovers of a broken attempt could break the next one, too.
        shutil.rmtree(settings.home / "web", ignore_errors=True)
        raise CommandError("The dashboard could not be built.", "Reflex printed the reason above.")


@contextmanager
def _lock_kept(file: Path) -> Iterator[None]:
    """Reflex and bun write this file in two styles; a build that changes no package must leave it as it was."""
    before = file.read_text() if file.exists() else ""
    yield
    if before and file.exists() and json.loads(file.read_text()) == json.loads(before):
        file.write_text(before)


def _serve_command(settings: DashboardSettings) -> list[str]:
    return [
        sys.executable, "-c", SERVE, "--interface", "asgi", "--factory", "app.app:app",
        "--host", settings.host, "--port", str(settings.dashboard_port),
        "--workers", os.environ.get("RUNYARD_DASHBOARD_WORKERS", "1"),
        "--log-level", "warning", "--no-access-log", "--workers-kill-timeout", "5", "--respawn-failed-workers",
    ]  # fmt: skip


# Files of the page are named after their content. Two dashboards behind one address, each with a build of its own, need
# the same names: Reflex derives names from Python's hashes, and the page contains the address.
REPRODUCIBLE = {"PYTHONHASHSEED": "0", "REFLEX_API_URL": BUILT_ADDRESS}
# The page contains reflex.json, of which it needs the version alone; Reflex also writes a random number and the time there.
PLAIN_FACTS = """
import json
from reflex import constants
from reflex.utils import prerequisites
def write_version():
    file = prerequisites.get_web_dir() / constants.Reflex.JSON
    file.write_text(json.dumps({"version": constants.Reflex.VERSION}))
prerequisites.set_last_reflex_run_time = write_version
"""
# Reflex keeps the states below another in a set of classes, which Python orders by their addresses in memory.
ORDERED_STATES = """
from reflex_base.registry import RegistrationContext
def get_substates(self, state):
    name = state if isinstance(state, str) else state.get_full_name()
    return sorted(self.base_state_substates.get(name, ()), key=lambda each: each.get_full_name())
RegistrationContext.get_substates = get_substates
"""
BUILD = f"""
{PLAIN_FACTS}
{ORDERED_STATES}
from reflex.reflex import cli
cli(prog_name="reflex")
"""

# Reflex serves a page that is built already when these two are set; both are its own internals, so they are set here
# alone, and a test that opens the page would notice a change.
SERVE = """
import os
os.environ["__REFLEX_MOUNT_FRONTEND_COMPILED_APP"] = "true"
os.environ["__REFLEX_SKIP_COMPILE"] = "true"
from cli.granian import run
run()
"""


def _built(settings: DashboardSettings) -> Path:
    return settings.home / "web" / "build" / "client"


def _digest(begin: bytes, names: Iterable[str]) -> str:
    """Changes when a file of these, or in these folders, changes."""
    digest, sources = hashlib.sha256(begin), sources_folder()
    for path in (sources / name for name in names):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(sources)).encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()


def build_documentation(settings: DashboardSettings) -> Path:
    """Return the folder of the built site; a site that cannot be built must not keep the page from starting."""
    folder, sources = settings.home / "documentation", sources_folder()
    stamp, fingerprint = folder / "stamp", _digest(b"", (CONFIG, "docs"))
    if not stamp.exists() or stamp.read_text() != fingerprint:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sources / "docs", folder / "docs")
        shutil.copy(sources / CONFIG, folder / CONFIG)
        command = [sys.executable, "-m", "zensical", "build"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            stamp.write_text(fingerprint)
        else:
            print(f"the documentation could not be built: {done.stderr[-500:]}", flush=True)
    return folder / "site"
