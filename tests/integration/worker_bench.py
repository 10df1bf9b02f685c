"""A person with an organisation, runners as real processes, and modules to run: what the runner's tests work with."""

import json
import os
import secrets
import signal
import string
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import psutil
import psycopg
import pytest
from psycopg.rows import dict_row

from cli.engines.cache import find
from cli.engines.catalog import ENGINES
from stack.settings import PROJECT
from tests.support.must import unavailable
from tests.support.stack import Project, RunningStack
from tests.support.waiting import wait_until

TERMINAL = {"SUCCEEDED", "FAILED", "CANCELLED", "NEEDS_ATTENTION"}
MODULE = """
variable "who" { default = "world" }
variable "password" {
  default   = "correct-horse-battery"
  sensitive = true
}
resource "terraform_data" "greeting" { input = "hello ${var.who}" }
resource "terraform_data" "secret" { input = var.password }
output "greeting" { value = terraform_data.greeting.output }
output "password" {
  value     = terraform_data.secret.output
  sensitive = true
}
"""


class Refused(Exception):
    """The server said no to the person."""


def find_tofu() -> Path | None:
    """The OpenTofu to test with: the environment's, PATH's or the cache's."""
    named = os.environ.get("RUNYARD_TOFU")
    return Path(named) if named else find(ENGINES["tofu"])


