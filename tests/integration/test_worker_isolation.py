"""A module that wants what is not its own: real hooks, provisioners, data sources and programs on a real runner."""

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.engines.cache import find
from cli.engines.catalog import ENGINES, machine, system
from stack.settings import PROJECT
from tests.integration.test_worker_stopping import BEGUN, SLOW_APPLY
from tests.integration.worker_bench import Bench, Refused, WorkerProcess, bench, until
from tests.support import looter
from tests.support.extent import sampled
from tests.support.providers import PROVIDER
from tests.support.waiting import wait_until
from worker.errors import ExitCode

__all__ = ["bench"]

SANDBOXES = ["bubblewrap", "namespaces"]
ALL_WAYS = [*SANDBOXES, "user", "landlock"]
WAYS = "RUNYARD__ENGINE__ISOLATION__WAYS"
PROVISIONER = """
resource "terraform_data" "looter" {
  provisioner "local-exec" { command = file("${path.module}/loot.sh") }
}
"""
EXTERNAL = """
terraform {
  required_providers { external = { source = "mirror.example.com/hashicorp/external", version = "1.2.0" } }
}
data "external" "looter" {
  program = ["/bin/sh", "${path.module}/loot.sh"]
}
output "answer" { value = data.external.looter.result.answer }
"""
# The file is read by the engine, and the program's own plugin is started by it.
PULUMI = """
name: looter
runtime: looter
plugins:
  languages:
    - name: looter
      path: .
"""
# Nobody's user is the one that the stack's database runs as: its memory is not what these jobs are about.
ORDINARY_USER = 65533


@dataclass
class Scene:
    """A runner with its token in a file, and a job of somebody else that runs on it meanwhile."""

    bench: Bench
    process: WorkerProcess
    other: int
    places: tuple[Path, ...]
    listener: socket.socket

    @property
    def victims(self) -> str:
        """Files and a socket of the runner, of its other job or of another process of this machine."""
        (other,) = (self.places[1] / ".temp").glob(f"job-{self.other}-*")
        secrets = self.places[0]
        files = " ".join(f"file:{path}" for path in (secrets, secrets / "WORKER_TOKEN", other))
        return f"{files} socket:{self.listener.getsockname()[1:].decode()}"

    @property
    def fact(self) -> str:
        rows = self.bench.rows("worker_instances", worker_id=self.process.worker_id)
        return str(rows[0]["facts"]["isolation"])

    def nothing_found(self, kind: str, module: str, times: int) -> dict[str, Any]:
        """Run the looter's job and see that it looked and found nothing."""
        job = self.bench.finished(kind, module)
        log = self.bench.log_of(job["id"])
        assert looter.loot(log) == []
        assert looter.looks(log) >= times
        assert self.bench.job(self.other)["status"] == "PROCESSING"
        return job


@pytest.fixture(scope="session")
def external_mirror(run_folder: Path) -> Path:
    """The provider of external data sources, where a runner without a network finds it."""
    binary = find(PROVIDER)
    if binary is None:
        pytest.skip(f"{PROVIDER.name} not found; `python -m tests.support.providers` builds it")
    mirror = Path(tempfile.mkdtemp(prefix="runyard-mirror-", dir=run_folder))
    mirror.chmod(0o755)
    place = mirror / f"mirror.example.com/hashicorp/external/{PROVIDER.version}/{system()}_{machine()}"
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy2(binary, place / f"terraform-provider-external_v{PROVIDER.version}")
    (mirror / "cli.tfrc").write_text(f'provider_installation {{ filesystem_mirror {{ path = "{mirror}" }} }}')
    return mirror


@pytest.fixture(scope="session")
def engines(run_folder: Path) -> Path:
    """A folder for each engine, where users of their own can pass through: 200 MB that all scenes share."""
    top = Path(tempfile.mkdtemp(prefix="runyard-engines-", dir=run_folder))
    top.chmod(0o755)
    for name in ("tofu", "pulumi"):
        (top / name).mkdir()
        if binary := find(ENGINES[name]):
            shutil.copy2(binary, top / name / binary.name)
    return top


