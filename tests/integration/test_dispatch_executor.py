"""Jobs executed elsewhere: a real runner, Docker's API, and a real executor with a credential for one job."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stack.settings import PROJECT
from tests.integration.test_remote_state import READER
from tests.integration.test_worker_stopping import BEGUN
from tests.integration.worker_bench import Bench, WorkerProcess, bench, until
from tests.support.waiting import wait_until
from tests.unit.worker.dispatch.docker_api import DockerApi
from tests.unit.worker.dispatch.processes import write_executor
from tests.unit.worker.dispatch.serving import serve

__all__ = ["bench"]
WAIT = "echo waiting here; exec sleep 600"
# The apply has begun, and its provisioner does not end on its own.
SLOW_APPLY = """
resource "terraform_data" "slow" {
  input = "x"
  provisioner "local-exec" { command = "echo begun; exec sleep 600" }
}
"""


@pytest.fixture
def docker(bench: Bench, tmp_path: Path) -> DockerApi:
    """A Docker host whose image holds the runner and OpenTofu."""
    gates = tmp_path / "gates"
    gates.mkdir()
    shown = f"RUNYARD__ENGINE__ISOLATION__READONLYPATHS={gates} RUNYARD__HOOKS__TIMEOUTSECONDS=600"
    script = f'export HOME={tmp_path} PYTHONPATH={PROJECT} {shown}\nexec {sys.executable} -m worker.cli "$@"'
    folder = write_executor(tmp_path / "image", script)
    (folder / "tofu").symlink_to(bench.tofu)
    return DockerApi(folder)


def on_docker(address: str) -> dict[str, str]:
    """Settings with which a runner executes its jobs on this Docker host."""
    return {
        "RUNYARD_JOB_DISPATCHER_TYPE": "docker",
        "RUNYARD_JOB_DISPATCHER_DATA_HOST": f"tcp://{address}",
        "RUNYARD_JOB_DISPATCHER_DATA_IMAGE": "runyard-worker",
        "RUNYARD_JOB_DISPATCHER_DATA_LOCAL_IMAGE": "true",
        "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": "/nonexistent",
    }


@pytest.fixture
def runner(bench: Bench, docker: DockerApi) -> Iterator[WorkerProcess]:
    """A runner that executes nothing itself."""
    with serve(docker.routes()) as address:
        yield bench.runner(**on_docker(address))
        for box in docker.boxes.values():
            box.signal("SIGKILL")
        bench.close()


def box_name(runner: WorkerProcess, job: int, attempt: int = 1) -> str:
    return f"runyard-job-{job}-{attempt}-{runner.worker_id[:8]}"


def test_plan_and_apply_run_in_executors_and_leave_nothing(
    bench: Bench, docker: DockerApi, runner: WorkerProcess
) -> None:
    module = bench.module(inputs={"who": "Ada"})
    plan = bench.finished("PLAN", module)
    assert plan["plan_summary"]["create"] == 2
    assert "hello Ada" in bench.log_of(plan["id"])
    apply = bench.finished("APPLY", module)
    assert apply["result"]["outputs"]["greeting"]["value"] == "hello Ada"
    wait_until(
        lambda: sorted(docker.removed) == sorted(box_name(runner, each["id"]) for each in (plan, apply)),
        timeout_seconds=180,
    )
    told = json.dumps(docker.configs)
    assert bench.tokens[runner.worker_id] not in told
    assert runner.process.poll() is None


def test_an_engine_elsewhere_reads_the_outputs_that_its_module_was_granted(bench: Bench, runner: WorkerProcess) -> None:
    network = bench.module()
    bench.finished("APPLY", network)
    slug = bench.rows("organizations", id=bench.org)[0]["slug"]
    name = bench.rows("modules", id=network)[0]["name"]
    reader = bench.module(source={"files": {"main.tf": READER % (slug, name)}})
    bench.rpc("grant_outputs", p_module=network, p_reader=reader)
    assert bench.finished("APPLY", reader)["result"]["outputs"]["seen"]["value"] == "hello world"


@pytest.mark.parametrize("kind", ["GRACEFUL", "KILL"])
def test_a_cancelled_job_ends_cancelled_and_its_executor_is_removed(
    bench: Bench, docker: DockerApi, runner: WorkerProcess, kind: str
) -> None:
    job = bench.enqueue("APPLY", bench.module(hooks={"before_plan": WAIT}))
    bench.wait_step(job, "before-plan")
    bench.rpc("cancel_job", p_job=job, p_kind=kind, p_reason="changed my mind")
    ended = bench.wait_job(job)
    assert ended["status"] == "CANCELLED", ended["error"]
    wait_until(lambda: docker.boxes[box_name(runner, job)].exit_code() is not None, timeout_seconds=180)
    wait_until(lambda: box_name(runner, job) in docker.removed, timeout_seconds=180)


def test_an_executor_lost_before_it_changed_anything_fails_its_job_with_its_exit_code(
    bench: Bench, docker: DockerApi, runner: WorkerProcess
) -> None:
    job = bench.enqueue("PLAN", bench.module(hooks={"before_plan": WAIT}))
    bench.wait_step(job, "before-plan")
    docker.boxes[box_name(runner, job)].signal("SIGKILL")
    ended = bench.wait_job(job)
    assert ended["status"] == "FAILED"
    assert ended["error"]["code"] == "executor_lost"
    assert "exit code 137" in ended["error"]["message"]


@pytest.mark.slow
def test_an_executor_lost_in_the_middle_of_an_apply_needs_a_person(
    bench: Bench, docker: DockerApi, runner: WorkerProcess
) -> None:
    job = bench.enqueue("APPLY", bench.module(source={"files": {"main.tf": SLOW_APPLY}}))
    bench.wait_step(job, "apply")
    wait_until(lambda: BEGUN in bench.log_of(job), timeout_seconds=180)
    docker.boxes[box_name(runner, job)].signal("SIGKILL")
    ended = bench.wait_job(job)
    assert ended["status"] == "NEEDS_ATTENTION"


def test_an_image_that_is_no_executor_returns_its_job_and_its_runner_becomes_degraded(
    bench: Bench, tmp_path: Path
) -> None:
    docker = DockerApi(write_executor(tmp_path / "image", "exit 0"))
    with serve(docker.routes()) as address:
        runner = bench.runner(**on_docker(address))
        job = bench.enqueue("PLAN", bench.module())
        said = bench.given_back(job)
        assert "exit code 0, before it had told anything" in said
        assert "Is the dispatcher's image a Runyard worker image" in said
        wait_until(lambda: runner.said("degraded"), timeout_seconds=180)
        wait_until(lambda: docker.removed == [box_name(runner, job)], timeout_seconds=180)
        bench.close()


@pytest.mark.slow
def test_an_apply_is_not_repeated_when_an_entry_point_hides_its_executors_exit_code(
    bench: Bench, docker: DockerApi, runner: WorkerProcess, tmp_path: Path
) -> None:
    hiding = f'export HOME={tmp_path} PYTHONPATH={PROJECT}\n{sys.executable} -m worker.cli "$@"\nexit 0'
    write_executor(tmp_path / "image", hiding)
    job = bench.enqueue("APPLY", bench.module(source={"files": {"main.tf": SLOW_APPLY}}))
    bench.wait_step(job, "apply")
    wait_until(lambda: BEGUN in bench.log_of(job), timeout_seconds=180)
    (executor,) = psutil.Process(docker.boxes[box_name(runner, job)].process.pid).children()
    executor.kill()
    ended = bench.wait_job(job)
    assert (ended["status"], ended["attempt"]) == ("NEEDS_ATTENTION", 1)
    wait_until(lambda: runner.said("executor_lost"), timeout_seconds=180)
    told = next(each for each in runner.events() if each.get("id") == "executor_ended")
    assert "exit code 0, and did not report how the job ended" in told["why"]


@pytest.mark.slow
def test_an_executor_stops_itself_when_its_runner_was_removed(
    bench: Bench, docker: DockerApi, runner: WorkerProcess
) -> None:
    job = bench.enqueue("PLAN", bench.module(hooks={"before_plan": WAIT}), max_attempts=1)
    bench.wait_step(job, "before-plan")
    runner.signal(signal.SIGKILL)
    box = docker.boxes[box_name(runner, job)]
    wait_until(lambda: box.exit_code() is not None, timeout_seconds=150)
    assert box.exit_code() == 7


def test_a_leaving_runner_waits_until_its_executors_finish(
    bench: Bench, docker: DockerApi, runner: WorkerProcess, tmp_path: Path
) -> None:
    gate = tmp_path / "gates" / "gate"
    job = bench.enqueue("PLAN", bench.module(hooks={"before_plan": until(gate)}))
    bench.wait_step(job, "before-plan")
    runner.signal(signal.SIGTERM)
    wait_until(lambda: runner.said("leaving"))
    gate.touch()
    assert bench.wait_job(job)["status"] == "SUCCEEDED"
    assert runner.wait() == 0
    assert docker.removed == [box_name(runner, job)]


def test_hooks_are_approved_by_the_runner_s_directory_though_executors_have_none(
    bench: Bench, docker: DockerApi, tmp_path: Path
) -> None:
    approved = tmp_path / "approved"
    approved.mkdir()
    (approved / "reviewed").write_text("echo reviewed and run\n")
    with serve(docker.routes()) as address:
        bench.runner(
            **on_docker(address),
            RUNYARD__HOOKSPREAPPROVAL__ENABLED="true",
            RUNYARD__HOOKSPREAPPROVAL__PREAPPROVEDHOOKSDIRECTORY=str(approved),
        )
        good = bench.finished("PLAN", bench.module(hooks={"before_init": "echo reviewed and run\n"}))
        assert "reviewed and run" in bench.log_of(good["id"])
        refused = bench.wait_job(bench.enqueue("PLAN", bench.module(hooks={"before_init": "echo not reviewed\n"})))
        assert (refused["status"], refused["error"]["code"]) == ("FAILED", "hook_not_approved")
        bench.close()
