"""A malicious module in real containers: the image's runner in its three shapes, and as the docker dispatcher's executor."""

import asyncio
import io
import os
import shutil
import subprocess
import tarfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from stack.settings import PROJECT
from tests.integration.worker_bench import Bench, bench
from tests.support import looter

__all__ = ["bench"]

IMAGE = "runyard-worker"
PLACES = ("/run", "/home", "/tmp", "/var/lib", "/root", "/srv", "/dev/shm")
PROVISIONER = """
resource "terraform_data" "looter" {
  provisioner "local-exec" { command = file("${path.module}/loot.sh") }
}
"""
UNCONFINED = [f"--security-opt={name}=unconfined" for name in ("seccomp", "apparmor", "systempaths")]
AS_ROOT = [
    "--user=0", "--cap-drop=ALL",
    *(f"--cap-add={name}" for name in ("SETUID", "SETGID", "CHOWN", "KILL", "DAC_OVERRIDE", "FOWNER")),
    "--env=RUNYARD__WORKINGDIRECTORY__TEMPDIRECTORY=/tmp/jobs",
]  # fmt: skip
# How the container is started, and the ways to shut jobs in that it may find there.
SHAPES = {
    "defaults": ([], {"landlock", "none"}),
    "as the docs say": (UNCONFINED, {"bubblewrap"}),
    "as root with few rights": (AS_ROOT, {"user", "landlock"}),
}


def docker(*words: str, **options: object) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(["docker", *words], capture_output=True, check=False, timeout=300, **options)  # type: ignore[call-overload,no-any-return]


@pytest.fixture(scope="module")
def image() -> str:
    """The image with the runner of this checkout; or skip where Docker or the image is not there."""
    if not shutil.which("docker") or docker("image", "inspect", IMAGE).returncode != 0:
        pytest.skip(f"no Docker here, or no image {IMAGE}: docker build --file deploy/Dockerfile --tag {IMAGE} .")
    name = f"{IMAGE}-isolation"
    packages = "$(dirname $(/opt/runyard/bin/python -c 'import worker; print(worker.__path__[0])'))"
    steps = f"cd {packages} && rm -rf worker wire && cp -r /src/* . && rm -rf /src"
    recipe = f"FROM {IMAGE}\nUSER 0\nCOPY wire /src/wire\nCOPY worker /src/worker\nRUN {steps}\nUSER 10001\n"
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        facts = tarfile.TarInfo("Dockerfile")
        facts.size = len(recipe)
        archive.addfile(facts, io.BytesIO(recipe.encode()))
        for package in ("wire", "worker"):
            archive.add(PROJECT / package, package, filter=lambda each: None if "__pycache__" in each.name else each)
    built = docker("build", "--tag", name, "-", input=context.getvalue())
    assert built.returncode == 0, built.stderr.decode()
    return name


@pytest.fixture
def start(bench: Bench, image: str) -> Iterator[Callable[..., str]]:
    """Start the image's runner and return its record's id once it is online."""
    names: list[str] = []

    def run(*options: str, by_variable: bool) -> str:
        worker = bench.register(capacity=2)
        names.append(f"runyard-isolation-{uuid.uuid4().hex[:8]}")
        token = bench.folder / f"{names[-1]}.token"
        token.write_text(worker[1])
        token.chmod(0o644)
        bench.folder.chmod(0o755)
        given = (f"--env=WORKER_TOKEN={worker[1]}",)
        if not by_variable:
            given = (f"--mount=type=bind,source={token},target=/run/secrets/WORKER_TOKEN,readonly",)
        done = docker(
            "run", "--detach", "--network=host", f"--name={names[-1]}", *given, *options, f"--env=WORKER_ID={worker[0]}",
            f"--env=SUPABASE_URL={bench.project.url}", f"--env=WORKER_INSTANCE={names[-1]}",
            "--env=RUNYARD__HOOKS__TIMEOUTSECONDS=600", image,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        try:
            bench.online(worker)
        except AssertionError:
            told = docker("logs", names[-1])
            pytest.fail((told.stdout + told.stderr).decode())
        return worker[0]

    yield run
    for name in names:
        docker("rm", "--force", "--volumes", name)


def hold_a_job(bench: Bench) -> int:
    """Somebody else's job, which stays where it holds its secrets."""
    module = bench.module(
        env={"OTHER": looter.PASSWORD_OF_ANOTHER}, inputs={"who": looter.PASSWORD_OF_ANOTHER},
        hooks={"before_plan": "exec sleep 600"},
    )  # fmt: skip
    job = bench.enqueue("PLAN", module)
    bench.wait_step(job, "before-plan")
    return job


def log_of_a_looter(bench: Bench) -> str:
    script = looter.shell(*PLACES)
    module = bench.module(
        source={"files": {"main.tf": PROVISIONER, "loot.sh": script}},
        hooks={"before_plan": script, "after_apply": script},
    )
    job = bench.finished("APPLY", module)
    log = bench.log_of(job["id"])
    assert looter.looks(log) >= 3
    return log


@pytest.mark.parametrize("by_variable", [True, False], ids=["token in a variable", "token in a file"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_module_in_the_images_runner_finds_nothing_but_its_own(
    bench: Bench, start: Callable[..., str], shape: str, by_variable: bool
) -> None:
    options, ways = SHAPES[shape]
    worker = start(*options, by_variable=by_variable)
    held = hold_a_job(bench)
    found = looter.loot(log_of_a_looter(bench))
    way = bench.rows("worker_instances", worker_id=worker)[0]["facts"]["isolation"]
    assert way in ways
    if way == "none":
        # On an older kernel the docs list what stays readable; a token passed in a variable is out of reach even so.
        found = [line for line in found if "token of" in line and by_variable]
    assert found == []
    assert bench.job(held)["status"] == "PROCESSING"
    bench.rpc("cancel_job", p_job=held, p_kind="KILL", p_reason="over")


def test_a_module_in_an_executor_of_the_docker_dispatcher_finds_nothing_but_its_own(bench: Bench, image: str) -> None:
    with reachable_from_containers(bench.project.url) as url:
        process = bench.runner(
            RUNYARD_JOB_DISPATCHER_TYPE="docker",
            RUNYARD_JOB_DISPATCHER_DATA_HOST=os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"),
            RUNYARD_JOB_DISPATCHER_DATA_IMAGE=image,
            RUNYARD_JOB_DISPATCHER_DATA_LOCAL_IMAGE="true",
            RUNYARD_JOB_DISPATCHER_DATA_API_URL=url,
            RUNYARD__HOOKS__TIMEOUTSECONDS="600",
            options={"capacity": 2},
        )
        held = hold_a_job(bench)
        log = log_of_a_looter(bench)
        assert looter.loot(log) == []
        assert bench.tokens[process.worker_id] not in log
        bench.rpc("cancel_job", p_job=held, p_kind="KILL", p_reason="over")
        bench.wait_job(held)
        bench.close()


@contextmanager
def reachable_from_containers(url: str) -> Iterator[str]:
    """The stack listens on loopback: hand what comes to Docker's own address on to it."""
    asked = docker("network", "inspect", "bridge", "--format", "{{range .IPAM.Config}}{{.Gateway}}{{end}}")
    gateway = asked.stdout.decode().strip() or "172.17.0.1"
    parts, loop = urlsplit(url), asyncio.new_event_loop()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back = await asyncio.open_connection(parts.hostname, parts.port)
        await asyncio.gather(copy(reader, back[1]), copy(back[0], writer))

    server = loop.run_until_complete(asyncio.start_server(serve, gateway, 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{gateway}:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
