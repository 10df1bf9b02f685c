"""Executors on a real Docker daemon: the image, the code under test, and failures."""

import os
import secrets
import shlex
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import bcrypt
import pytest

from stack.settings import PROJECT
from tests.integration.worker_bench import Bench, bench
from tests.support.forwarding import forwarded
from tests.support.private_registry import PASSWORD, USER, PrivateRegistry
from tests.support.real_docker import PROGRAM, RealDocker, is_readable_by_others, real_docker
from tests.support.waiting import wait_until

__all__ = ["bench", "real_docker"]
WAIT = "echo waiting here; exec sleep 600"
SLOW = """
resource "terraform_data" "slow" {
  input = "x"
  provisioner "local-exec" { command = "echo begun; exec sleep SECONDS" }
}
"""
# More than the limit, held until somebody ends it.
HUNGRY = "echo eating; head -c 400m /dev/zero | tail -c 400m > /dev/null && echo survived"


@pytest.fixture
def api_url(bench: Bench, real_docker: RealDocker) -> Iterator[str]:
    """The project's address for containers, by a name that only their extra hosts know."""
    if not is_readable_by_others(PROJECT):
        pytest.skip("the image's user cannot read this checkout")
    port = urlsplit(bench.project.url).port or 80
    with forwarded(real_docker.gateway, ("127.0.0.1", port)) as given:
        yield f"http://project.test:{given}"


@pytest.fixture
def on_docker(bench: Bench, real_docker: RealDocker, api_url: str) -> Iterator[dict[str, Any]]:
    """Settings with which a runner executes its jobs on this daemon; afterwards nothing is left."""
    yield {
        "RUNYARD_JOB_DISPATCHER_TYPE": "docker",
        "RUNYARD_JOB_DISPATCHER_DATA_HOST": real_docker.host,
        "RUNYARD_JOB_DISPATCHER_DATA_IMAGE": real_docker.image,
        "RUNYARD_JOB_DISPATCHER_DATA_LOCAL_IMAGE": "true",
        "RUNYARD_JOB_DISPATCHER_DATA_API_URL": api_url,
        "RUNYARD_JOB_DISPATCHER_DATA_EXTRA_HOSTS": f"project.test:{real_docker.gateway}",
        "RUNYARD_JOB_DISPATCHER_DATA_BIND_PATH": real_docker.code,
        "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": "/nonexistent",
        "RUNYARD__ENGINE__STOPGRACESECONDS": "20",
    }
    bench.close()
    for name in containers(bench, real_docker):
        real_docker("rm", "--force", "--volumes", name, is_checked=False)


def containers(bench: Bench, docker: RealDocker, job: int | None = None) -> list[str]:
    """Names of what this test's runners started, for a job or for any, and is still there: others use this daemon, too."""
    mine = tuple(f"-{process.worker_id[:8]}" for process in bench.processes)
    found = docker("ps", "--all", "--filter", "label=runyard.dev/job", "--format", "{{.Names}}").split()
    return [name for name in found if name.endswith(mine) and (job is None or name.startswith(f"runyard-job-{job}-"))]


def slow_module(bench: Bench, seconds: int = 600) -> str:
    return bench.module(source={"files": {"main.tf": SLOW.replace("SECONDS", str(seconds))}})


def begun(bench: Bench, module: str) -> int:
    """Start an apply and wait until it changes something."""
    job = bench.enqueue("APPLY", module)
    bench.wait_step(job, "apply", seconds=120)
    wait_until(lambda: "begun" in bench.log_of(job), timeout_seconds=180)
    return job


def test_plan_apply_output_and_destroy_run_in_containers_and_leave_none(
    bench: Bench, real_docker: RealDocker, on_docker: dict[str, Any]
) -> None:
    bench.runner(**on_docker)
    module = bench.module(inputs={"who": "Ada"})
    done = [bench.finished(kind, module) for kind in ("PLAN", "APPLY", "OUTPUT", "DESTROY")]
    assert done[1]["result"]["outputs"]["greeting"]["value"] == "hello Ada"
    wait_until(lambda: not containers(bench, real_docker), timeout_seconds=180)


def test_docker_by_tcp(bench: Bench, real_docker: RealDocker, on_docker: dict[str, Any]) -> None:
    if not real_docker.host.startswith("unix://"):
        pytest.skip("this Docker is reached by TCP in all the other tests")
    with forwarded("127.0.0.1", real_docker.host.removeprefix("unix://")) as port:
        bench.runner(**on_docker | {"RUNYARD_JOB_DISPATCHER_DATA_HOST": f"tcp://127.0.0.1:{port}"})
        bench.finished("PLAN", bench.module())
        bench.close()


