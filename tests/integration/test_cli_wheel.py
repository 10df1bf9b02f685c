"""The wheels in environments of their own: what a person without a clone gets."""

import importlib.util
import json
import re
import subprocess
import sys
import uuid
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest

from cli.errors import ExitCode
from cli.version import __version__
from stack.settings import PROJECT
from tests.conftest import _open_folder
from tests.support.ports import free_ports
from tests.support.stack import RunningStack, clean_environment
from tests.support.waiting import wait_until


def registry() -> dict[str, str]:
    """The environment with pip's registry handed on to uv, as the setup does."""
    spec = importlib.util.spec_from_file_location("setup_script", PROJECT / "scripts" / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {**module.uv_environment(), "UV_PYTHON": sys.executable}


def build(folder: Path, name: str) -> Path:
    """Build one wheel."""
    subprocess.run([sys.executable, "scripts/wheels.py", "--dist", folder, "--only", name], cwd=PROJECT, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path) -> Path:
    """The folder of the programs of an environment that has the wheel and what it requires."""
    uv, venv = [sys.executable, "-m", "uv"], wheel.parent / "venv"
    subprocess.run([*uv, "venv", "--quiet", venv], env=registry(), check=True)
    command = [*uv, "pip", "install", "--quiet", "--python", venv / "bin" / "python", wheel]
    subprocess.run(command, env=registry(), check=True)
    return venv / "bin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of the wheel `runyard-cli`."""
    return install(build(tmp_path_factory.mktemp("wheel"), "runyard-cli"))


def run(
    installed: Path, home: Path, *arguments: str, typed: str = "", **variables: str
) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "LANG": clean_environment().get("LANG", "C.UTF-8"),
        **variables,
    }
    command = [str(installed / "runyard"), *arguments]
    return subprocess.run(
        command, cwd=home, env=environment, input=typed, capture_output=True, text=True, timeout=300, check=False
    )


def test_a_new_user_installs_signs_in_and_works(installed: Path, running_stack: RunningStack, tmp_path: Path) -> None:
    assert run(installed, tmp_path, "--version").stdout.strip() == __version__
    assert "run" in run(installed, tmp_path, "--help").stdout
    account = {"email": f"{uuid.uuid4().hex[:12]}@example.com", "password": uuid.uuid4().hex}
    headers = {"apikey": running_stack.publishable_key}
    httpx.post(f"{running_stack.url}/auth/v1/signup", json=account, headers=headers, timeout=30).raise_for_status()
    place = ("login", running_stack.url, "--key", running_stack.publishable_key, "--email", account["email"])
    signed_in = run(installed, tmp_path, *place, "--password-stdin", typed=account["password"])
    assert signed_in.returncode == 0, signed_in.stderr
    assert run(installed, tmp_path, "orgs", "create", f"org-{uuid.uuid4().hex[:8]}").returncode == 0
    assert run(installed, tmp_path, "modules", "create", "apps/site").returncode == 0
    queued = run(installed, tmp_path, "run", "plan", "apps/site")
    assert (queued.returncode, queued.stdout.split("\t")[1:3]) == (0, ["PLAN", "QUEUED"]), queued.stderr
    assert run(installed, tmp_path, "modules", "export", "apps/site").stdout.startswith('path = "apps/site"')
    assert signed_in_by_code(installed, tmp_path, tmp_path / "laptop", place[:4]) == account["email"]