@pytest.fixture
def make_scene(bench: Bench, run_folder: Path, engines: Path) -> Iterator[Callable[..., Scene]]:
    """Start a runner of one way; skip where the machine has not got it."""
    made: list[Scene] = []

    def make(way: str, *, is_ordinary: bool = False, is_by_variable: bool = False, **variables: str) -> Scene:
        worker = bench.register(capacity=2)
        base = Path(tempfile.mkdtemp(prefix="scene-", dir=run_folder))
        start = as_ordinary_user() if is_ordinary else {}
        secrets, home = open_folders(base, worker[1], owner=ORDINARY_USER if start else os.geteuid())
        process = bench.start_worker(
            worker, home=home, **start,
            **{
                "WORKER_TOKEN": worker[1] if is_by_variable else "", "RUNYARD_SECRETS": str(secrets), WAYS: way,
                "HOME": str(base), "TF_CLI_CONFIG_FILE": "",
                "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": str(engines / "tofu"), **variables,
            },
        )  # fmt: skip
        # One that is root ends where it cannot isolate jobs.
        wait_until(lambda: any(map(process.said, ("isolated", "partly_isolated", "not_isolated"))), timeout_seconds=180)
        if way != "[]" and process.said("not_isolated"):
            pytest.skip(f"this machine cannot: {way}")
        bench.online(worker)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"\0runyard-{uuid.uuid4().hex}")
        listener.listen()
        made.append(Scene(bench, process, hold_a_job(bench), (secrets, home), listener))
        return made[-1]

    yield make
    for scene in made:
        scene.listener.close()
        with suppress(Refused):
            bench.rpc("cancel_job", p_job=scene.other, p_kind="KILL", p_reason="over")


def open_folders(base: Path, token: str, owner: int) -> tuple[Path, Path]:
    """The runner's secrets and its home, where users of their own can pass through to their jobs."""
    base.chmod(0o755)
    secrets, home = base / "secrets", base / "home"
    secrets.mkdir(mode=0o700)
    home.mkdir(mode=0o711)
    (secrets / "WORKER_TOKEN").write_text(token)
    for path in (secrets / "WORKER_TOKEN", secrets, home):
        os.chown(path, owner, -1)
    return secrets, home


def hold_a_job(bench: Bench) -> int:
    """A job of somebody else that stays where it holds its secrets."""
    module = bench.module(
        env={"OTHER": looter.PASSWORD_OF_ANOTHER}, inputs={"who": looter.PASSWORD_OF_ANOTHER},
        hooks={"before_plan": "exec sleep 600"},
    )  # fmt: skip
    job = bench.enqueue("PLAN", module)
    bench.wait_step(job, "before-plan", seconds=180)
    return job


def as_ordinary_user() -> dict[str, Any]:
    """Options that start a runner as an ordinary user, by a Python that such a user can reach; or skip. Empty for such a user."""
    if os.geteuid() != 0:
        return {}
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    prefix = ("setpriv", f"--reuid={ORDINARY_USER}", f"--regid={ORDINARY_USER}", "--clear-groups", "--")
    paths = f"{PROJECT}{os.pathsep}{sysconfig.get_path('purelib')}"
    tried = subprocess.run(
        [*prefix, python, "-c", "import worker.main"],
        env={"PYTHONPATH": paths},
        cwd="/",
        capture_output=True,
        check=False,
    )
    if tried.returncode != 0:
        pytest.skip(f"an ordinary user cannot run the runner from here: {tried.stderr.decode()[-200:]}")
    return {"prefix": prefix, "program": (python, "-m", "worker.cli"), "PYTHONPATH": paths}


@pytest.mark.parametrize("way", sampled(ALL_WAYS, 2))
def test_hooks_and_provisioners_find_nothing_but_their_own(make_scene: Callable[..., Scene], way: str) -> None:
    loot_by_hook_and_provisioner(make_scene(way), way)


@pytest.mark.parametrize("way", sampled([*SANDBOXES, "landlock"], 1))
def test_the_whole_runner_as_an_ordinary_user(make_scene: Callable[..., Scene], way: str) -> None:
    loot_by_hook_and_provisioner(make_scene(way, is_ordinary=True), way)


def loot_by_hook_and_provisioner(scene: Scene, way: str) -> None:
    script = looter.shell(*scene.places, victims=scene.victims)
    module = scene.bench.module(
        source={"files": {"main.tf": PROVISIONER, "loot.sh": script}},
        hooks={"before_plan": script, "after_apply": script},
    )
    scene.nothing_found("APPLY", module, times=3)
    assert scene.fact == way


