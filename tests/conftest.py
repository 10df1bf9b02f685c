"""Fixtures for every test: a shared PostgreSQL, a database of one's own, a running stack."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.support.certificates import read_once
from tests.support.database import Database, Server, shared_server
from tests.support.extent import ALL_VARIABLE, SEED_VARIABLE, choose_seed, is_all, is_usual
from tests.support.markers import mark
from tests.support.order import ordered
from tests.support.stack import Project, RunningStack, environment_project, start_stack

FOLDER_VARIABLE = "RUNYARD_TEST_RUN_FOLDER"
PID_VARIABLE = "RUNYARD_TEST_RUN_PID"
# A folder that several runs share, one after the other, with the PostgreSQL in it: `make mutants` keeps one.
KEPT_VARIABLE = "RUNYARD_TEST_KEPT_FOLDER"
# The contract tests speak of public channels too, which an installation has off; nobody waits 5 s for a refusal.
SHARED = {
    "RUNYARD_REALTIME_ALLOW_PUBLIC": "true",
    "RUNYARD_REALTIME_CHANNEL_ERROR_SECONDS": "0.05",
    "RUNYARD_REALTIME_CONNECT_ERROR_SECONDS": "0.05",
    # They publish tables of their own, too: at the next check every subscriber would be notified again that changes arrive.
    "RUNYARD_REALTIME_PUBLICATION_SECONDS": "3600",
}
# How long an example takes says something about the machine, not about the product.
hypothesis_settings.register_profile(
    "runyard",
    hypothesis_settings.default,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=is_usual(),
)
hypothesis_settings.load_profile("runyard")
# The same goes for an answer: a caller that sets no limit waits a minute, where httpx would give up after 5 s.
for _part in ("connect", "read", "write", "pool"):
    setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, _part, 60.0)
read_once()


def pytest_configure(config: pytest.Config) -> None:
    """Give all processes of this run one folder and one seed; xdist's workers inherit them."""
    choose_seed()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # So a script starts what runs in its background; children would inherit it, and some of them are to be interrupted.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Collecting makes millions of objects that all stay, so garbage collection would find nothing.
    gc.disable()
    if KEPT_VARIABLE in os.environ:
        os.environ[FOLDER_VARIABLE] = os.environ[KEPT_VARIABLE]
    elif not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="runyard-test-")
        Path(folder).chmod(0o755)
        os.environ[FOLDER_VARIABLE] = folder
        os.environ[PID_VARIABLE] = str(os.getpid())


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the run's folder; the shared server notices on its own that the run has ended."""
    gc.unfreeze()
    if not hasattr(config, "workerinput") and KEPT_VARIABLE not in os.environ:
        shutil.rmtree(os.environ[FOLDER_VARIABLE], ignore_errors=True)


def pytest_report_header() -> str:
    """Show how much is run, and how to run the same again."""
    if is_all():
        return f"everything is run ({ALL_VARIABLE}=1)"
    return f"large tests are sampled: {SEED_VARIABLE}={choose_seed()} is the seed, another one samples others; {ALL_VARIABLE}=1 runs all"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with what it needs, and mix long files with short ones."""
    mark(items)
    items[:] = ordered(items)


def pytest_collection_finish() -> None:
    """Look for garbage again, but only among what comes from now on, and a tenth as often."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 50)
    gc.enable()


@pytest.fixture
def shared_tmp_path(tmp_path: Path) -> Path:
    """A temporary folder that PostgreSQL's own account can reach, too, when the tests run as root."""
    return _open_folder(tmp_path)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the product does."""
    return "asyncio"


@pytest.fixture(scope="session")
def run_folder() -> Path:
    """The folder all processes of this test run share."""
    return Path(os.environ[FOLDER_VARIABLE])


@pytest.fixture(scope="session")
def postgres_server(run_folder: Path) -> Server:
    """The run's PostgreSQL, with hosted-like roles."""
    folder = run_folder / "server"
    folder.mkdir(exist_ok=True)
    return shared_server(folder, int(os.environ[PID_VARIABLE]))


@pytest.fixture
def database(postgres_server: Server) -> Iterator[Database]:
    """A database of the test's own with every migration applied."""
    yield from _clone(postgres_server, postgres_server.template())


@pytest.fixture
def bare_database(postgres_server: Server) -> Iterator[Database]:
    """A database of the test's own as hosted hands one out, before any migration."""
    yield from _clone(postgres_server, postgres_server.bare_template())


@pytest.fixture
def db_url(database: Database) -> str:
    """The owner's URL of the test's database."""
    return database.url


@pytest.fixture
def connect(database: Database) -> Callable[..., psycopg.Connection[Any]]:
    """`connect(role, claims)`: a connection to the test's database as that role, closed after the test."""
    return database.connect


@pytest.fixture(scope="session")
def running_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack without dashboard and demo, one for each test process."""
    home = _open_folder(tmp_path_factory.mktemp("stack"))
    with start_stack(home, "--no-dashboard", "--no-demo", **SHARED) as stack:
        yield stack


@pytest.fixture
def fresh_stack(tmp_path: Path) -> Iterator[RunningStack]:
    """A stack that the test may break."""
    with start_stack(_open_folder(tmp_path), "--no-dashboard", "--no-demo", **SHARED) as stack:
        yield stack


@pytest.fixture(scope="module")
def tough_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack whose parts the tests of a file may kill, one after the other: each is back when its test ends."""
    home = _open_folder(tmp_path_factory.mktemp("tough"))
    with start_stack(home, "--no-dashboard", "--no-demo", **SHARED) as stack:
        yield stack


@pytest.fixture(scope="session")
def supabase_project(request: pytest.FixtureRequest) -> Project:
    """The project that `RUNYARD_TEST_*` names, or else the running stack."""
    project: Project = environment_project() or request.getfixturevalue("running_stack")
    return project


def _clone(server: Server, template: str) -> Iterator[Database]:
    database = Database(server, server.create_database(template))
    try:
        yield database
    finally:
        database.close()
        server.drop_database(database.name)


def _open_folder(folder: Path) -> Path:
    """A folder of the same name that PostgreSQL's own account can reach; pytest keeps closing its own to others."""
    opened = Path(tempfile.mkdtemp(prefix=f"{folder.name[:24]}-", dir=os.environ[FOLDER_VARIABLE]))
    opened.chmod(0o755)
    return opened