@pytest.mark.parametrize("kind", ["AFTER_STEP", "GRACEFUL", "KILL"])
def test_a_cancelled_job_ends_and_its_container_is_removed(
    bench: Bench, real_docker: RealDocker, on_docker: dict[str, Any], kind: str
) -> None:
    bench.runner(**on_docker)
    script = "echo waiting here; sleep 8" if kind == "AFTER_STEP" else WAIT
    job = bench.enqueue("APPLY", bench.module(hooks={"before_plan": script}))
    bench.wait_step(job, "before-plan", seconds=120)
    bench.rpc("cancel_job", p_job=job, p_kind=kind, p_reason="changed my mind")
    assert bench.wait_job(job)["status"] == "CANCELLED"
    wait_until(lambda: not containers(bench, real_docker, job), timeout_seconds=180)


def test_a_container_killed_before_it_changed_anything_fails_its_job_with_its_exit_code(
    bench: Bench, real_docker: RealDocker, on_docker: dict[str, Any]
) -> None:
    bench.runner(**on_docker)
    job = bench.enqueue("PLAN", bench.module(hooks={"before_plan": WAIT}))
    bench.wait_step(job, "before-plan", seconds=120)
    real_docker("kill", *containers(bench, real_docker, job))
    ended = bench.wait_job(job)
    assert (ended["status"], ended["error"]["code"]) == ("FAILED", "executor_lost")
    assert "exit code 137" in ended["error"]["message"]


@pytest.mark.slow
def test_a_container_killed_in_mid_apply_needs_a_person(
    bench: Bench, real_docker: RealDocker, on_docker: dict[str, Any]
) -> None:
    bench.runner(**on_docker)
    job = begun(bench, slow_module(bench))
    real_docker("kill", *containers(bench, real_docker, job))
    assert bench.wait_job(job)["status"] == "NEEDS_ATTENTION"


def test_a_container_stopped_by_hand_in_mid_apply_saves_its_state(
    bench: Bench, real_docker: RealDocker, on_docker: dict[str, Any]
) -> None:
    bench.runner(**on_docker)
    module = slow_module(bench)
    job = begun(bench, module)
    real_docker("stop", *containers(bench, real_docker, job))
    ended = bench.wait_job(job)
    assert ended["status"] == "FAILED", ended["error"]
    with bench.database() as connection:
        locks = connection.execute("select 1 from private.state_locks where module_id = %s", [module]).fetchall()
    assert locks == [], "it was stopped in order: its state is saved and free"


def test_a_job_over_its_memory_limit_is_reported(
    bench: Bench, real_docker: RealDocker, on_docker: dict[str, Any]
) -> None:
    bench.runner(**on_docker | {"RUNYARD_JOB_DISPATCHER_DATA_MEMORY_LIMIT": "256 MB"})
    job = bench.enqueue("PLAN", bench.module(hooks={"before_plan": HUNGRY}))
    ended = bench.wait_job(job)
    assert ended["status"] == "FAILED"
    assert "survived\n" not in bench.log_of(job)
    assert "It ran out of memory" in ended["error"]["message"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"IMAGE": "runyard-worker:absent"}, "No such image"),
        ({"IMAGE": "127.0.0.1:9/absent", "LOCAL_IMAGE": "false"}, "connection refused"),
        ({"BIND_PATH": "/proc/nothing/here:/inside"}, "mount"),
        ({"MEMORY_LIMIT": "1 MB"}, "memory"),
        ({"HOST": "unix:///nonexistent/docker.sock"}, "/nonexistent/docker.sock"),
    ],
)
def test_a_refusal_by_docker_is_reported_with_its_message_and_a_remedy(
    bench: Bench, on_docker: dict[str, Any], data: dict[str, str], words: str
) -> None:
    bench.runner(**on_docker | {f"RUNYARD_JOB_DISPATCHER_DATA_{name}": value for name, value in data.items()})
    job = bench.enqueue("PLAN", bench.module())
    said = bench.given_back(job)
    assert "Docker could not start the executor" in said
    assert words.lower() in said.lower()
    assert any(remedy in said for remedy in ("Check", "Load", "See that"))


@pytest.mark.slow
def test_an_image_is_pulled_from_a_private_registry_with_the_settings_user_and_password(
    bench: Bench, real_docker: RealDocker, on_docker: dict[str, Any], private_registry: PrivateRegistry
) -> None:
    bench.runner(**on_docker | from_registry(private_registry, PASSWORD))
    bench.finished("PLAN", bench.module())
    real_docker("rmi", private_registry.image)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("password", "words"), [("wrong", "unauthorized: authentication required"), ("", "no basic auth credentials")]
)
def test_a_private_registry_that_refuses_is_named_with_a_remedy(
    bench: Bench, on_docker: dict[str, Any], private_registry: PrivateRegistry, password: str, words: str
) -> None:
    bench.runner(**on_docker | from_registry(private_registry, password))
    said = bench.given_back(bench.enqueue("PLAN", bench.module()))
    assert words in said
    assert f"Check that {private_registry.image} exists, and the registry's user and password" in said


