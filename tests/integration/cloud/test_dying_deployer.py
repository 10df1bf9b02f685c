"""kill -9 of the process that deploys, at the call each step makes: the job comes back and the next process finishes it."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cloud.account import listing
from tests.integration.cloud.fargate import Fargate
from tests.integration.cloud.gate import Gate
from tests.integration.cloud.test_cloud_story import REGION, ROLE, row, succeeded
from tests.integration.worker_bench import Bench, WorkerProcess, bench

__all__ = ["bench"]
pytestmark = pytest.mark.timeout(900)
# One call of every step that makes something, in the order of the steps.
CALLS = (
    "CreateLogGroup",
    "CreateSecret",
    "CreateRole",
    "CreateVpc",
    "CreateSecurityGroup",
    "CreateCluster",
    "RegisterTaskDefinition",
    "CreateService",
)
FAST = {"RUNYARD__SCALING__ENABLED": "false", "RUNYARD__SCALING__LOOKSECONDS": "0.5"}


@pytest.fixture
def fargate(aws: str, bench: Bench, tmp_path: Path) -> Iterator[Fargate]:
    folder = tmp_path / "tasks"
    folder.mkdir()
    with Fargate(folder, bench.tofu) as started:
        yield started


def begin(bench: Bench) -> tuple[dict[str, object], int]:
    identity = bench.rpc(
        "create_cloud_identity", p_org=bench.org,
        p_spec={"name": "aws", "account_id": "123456789012", "role_arn": ROLE, "regions": [REGION]},
    )  # fmt: skip
    with bench.database() as connection:
        connection.execute("update cloud_identities set verified_at = now() where id = %s", [identity["id"]])
    made = bench.rpc(
        "deploy_worker", p_org=bench.org, p_name="cloud", p_cloud_identity=identity["id"], p_region=REGION,
        p_options={"is_assigned_to_all_modules": True, "version": "9.0.0", "desired_count": 1},
    )  # fmt: skip
    job = int(made["job"]["id"])
    with bench.database() as connection:
        # More deaths than one job is usually given, so that one job can die at every step.
        connection.execute("update provision_jobs set max_attempts = 20 where id = %s", [job])
    return made["worker"], job


def hurry(bench: Bench, job: int) -> None:
    """Spare the test the pause that grows with each lost attempt."""
    with bench.database() as connection:
        connection.execute("update private.live_jobs set not_before_at = now() where job_id = %s", [job])
        connection.execute("select public.sweep()")


def test_killed_at_every_step_the_deployment_is_finished_and_its_removal_leaves_nothing(
    bench: Bench, fargate: Fargate, aws: str
) -> None:
    before = listing(REGION)
    deployer = bench.register(
        accepted_job_types=["DEPLOY_WORKER", "UPDATE_WORKER", "REMOVE_WORKER"], is_assigned_to_all_modules=True
    )
    home = bench.folder / "deployer"
    with Gate(aws) as gate:

        def start() -> WorkerProcess:
            return bench.start_worker(deployer, instance="deployer", home=home, AWS_ENDPOINT_URL=gate.url, **FAST)

        gate.hold(CALLS[0])
        process = start()
        worker, job = begin(bench)
        for number, call in enumerate(CALLS):
            assert gate.held.wait(120), f"{call} was not called\n{bench.log_of(job)}\n{process.output[-3000:]}"
            process.signal(signal.SIGKILL)
            process.wait()
            gate.release()
            if number + 1 < len(CALLS):
                gate.hold(CALLS[number + 1])
            process = start()
            bench.wait_job(job, "QUEUED", seconds=120)
            hurry(bench, job)
        done = bench.wait_job(job, seconds=180)
        succeeded(bench, done)
        assert done["attempt"] == len(CALLS) + 1
        assert row(bench, worker)["status"] == "ONLINE"
        after = listing(REGION)
        grown = {kind: len(after[kind]) - len(before[kind]) for kind in after}
        assert grown == dict.fromkeys(after, 1) | {"roles": 2, "groups": 2}
        removal = bench.rpc("remove_cloud_worker", p_worker=worker["id"])
        succeeded(bench, bench.wait_job(removal["id"], seconds=180))
    assert listing(REGION) == before