@pytest.mark.parametrize("way", sampled(["auto", "landlock"], 1))
def test_an_external_data_source_finds_nothing_but_its_own(
    make_scene: Callable[..., Scene], external_mirror: Path, way: str
) -> None:
    config = external_mirror / "cli.tfrc"
    more = {"TF_CLI_CONFIG_FILE": str(config), "RUNYARD__ENGINE__ISOLATION__READONLYPATHS": str(external_mirror)}
    scene = make_scene("bubblewrap,namespaces,user" if way == "auto" else way, **more)
    script = f'{looter.shell(*scene.places)}\necho \'{{"answer": "done"}}\'\n'
    module = scene.bench.module(source={"files": {"main.tf": EXTERNAL, "loot.sh": script}})
    # What a program of a data source says beside its answer is not shown, unless it fails.
    job = scene.bench.finished("APPLY", module)
    assert job["result"]["outputs"]["answer"]["value"] == "done"
    failing = script + "exit 1\n"
    module = scene.bench.module(source={"files": {"main.tf": EXTERNAL, "loot.sh": failing}})
    failed = scene.bench.wait_job(scene.bench.enqueue("PLAN", module))
    log = scene.bench.log_of(failed["id"])
    assert failed["status"] == "FAILED"
    assert looter.looks(log) >= 1, log[-3000:]
    assert looter.loot(log) == []


@pytest.mark.parametrize("way", sampled(["auto", "landlock"], 1))
def test_a_pulumi_program_finds_nothing_but_its_own(make_scene: Callable[..., Scene], engines: Path, way: str) -> None:
    if not find(ENGINES["pulumi"]):
        pytest.skip("pulumi not found; `make engines` builds it")
    both = f"{engines}/tofu{os.pathsep}{engines}/pulumi"
    ways = "bubblewrap,namespaces,user" if way == "auto" else way
    scene = make_scene(ways, RUNYARD__ENGINE__ADDITIONALBINARYPATHS=both)
    files = {"Pulumi.yaml": PULUMI, "pulumi-language-looter": f"#!/bin/sh\n{looter.shell(*scene.places)}\nexit 1\n"}
    module = scene.bench.module(
        engine="pulumi", source={"files": files}, hooks={"before_init": "chmod +x pulumi-language-looter"}
    )
    failed = scene.bench.wait_job(scene.bench.enqueue("PLAN", module))
    log = scene.bench.log_of(failed["id"])
    # It is not a language plugin, so the job fails; the program has run before that.
    assert failed["status"] == "FAILED"
    assert looter.looks(log) >= 1, log[-3000:]
    assert looter.loot(log) == []


@pytest.mark.parametrize("way", sampled(ALL_WAYS, 2))
def test_processes_of_a_job_end_with_it_even_outside_its_session_and_environment(
    make_scene: Callable[..., Scene], way: str
) -> None:
    bench = make_scene(way).bench
    mark = f"4{uuid.uuid4().int % 10**8:08}"
    hook = f"env -i setsid sh -c 'echo > begun; exec sleep {mark}' >/dev/null 2>&1 & {until('begun')}"
    bench.finished("PLAN", bench.module(hooks={"before_init": hook}))
    wait_until(lambda: not running(mark))


@pytest.mark.parametrize("way", sampled(SANDBOXES, 1))
def test_an_apply_that_is_stopped_in_its_sandbox_gets_one_interrupt_and_stores_its_state(
    make_scene: Callable[..., Scene], way: str
) -> None:
    bench = make_scene(way, RUNYARD__JOBLOGSTREAM__PERIODSECONDS="0.3").bench
    module = bench.module(source={"files": {"main.tf": SLOW_APPLY}})
    job = bench.enqueue("APPLY", module)
    wait_until(lambda: BEGUN in bench.log_of(job), timeout_seconds=180)
    bench.rpc("cancel_job", p_job=job, p_kind="GRACEFUL", p_reason="changed my mind")
    assert bench.wait_job(job)["status"] == "CANCELLED"
    log = bench.log_of(job)
    assert "Interrupt received" in log
    assert "Two interrupts received" not in log
    state = bench.rpc("state_info", p_module=module)
    assert state["serial"] >= 1
    assert state["lock"] is None