def from_registry(registry: PrivateRegistry, password: str) -> dict[str, str]:
    """The runner's variables for an image there; no user without a password."""
    given = {"IMAGE": registry.image, "LOCAL_IMAGE": "false"}
    given |= {"REGISTRY_USERNAME": USER, "REGISTRY_PASSWORD": password} if password else {}
    return {f"RUNYARD_JOB_DISPATCHER_DATA_{name}": value for name, value in given.items()}


def test_an_image_that_is_no_executor_returns_its_job_with_the_reason(bench: Bench, on_docker: dict[str, Any]) -> None:
    bench.runner(**on_docker | {"RUNYARD_JOB_DISPATCHER_DATA_BIND_PATH": f"/bin/true:{PROGRAM}:ro"})
    said = bench.given_back(bench.enqueue("PLAN", bench.module()))
    assert "the container ended with exit code 0, before it had told anything" in said
    assert "Is the dispatcher's image a Runyard worker image" in said


def test_variables_and_files_reach_the_engine_by_setting_alone(
    bench: Bench, real_docker: RealDocker, on_docker: dict[str, Any], tmp_path: Path
) -> None:
    kept = Path(str(bench.folder)) / "aws"
    kept.mkdir()
    kept.chmod(0o755)
    (kept / "credentials").write_text("[default]\n")
    script = 'echo "passed=$VSPHERE_USER given=$GIVEN not=$PGPASSWORD"; ls /home/runner/.aws'
    script += '; echo "group=$RUNYARD_GROUP_PATH endpoint=$RUNYARD_ENDPOINT"'
    bench.runner(
        **on_docker
        | {
            "RUNYARD_JOB_DISPATCHER_DATA_BIND_PATH": f"{real_docker.code},{shared(kept)}:/home/runner/.aws:ro",
            "RUNYARD_JOB_DISPATCHER_DATA_PASS_ENVIRONMENT": "VSPHERE_*",
            "RUNYARD_JOB_DISPATCHER_DATA_ENVIRONMENT": "GIVEN=here",
            "RUNYARD__ENGINE__ISOLATION__READONLYPATHS": "/home/runner/.aws",
            "VSPHERE_USER": "ada", "PGPASSWORD": "not-for-you",
        }
    )  # fmt: skip
    job = bench.finished("PLAN", bench.module(hooks={"before_plan": script}))
    log = bench.log_of(job["id"])
    assert "passed=ada given=here not=\n" in log
    assert "credentials" in log.splitlines()
    assert f"group=apps/web endpoint={on_docker['RUNYARD_JOB_DISPATCHER_DATA_API_URL']}\n" in log


def test_the_image_has_the_credential_helper_at_its_documented_path(real_docker: RealDocker) -> None:
    assert "--audience" in real_docker("run", "--rm", real_docker.image, "/opt/credhelpers/aws-iam", "--help")


def test_the_page_s_docker_run_starts_a_runner_that_signs_in_with_a_group_s_account(
    bench: Bench, real_docker: RealDocker, api_url: str, tmp_path: Path
) -> None:
    module, secret = bench.module(), secrets.token_urlsafe(24)
    spec = {"name": "deployer", "path": "apps"}
    hashed = bcrypt.hashpw(secret.encode(), bcrypt.gensalt(8)).decode()
    account = bench.rpc("create_service_account", p_org=bench.org, p_spec=spec, p_secret_hash=hashed, p_secret_hint="x")
    options = {"is_assigned_to_all_modules": False, "assignments": ["apps/web"], "service_account_id": account["id"]}
    worker, name = bench.register(**options), f"runyard-page-{uuid.uuid4().hex[:8]}"
    given = {
        "RUNYARD_API_URL": f"http://host.docker.internal:{urlsplit(api_url).port}",
        "WORKER_ID": worker[0],
        "RUNYARD_SERVICE_ACCOUNT_PATH": "apps/deployer",
        "WORKER_CLIENT_SECRET": secret,
    }
    (tmp_path / "runner.env").write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    page = (PROJECT / "docs" / "runner" / "service-accounts.md").read_text()
    line = page[page.index("docker run --detach --name runner ") :].split("```")[0].replace("\\\n", " ")
    for printed, here in (
        ("docker run", "run --add-host host.docker.internal:host-gateway"),
        ("--name runner", f"--name {name}"),
        ("--volume runner:", f"--volume {name}:"),
        ("runner.env", str(tmp_path / "runner.env")),
        ("/srv/runyard/aws", str(tmp_path)),
    ):
        assert printed in line
        line = line.replace(printed, here)
    command = shlex.split(line)
    try:
        real_docker(*command[:-1], real_docker.image)
        bench.online(worker)
        bench.finished("PLAN", module)
    finally:
        real_docker("rm", "--force", "--volumes", name, is_checked=False)
        real_docker("volume", "rm", name, is_checked=False)


