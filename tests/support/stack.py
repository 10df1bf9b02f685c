"""A real stack for tests: `runyard up` in a process of its own, with its own folder and ports."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import psutil
import psycopg

from cli.dashboard.serve import build_documentation
from cli.dashboard.settings import DashboardSettings
from cli.launcher.runfiles import RunFiles
from stack.errors import Taken
from stack.secrets import Secrets, load_secrets
from stack.settings import PROJECT, Settings
from tests.support.database import locked
from tests.support.ports import free_ports
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Project:
    """The facts that a client needs of a Supabase project, wherever it runs."""

    url: str
    publishable_key: str
    secret_key: str
    db_url: str


@dataclass(frozen=True)
class RunningStack(Project):
    """A stack that this test run started."""

    settings: Settings
    secrets: Secrets
    process: subprocess.Popen[bytes]
    log: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def client_environment(self) -> dict[str, str]:
        """Return the environment for a dashboard or a worker."""
        return {"SUPABASE_URL": self.url, "SUPABASE_PUBLISHABLE_KEY": self.publishable_key}

    def is_healthy(self) -> bool:
        """Whether REST, Auth and the functions all answer."""
        paths = ("/health", "/auth/v1/health", "/functions/v1/health")
        try:
            return all(self.get(path).status_code == 200 for path in paths)
        except httpx.HTTPError:
            return False

    def get(self, path: str) -> httpx.Response:
        """A request with the publishable key."""
        return httpx.get(f"{self.url}{path}", headers={"apikey": self.publishable_key}, timeout=30)

    def part_pid(self, name: str) -> int:
        """The process id of one running part: the supervisor's report of a killed one is old for a moment."""

        def found() -> int:
            pid = int(RunFiles(self.settings).read_state().get("parts", {}).get(name, {}).get("pid") or 0)
            return pid if pid and is_running(pid) else 0

        return wait_until(found)

    def kill_part(self, name: str) -> None:
        """Kill one part, and return once another process took its place and everything answers."""
        killed = self.part_pid(name)
        os.kill(killed, signal.SIGKILL)
        self.wait_replaced(name, killed)

    def wait_replaced(self, name: str, killed: int) -> None:
        """Everything answers, and no answer is from the rest of a killed process."""
        wait_until(lambda: self.part_pid(name) != killed)
        wait_until(self.takes_connections)
        wait_until(self.is_healthy)

    def takes_connections(self) -> bool:
        """Whether PostgreSQL lets somebody new in: it begins only when nothing is left of the one before."""
        try:
            psycopg.connect(self.db_url, connect_timeout=30).close()
        except psycopg.OperationalError:
            return False
        return True

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another `runyard …` command, as from another terminal."""
        command = [sys.executable, "-m", "cli", *arguments]
        environment = clean_environment() | self.environment
        return subprocess.run(
            command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=180, check=False
        )

    def stop(self) -> int:
        """Request its stop and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@contextmanager
def start_stack(home: Path, *arguments: str, **variables: str) -> Iterator[RunningStack]:
    """Run a stack below `home`; a port lost to another process between choosing and using it is chosen again.

    A new home is a copy of one that this test run migrated, unless the test names a project of its own:
    a first start needs three times the processor time of a later one.
    """
    _copy_prepared(home, variables)
    if "--no-dashboard" not in arguments:
        _copy_documentation(home)
    stack = _launch(home, arguments, variables)
    for _ in range(3):
        if wait_until(partial(_is_settled, stack), timeout_seconds=500, every_seconds=0.1) == "up":
            break
        stack = _launch(home, arguments, variables)
    try:
        yield stack
    finally:
        stack.stop()


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def environment_project() -> Project | None:
    """The project that the environment names for contract tests, hosted for instance."""
    names = ("RUNYARD_TEST_URL", "RUNYARD_TEST_PUBLISHABLE_KEY", "RUNYARD_TEST_SECRET_KEY", "RUNYARD_TEST_DB_URL")
    values = [os.environ.get(name, "") for name in names]
    return Project(*values) if values[0] else None


def clean_environment() -> dict[str, str]:
    """This process's environment without variables that could point at another stack."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("RUNYARD_", "SUPABASE_"))}


def _copy_prepared(home: Path, variables: dict[str, str]) -> None:
    run_folder = os.environ.get("RUNYARD_TEST_RUN_FOLDER")
    if not run_folder or "RUNYARD_PROJECT" in variables or (home / "secrets.json").exists():
        return
    prepared = Path(run_folder) / "prepared"
    with locked(Path(run_folder) / "prepared.lock"):
        if not prepared.exists():
            _migrate(Path(run_folder) / "preparing").rename(prepared)
    home.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", f"{prepared}/.", str(home)], check=True)


def _copy_documentation(home: Path) -> None:
    """Give a dashboard the site that was built for the first one of this test run."""
    run_folder = os.environ.get("RUNYARD_TEST_RUN_FOLDER")
    if not run_folder or (home / "documentation").exists():
        return
    with locked(Path(run_folder) / "documentation.lock"):
        build_documentation(DashboardSettings(home=Path(run_folder)))
    home.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", str(Path(run_folder) / "documentation"), str(home)], check=True)


def _migrate(home: Path) -> Path:
    own = {"RUNYARD_HOME": str(home), "RUNYARD_POSTGRES_BASE": str(free_ports(1)[0]), "RUNYARD_PG_FSYNC": "false"}
    home.mkdir()
    command = [sys.executable, "-m", "cli", "migrate"]
    subprocess.run(command, cwd=PROJECT, env=clean_environment() | own, check=True, capture_output=True)
    return home


def _is_settled(stack: RunningStack) -> str:
    code = stack.process.poll()
    if code == Taken.exit_code:
        return "taken"
    if code is not None:
        raise ChildProcessError(f"the stack ended with exit code {code}:\n{stack.log.read_text()[-4000:]}")
    return "up" if (stack.settings.run_folder / "ready").exists() else ""


def _launch(home: Path, arguments: tuple[str, ...], variables: dict[str, str]) -> RunningStack:
    gateway, postgres, functions, dashboard = free_ports(4)
    ports = {
        "GATEWAY_BASE": gateway,
        "POSTGRES_BASE": postgres,
        "FUNCTIONS_BASE": functions,
        "DASHBOARD_BASE": dashboard,
    }
    own = {
        "RUNYARD_HOME": str(home),
        "RUNYARD_PORT_OFFSET": "0",
        "RUNYARD_PG_FSYNC": "false",
        "RUNYARD_SIGN_UP": "open",
        # Nobody guesses these passwords, and the tests sign in a thousand times.
        "RUNYARD_PASSWORD_ROUNDS": "4",
        # A machine that runs many stacks at once may answer nothing for some seconds.
        "RUNYARD_SILENCE_SECONDS": "20",
    }
    own |= {f"RUNYARD_{name}": str(port) for name, port in ports.items()} | variables
    environment = clean_environment()
    settings = Settings(home=home, port_offset=0, **{name.lower(): port for name, port in ports.items()})  # type: ignore[arg-type]
    secrets = load_secrets(settings.secrets_file)
    RunFiles(settings).ready_file.unlink(missing_ok=True)
    log = home / "up.log"
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "cli", "up", *arguments]
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=PROJECT, env=environment | own, stdout=output, stderr=output)
    return RunningStack(
        settings.url, secrets.publishable_key, secrets.secret_key,
        settings.database_url("postgres", secrets.password("postgres")),
        settings, secrets, process, log, own,
    )  # fmt: skip
