"""kill -9 of the process that deploys, at the call each step makes: the job returns to the queue and the next process finishes it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cloud.account import listing
from tests.integration.cloud.dying import Death, Mortal
from tests.integration.cloud.fargate import Fargate
from tests.integration.cloud.gate import Gate
from tests.integration.cloud.test_cloud_story import REGION, ROLE, row, succeeded
from tests.integration.worker_bench import Bench, bench
from tests.support.extent import sampled

__all__ = ["bench"]
pytestmark = pytest.mark.timeout(900)
# One call of every step that makes something, in the order of the steps.
CALLS = (
    Death("CreateLogGroup"),
    Death("CreateSecret"),
    Death("CreateRole"),
    Death("CreateVpc"),
    Death("CreateSecurityGroup"),
    Death("CreateCluster"),
    Death("RegisterTaskDefinition"),
    Death("CreateService"),
)
FAST = {
    "RUNYARD__SCALING__ENABLED": "false",
    "RUNYARD__SCALING__POLLSECONDS": "0.5",
    "RUNYARD__SCALING__IMAGEREPOSITORY": "registry.test/runyard-worker",
}


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


@pytest.mark.slow
def test_killed_at_every_step_the_deployment_is_finished_and_its_removal_leaves_nothing(
    bench: Bench, fargate: Fargate, aws: str
) -> None:
    before = listing(REGION)
    calls = sampled(CALLS, 1)
    with Gate(aws) as gate:
        deployer = Mortal(bench, gate, FAST)
        deployer.die_at(calls[0])
        deployer.start()
        worker, job = begin(bench)
        deployer.die_and_come_back(job, calls)
        done = bench.wait_job(job)
        succeeded(bench, done)
        assert done["attempt"] == len(calls) + 1
        assert row(bench, worker)["status"] == "ONLINE"
        after = listing(REGION)
        grown = {kind: len(after[kind]) - len(before[kind]) for kind in after}
        assert grown == dict.fromkeys(after, 1) | {"roles": 2, "groups": 2}
        removal = bench.rpc("remove_cloud_worker", p_worker=worker["id"])
        succeeded(bench, bench.wait_job(removal["id"]))
    assert listing(REGION) == before