@pytest.fixture
def compose(real_docker: RealDocker) -> list[str]:
    """Docker's compose, of whichever generation; its own check of the file comes first."""
    for command in (["docker", "-H", real_docker.host, "compose"], ["docker-compose", "-H", real_docker.host]):
        try:
            found = subprocess.run([*command, "version"], capture_output=True, check=False, timeout=60)
        except OSError:
            continue
        if found.returncode == 0:
            return command
    pytest.skip("docker compose is not here")


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to another user needs root")
def test_the_compose_file_starts_a_runner(
    bench: Bench, real_docker: RealDocker, api_url: str, compose: list[str], tmp_path: Path
) -> None:
    module, worker = bench.module(), bench.register()
    token, more = tmp_path / "token", tmp_path / "more.yaml"
    token.write_text(worker[1])
    token.chmod(0o400)
    os.chown(token, 10001, 10001)
    # Nothing of the file is changed: the address is this machine's own, and nothing is built.
    more.write_text(
        f"services: {{runner: {{image: {real_docker.image}, extra_hosts: ['project.test:{real_docker.gateway}']}}}}"
    )
    files = [
        "--project-name",
        f"runyard-{uuid.uuid4().hex[:8]}",
        "-f",
        str(PROJECT / "deploy/compose.yaml"),
        "-f",
        str(more),
    ]
    env = os.environ | {"WORKER_ID": worker[0], "SUPABASE_URL": api_url, "WORKER_TOKEN_FILE": str(token)}

    def run(*words: str) -> None:
        subprocess.run([*compose, *files, *words], env=env, check=True, capture_output=True, timeout=300)

    run("config", "--quiet")
    try:
        run("up", "--detach", "--no-build")
        bench.online(worker)
        bench.finished("PLAN", module)
    finally:
        run("down", "--volumes", "--timeout", "20")


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to another user needs root")
def test_the_documented_command_makes_a_private_dot_aws_readable_for_the_image(
    real_docker: RealDocker, tmp_path: Path
) -> None:
    own = tmp_path / ".aws"
    own.mkdir(mode=0o700)
    (own / "credentials").write_text("[default]\n")
    (own / "credentials").chmod(0o600)
    page = (PROJECT / "docs" / "runner" / "credentials.md").read_text()
    line = next(each for each in page.splitlines() if each.startswith("install -d"))
    copy = tmp_path / "srv"
    subprocess.run(
        ["/bin/sh", "-c", line.replace("/srv/runyard", str(copy))], env=os.environ | {"HOME": str(tmp_path)}, check=True
    )

    def read(folder: Path) -> str:
        shown = (
            "--volume",
            f"{folder}:/home/runner/.aws:ro",
            real_docker.image,
            "cat",
            "/home/runner/.aws/credentials",
        )
        return real_docker("run", "--rm", *shown, is_checked=False)

    assert (read(own), read(copy / "aws")) == ("", "[default]"), "a mount of one's own folder is not enough"


def shared(folder: Path) -> str:
    """The folder, once every folder above lets others pass."""
    for each in [folder, *folder.parents]:
        if not each.stat().st_mode & 0o001 and each.owner() == Path.home().owner():
            each.chmod(each.stat().st_mode | 0o001)
    return shlex.quote(str(folder)).strip("'")


@pytest.mark.slow
def test_an_executor_outlives_a_runner_that_is_killed_in_mid_apply(
    bench: Bench, real_docker: RealDocker, on_docker: dict[str, Any]
) -> None:
    worker = bench.register()
    first = bench.start_worker(worker, instance="one", **on_docker)
    bench.online(worker)
    job = begun(bench, slow_module(bench, seconds=30))
    first.signal(signal.SIGKILL)
    first.wait()
    bench.start_worker(worker, instance="one", home=first.home, **on_docker)
    ended = bench.wait_job(job, seconds=240)
    assert ended["status"] == "SUCCEEDED", ended["error"]
    wait_until(lambda: not containers(bench, real_docker, job), timeout_seconds=180)