def signed_in_by_code(installed: Path, home: Path, laptop: Path, place: tuple[str, ...]) -> str:
    """Return the person signed in on a second machine, after the code that it shows was confirmed on the first."""
    laptop.mkdir()
    waits = subprocess.Popen(
        [installed / "runyard", *place], cwd=laptop, env={"PATH": "/usr/bin:/bin", "HOME": str(laptop)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert waits.stderr is not None
    code = next(found[0] for line in waits.stderr if (found := re.findall(r"[B-Z]{4}-[B-Z]{4}", line)))
    confirmed = run(installed, home, "confirm-login", code, "--yes")
    assert confirmed.returncode == 0, confirmed.stderr
    waits.communicate(timeout=300)
    return str(json.loads(run(installed, laptop, "whoami", "--json").stdout)["email"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel `runyard`, which has everything."""
    return build(_open_folder(tmp_path_factory.mktemp("whole")), "runyard")


def test_the_whole_wheel_has_every_file_that_the_server_side_needs(whole: Path) -> None:
    with ZipFile(whole) as archive:
        names = set(archive.namelist())
    places = {"app": "cli/bundle/", "assets": "cli/bundle/", "docs": "cli/bundle/", "reflex.lock": "cli/bundle/"}
    places |= {"supabase": "stack/bundle/", "cli": "", "stack": "", "worker": ""}
    listed = subprocess.run(["git", "ls-files", *places], cwd=PROJECT, capture_output=True, text=True, check=True)
    tracked = listed.stdout.splitlines()
    assert len(tracked) > 500
    # The supabase CLI's own ignore file is for a clone.
    wanted = {places[name.partition("/")[0]] + name for name in tracked if not name.endswith(".gitignore")}
    wanted |= {f"cli/bundle/{name}" for name in ("rxconfig.py", "zensical.toml", "scripts/older_runner.py")}
    assert sorted(wanted - names) == []


@pytest.mark.slow
def test_the_whole_wheel_serves_the_sign_in_page_without_a_clone(
    whole: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program, home = install(whole) / "runyard", _open_folder(tmp_path_factory.mktemp("home"))
    gateway, postgres, functions, dashboard = free_ports(4)
    ports = {"GATEWAY": gateway, "POSTGRES": postgres, "FUNCTIONS": functions, "DASHBOARD": dashboard}
    environment = {
        **clean_environment(),
        "RUNYARD_HOME": str(home / "state"),
        "RUNYARD_PG_FSYNC": "false",
        # No page that this clone has built: a new user has none.
        "RUNYARD_CACHE": str(home / "cache"),
        **{f"RUNYARD_{name}_BASE": str(port) for name, port in ports.items()},
    }
    log = home / "log"
    with log.open("wb") as output:
        up = subprocess.Popen([program, "up", "--no-demo"], cwd=home, env=environment, stdout=output, stderr=output)
    try:
        wait_until(lambda: up.poll() is not None or (home / "state" / "run" / "ready").exists(), timeout_seconds=500)
        assert up.poll() is None, log.read_text()[-3000:]
        assert answers(gateway)
        page = httpx.get(f"http://127.0.0.1:{dashboard}/login", timeout=60, follow_redirects=True)
        assert (page.status_code, "Runyard" in page.text) == (200, True)
        shown = subprocess.run(
            [program, "status", "--json"], cwd=home, env=environment, capture_output=True, text=True, check=False
        )
        assert json.loads(shown.stdout)["health"]["dashboard"], shown.stderr
    except TimeoutError as error:
        raise AssertionError(log.read_text()[-3000:]) from error
    finally:
        up.terminate()
        up.wait(90)


def answers(port: int) -> bool:
    try:
        return all(
            httpx.get(f"http://127.0.0.1:{port}{path}", timeout=5).is_success
            for path in ("/health", "/functions/v1/health")
        )
    except httpx.HTTPError:
        return False


def test_the_wheel_contains_neither_stack_nor_dashboard_nor_runner(installed: Path, tmp_path: Path) -> None:
    find = "import importlib.util as u; print([n for n in ('app', 'stack', 'worker', 'reflex', 'granian') if u.find_spec(n)])"
    found = subprocess.run([installed / "python", "-c", find], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
    up = run(installed, tmp_path, "up")
    assert (up.returncode, "is not installed here" in up.stderr) == (ExitCode.MISSING, True), up.stderr


@pytest.mark.parametrize(
    ("shell", "begins"),
    [("bash", "_runyard_completion() {"), ("zsh", "#compdef runyard"), ("fish", "complete --command runyard")],
)
def test_completion_is_written_for_each_shell(installed: Path, tmp_path: Path, shell: str, begins: str) -> None:
    # What --show-completion prints is for the shell above it, which a test may not have: this names the shell.
    shown = run(installed, tmp_path, _RUNYARD_COMPLETE=f"source_{shell}")
    assert (shown.returncode, shown.stdout.strip().startswith(begins)) == (0, True), shown.stdout + shown.stderr
    names = run(installed, tmp_path, _RUNYARD_COMPLETE="complete_bash", COMP_WORDS="runyard ru", COMP_CWORD="1")
    assert names.stdout.split() == ["run", "runners"]