@dataclass
class WorkerProcess:
    """One running runner."""

    process: "subprocess.Popen[bytes]"
    log: Path
    home: Path
    worker_id: str
    instance: str

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def events(self) -> list[dict[str, Any]]:
        # What follows the last end of a line is being written, or was when it died.
        *lines, _ = self.output.split("\n")
        return [json.loads(line) for line in lines if line.startswith("{")]

    def said(self, event_id: str) -> bool:
        """Whether its log has an event of that id; the words beside it are for people."""
        return any(each.get("id") == event_id for each in self.events())

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 300) -> int:
        return self.process.wait(seconds)

    def stop(self) -> None:
        """Ask it to leave, and again, and then no longer."""
        for number, seconds in ((signal.SIGTERM, 20), (signal.SIGTERM, 20)):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                self.process.send_signal(number)
                self.process.wait(seconds)
                return
        self.kill()

    def kill(self) -> None:
        """End it and all that it started at once: nobody asks any more how it leaves."""
        if self.process.poll() is not None:
            return
        with suppress(psutil.NoSuchProcess):
            runner = psutil.Process(self.process.pid)
            for process in (runner, *runner.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self.process.wait(60)


def until(gate: Path | str) -> str:
    """Return a script that waits in a hook until something opens the gate."""
    return f"while [ ! -e {gate} ]; do sleep 0.1; done"


def plain_client() -> httpx.Client:
    """One client for all requests (making one costs more than a request), and a new connection for each of them."""
    return httpx.Client(timeout=60, limits=httpx.Limits(max_keepalive_connections=0))


@dataclass
class Bench:
    """A signed-in owner and everything he made."""

    project: Project
    folder: Path
    tofu: Path
    token: str = ""
    org: str = ""
    account: dict[str, str] = field(default_factory=dict)
    processes: list[WorkerProcess] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)
    http: httpx.Client = field(default_factory=plain_client)

    def sign_up(self) -> None:
        self.create_account()
        self.create_organization(f"org-{uuid.uuid4().hex[:10]}")

    def create_account(self) -> None:
        email = f"{uuid.uuid4().hex[:12]}@example.com"
        self.account = {"email": email, "password": secrets.token_urlsafe(16)}
        reply = self._post("/auth/v1/signup", self.account, self.project.publishable_key)
        self.token = reply["access_token"]

    def create_organization(self, slug: str) -> None:
        self.org = self.rpc("create_organization", p_name=slug, p_slug=slug)["id"]

    def sign_in(self) -> None:
        """Get another token, from a project that knows the account."""
        reply = self._post("/auth/v1/token?grant_type=password", self.account, self.project.publishable_key)
        self.token = reply["access_token"]

    def rpc(self, name: str, **arguments: Any) -> Any:
        return self._post(f"/rest/v1/rpc/{name}", arguments, self.token)

    def rows(self, table: str, **filters: Any) -> list[dict[str, Any]]:
        plain = {"order", "limit", "offset", "select"}
        parameters = {key: value if key in plain else f"eq.{value}" for key, value in filters.items()}
        headers = {"apikey": self.project.publishable_key, "authorization": f"Bearer {self.token}"}
        reply = self.http.get(f"{self.project.url}/rest/v1/{table}", params=parameters, headers=headers)
        reply.raise_for_status()
        found: list[dict[str, Any]] = reply.json()
        return found

    def _post(self, path: str, body: dict[str, Any], token: str) -> Any:
        headers = {"apikey": self.project.publishable_key, "authorization": f"Bearer {token}"}
        reply = self.http.post(self.project.url + path, json=body, headers=headers)
        if reply.is_error:
            raise Refused(f"{path} answered {reply.status_code}: {reply.text}")
        return reply.json()

    # ------------------------------------------------------------------ modules and jobs

    def module(self, **spec: Any) -> str:
        """Make a module; inline with a greeting unless told otherwise."""
        whole = {"source_kind": "inline", "source": {"files": {"main.tf": MODULE}}, "engine": "tofu", **spec}
        name = f"m-{uuid.uuid4().hex[:8]}"
        made = self.rpc("create_module", p_org=self.org, p_group_path="apps/web", p_name=name, p_spec=whole)
        return str(made["id"])

    def enqueue(self, kind: str, module: str, **options: Any) -> int:
        return int(self.rpc("enqueue_job", p_org=self.org, p_type=kind, p_module=module, p_options=options)["id"])

    def job(self, job: int) -> dict[str, Any]:
        return self.rows("provision_jobs", id=job)[0]

    def wait_job(self, job: int, *statuses: str, seconds: float = 300) -> dict[str, Any]:
        wanted = set(statuses) or TERMINAL

        def ready() -> dict[str, Any] | None:
            row = self.job(job)
            return row if row["status"] in wanted else None

        try:
            return wait_until(ready, timeout_seconds=seconds, every_seconds=0.1)
        except TimeoutError as error:
            raise AssertionError(self._story(job)) from error

    def _story(self, job: int) -> str:
        """Describe a job that makes no progress."""
        row = self.job(job)
        told = "\n".join(each.output[-3000:] for each in self.processes)
        return f"job {job} is {row['status']} ({row['phase']}), {row['error']}\n{told}"

    def wait_step(self, job: int, step: str, status: str = "RUNNING", seconds: float = 180) -> dict[str, Any]:
        """Wait until a step of the job has this status."""

        def ready() -> dict[str, Any] | None:
            row = self.job(job)
            steps = row["steps"] or []
            return row if any(each["name"] == step and each["status"] == status for each in steps) else None

        try:
            return wait_until(ready, timeout_seconds=seconds, every_seconds=0.05)
        except TimeoutError as error:
            raise AssertionError(self._story(job)) from error

    def finished(self, kind: str, module: str, **options: Any) -> dict[str, Any]:
        """Enqueue a job and wait until it has succeeded."""
        row = self.wait_job(self.enqueue(kind, module, **options))
        assert row["status"] == "SUCCEEDED", f"{row['status']}: {row['error']}\n{self.log_of(row['id'])}"
        return row

    def log_of(self, job: int) -> str:
        """Read the whole log, page by page: the API hands out a thousand rows at a time."""
        bodies: list[str] = []
        while True:
            page = self.rows(
                "job_log_chunks", job_id=job, order="attempt.asc,seq.asc", select="body", limit=500, offset=len(bodies)
            )
            bodies += [chunk["body"] for chunk in page]
            if len(page) < 500:
                return "".join(bodies)

    def events_of(self, job: int) -> list[dict[str, Any]]:
        return self.rows("job_events", job_id=job, order="id.asc")

    def given_back(self, job: int, seconds: float = 180) -> str:
        """Wait until a runner gives the job back, and return its words."""

        def found() -> str:
            return next((event["reason"] for event in self.events_of(job) if event["event"] == "returned"), "")

        try:
            return wait_until(found, timeout_seconds=seconds, every_seconds=0.2)
        except TimeoutError as error:
            raise AssertionError(self._story(job)) from error

    # ------------------------------------------------------------------ runners

    def register(self, name: str = "", **options: Any) -> tuple[str, str]:
        """Register a runner and return its id and token."""
        alphabet = string.ascii_letters + string.digits
        token = "ryw_" + "".join(secrets.choice(alphabet) for _ in range(43))
        hashed = bcrypt.hashpw(token.encode(), bcrypt.gensalt(8)).decode()
        whole = {"is_assigned_to_all_modules": True, **options}
        made = self.rpc(
            "register_worker", p_org=self.org, p_name=name or f"runner-{uuid.uuid4().hex[:6]}", p_token_hash=hashed,
            p_token_hint=token[-4:], p_options=whole,
        )  # fmt: skip
        self.tokens[str(made["id"])] = token
        return str(made["id"]), token

    def start_worker(
        self,
        worker: tuple[str, str],
        *arguments: str,
        instance: str = "",
        home: Path | None = None,
        url: str = "",
        prefix: tuple[str, ...] = (),
        program: tuple[str, ...] = (sys.executable, "-m", "worker.cli"),
        **variables: str,
    ) -> WorkerProcess:
        """Start a runner's process with a home of its own."""
        instance = instance or f"i-{uuid.uuid4().hex[:6]}"
        home = home or self.folder / f"home-{instance}"
        home.mkdir(exist_ok=True, parents=True)
        log = self.folder / f"{instance}-{uuid.uuid4().hex[:4]}.log"
        command = [*prefix, *program, "run", *arguments]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=PROJECT, stdout=output, stderr=output,
                env=self.environment(worker, instance, home, url) | variables,
            )  # fmt: skip
        started = WorkerProcess(process, log, home, worker[0], instance)
        self.processes.append(started)
        return started

    def environment(self, worker: tuple[str, str], instance: str, home: Path, url: str = "") -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RUNYARD_", "SUPABASE_", "WORKER_"))
        }
        return kept | {
            "WORKER_ID": worker[0],
            "WORKER_TOKEN": worker[1],
            "WORKER_INSTANCE": instance,
            "SUPABASE_URL": url or self.project.url,
            "RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY": str(home),
            "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": os.pathsep.join(
                str(each.parent) for each in (self.tofu, find(ENGINES["opa"])) if each
            ),
            # Not the engines of the user who runs the tests: each runner would read Pulumi's 80 MB and start it.
            "RUNYARD_ENGINE_CACHE": str(self.folder / "engine-cache"),
            "RUNYARD__ENGINE__ISOLATION__READONLYPATHS": str(self.folder),
            # Many hooks wait for what the test does meanwhile, and a slow machine takes its time.
            "RUNYARD__HOOKS__TIMEOUTSECONDS": "600",
            "RUNYARD__LOGGING__FORMAT": "json",
            "RUNYARD__LOGGING__LOGLEVEL__DEFAULT": "Debug",
        }

    def online(self, worker: tuple[str, str], *statuses: str, seconds: float = 180) -> dict[str, Any]:
        wanted = set(statuses or ("ONLINE",))

        def ready() -> dict[str, Any] | None:
            row = self.rows("workers", id=worker[0])[0]
            return row if row["status"] in wanted else None

        try:
            return wait_until(ready, timeout_seconds=seconds, every_seconds=0.1)
        except TimeoutError as error:
            raise AssertionError("\n".join(each.output[-3000:] for each in self.processes)) from error

    def runner(self, *arguments: str, options: dict[str, Any] | None = None, **variables: str) -> WorkerProcess:
        """Register a runner, start it and wait until it is online."""
        worker = self.register(**(options or {}))
        process = self.start_worker(worker, *arguments, **variables)
        self.online(worker)
        return process

    @contextmanager
    def database(self) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        """Look into the database as its owner."""
        with psycopg.connect(self.project.db_url, autocommit=True, row_factory=dict_row) as connection:
            yield connection

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        self.http.close()


@contextmanager
def open_bench(project: Project, folder: Path) -> Iterator[Bench]:
    """Make a bench for one test and stop its processes afterwards."""
    tofu = find_tofu()
    if tofu is None:
        unavailable("engine", "OpenTofu is not there; `make engines` provides it")
    bench = Bench(project, folder, tofu)
    bench.sign_up()
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture(scope="session")
def steady_bench(running_stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A bench for all tests of this process; its runner may read what any of them writes down."""
    with open_bench(running_stack, tmp_path_factory.getbasetemp()) as made:
        yield made


@pytest.fixture
def served(steady_bench: Bench) -> Bench:
    """A bench whose runner is online already and shared: for jobs that any runner does, and that leave nothing behind."""
    if not any(each.process.poll() is None for each in steady_bench.processes):
        steady_bench.runner(RUNYARD__JOBLOGSTREAM__PERIODSECONDS="0.3")
    return steady_bench


@pytest.fixture
def bench(running_stack: RunningStack, tmp_path: Path) -> Iterator[Bench]:
    """A bench on the stack that all tests of this process share."""
    with open_bench(running_stack, tmp_path) as made:
        yield made