def test_a_link_in_place_of_the_plan_fails_the_job(bench: Bench, make_scene: Callable[..., Scene]) -> None:
    secrets, _ = make_scene("[]").places
    hook = f"ln -sf {secrets}/WORKER_TOKEN ../plan.tfplan"
    job = bench.wait_job(bench.enqueue("PLAN", bench.module(hooks={"after_plan": hook})))
    assert (job["status"], job["error"]["code"]) == ("FAILED", "plan_changed")


def test_jobs_run_without_a_sandbox_and_the_missing_isolation_is_reported(bench: Bench) -> None:
    process = bench.runner(**{WAYS: "[]"})
    assert process.said("not_isolated")
    token = bench.tokens[process.worker_id]
    hook = "for each in /proc/[0-9]*; do tr '\\0' '\\n' < $each/environ; done 2>/dev/null | sed s/ryw_/found_/; echo looked"
    job = bench.finished("PLAN", bench.module(hooks={"before_plan": hook}))
    log = bench.log_of(job["id"])
    assert "looked" in log
    assert token.removeprefix("ryw_") not in log
    assert bench.rows("worker_instances", worker_id=process.worker_id)[0]["facts"]["isolation"] == "none"
    assert "Not isolated: this job can do everything that its runner's user can" in log.splitlines()[0]


def test_the_log_of_an_isolated_job_has_no_warning(make_scene: Callable[..., Scene]) -> None:
    scene = make_scene("bubblewrap,namespaces,user,landlock")
    job = scene.bench.finished("PLAN", scene.bench.module())
    assert "Not isolated" not in scene.bench.log_of(job["id"])


def test_without_isolation_the_attacks_work(make_scene: Callable[..., Scene]) -> None:
    """So that none of them fails in a sandbox for a wrong reason."""
    scene = make_scene("[]")
    hook = f"export ATTACKS_ONLY=1; {looter.shell(victims=scene.victims)}"
    job = scene.bench.finished("PLAN", scene.bench.module(hooks={"before_plan": hook}))
    found = "\n".join(looter.loot(scene.bench.log_of(job["id"])))
    for what in ("to end the runner", "to limit the runner", "an abstract socket", "to change its mode", "to watch it"):
        assert what in found
    assert ("to change the machine" in found) == (os.geteuid() == 0)


def test_without_a_sandbox_an_ordinary_users_jobs_find_no_token_that_was_set_by_a_variable(
    make_scene: Callable[..., Scene],
) -> None:
    if os.geteuid() != 0:
        pytest.skip("the project and this test run as the same user here, and have tokens of their own in their memory")
    scene = make_scene("[]", is_ordinary=True, is_by_variable=True)
    assert scene.fact == "none"
    job = scene.bench.finished("PLAN", scene.bench.module(hooks={"before_plan": looter.shell()}))
    log = scene.bench.log_of(job["id"])
    assert looter.looks(log) == 1
    # Another job's variables are what nobody keeps here; the tokens of runners and of their sessions are kept.
    assert [line for line in looter.loot(log) if "token" in line] == []


def test_a_runner_that_must_isolate_jobs_and_cannot_exits_at_once(bench: Bench) -> None:
    worker = bench.register()
    process = bench.start_worker(worker, **{WAYS: "[]", "RUNYARD__ENGINE__ISOLATION__MODE": "required"})
    assert process.wait() == ExitCode.SETTINGS
    assert "bubblewrap" in process.output


def shared_runner(bench: Bench) -> tuple[str, str]:
    worker = bench.register()
    with bench.database() as database:
        database.execute(
            "update public.workers set org_id = null, is_shared = true, type = 'shared' where id = %s", [worker[0]]
        )
    return worker


def test_a_shared_runner_that_cannot_shut_jobs_in_leaves_at_once(bench: Bench) -> None:
    process = bench.start_worker(shared_runner(bench), **{WAYS: "[]"})
    assert process.wait() == ExitCode.SETTINGS
    assert "This is a shared runner" in process.output


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_shared_runner_that_is_root_leaves_at_once(bench: Bench) -> None:
    process = bench.start_worker(shared_runner(bench), **{WAYS: "bubblewrap,namespaces"})
    assert process.wait() == ExitCode.SETTINGS
    if "no kind of isolation works" in process.output:
        pytest.skip("this machine has no sandbox")
    assert "runs as root" in process.output
    assert "user of its own" in process.output


def running(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        found += [entry.name] if mark.encode() in words else []
    return found
