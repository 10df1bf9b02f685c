"""kill -9 of the runner that updates and removes, at each call that changes something, before and after its effect."""

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.integration.cloud.account import listing
from tests.integration.cloud.dying import Death, Mortal
from tests.integration.cloud.fargate import Fargate
from tests.integration.cloud.gate import Gate
from tests.integration.cloud.test_cloud_story import REGION, publish, row, succeeded
from tests.integration.cloud.test_dying_deployer import FAST, begin
from tests.integration.worker_bench import Bench, bench
from tests.support.extent import sampled
from tests.support.waiting import wait_until

__all__ = ["bench"]
pytestmark = pytest.mark.timeout(1200)
UPDATE = (
    Death("RegisterTaskDefinition"),
    Death("RegisterTaskDefinition", is_done=True),
    Death("UpdateService"),
    Death("UpdateService", is_done=True),
)
# The order of the steps; that a call did not take effect is what the steps' own tests show.
REMOVAL = tuple(
    Death(call, is_done=True)
    for call in (
        "UpdateService",
        "DeleteService",
        "DeregisterTaskDefinition",
        "DeleteTaskDefinitions",
        "DeleteCluster",
        "DeleteSecurityGroup",
        "DetachInternetGateway",
        "DeleteInternetGateway",
        "DeleteSubnet",
        "DeleteVpc",
        "DeleteRolePolicy",
        "DeleteRole",
        "DeleteSecret",
        "DeleteLogGroup",
    )
)


@pytest.fixture
def fargate(aws: str, bench: Bench, tmp_path: Path) -> Iterator[Fargate]:
    folder = tmp_path / "tasks"
    folder.mkdir()
    with Fargate(folder, bench.tofu) as started:
        yield started


def last_long(bench: Bench, job: int) -> None:
    """More deaths than one job is usually given."""
    with bench.database() as connection:
        connection.execute("update provision_jobs set max_attempts = 20 where id = %s", [job])


@pytest.mark.slow
def test_killed_at_every_call_update_and_removal_are_finished_all_the_same(
    bench: Bench, fargate: Fargate, aws: str
) -> None:
    before = listing(REGION)
    updates, removals = sampled(UPDATE, 2), sampled(REMOVAL, 3)
    with Gate(aws) as gate:
        deployer = Mortal(bench, gate, FAST)
        deployer.start()
        worker, job = begin(bench)
        succeeded(bench, bench.wait_job(job))

        publish(bench, "9.5.0")
        deployer.die_at(updates[0])
        update = bench.rpc("update_one_worker", p_worker=worker["id"], p_version="9.5.0")["id"]
        last_long(bench, update)
        deployer.die_and_come_back(update, updates)
        done = bench.wait_job(update)
        succeeded(bench, done)
        assert done["attempt"] == len(updates) + 1
        wait_until(lambda: (row(bench, worker)["status"], row(bench, worker)["version"]) == ("ONLINE", "9.5.0"), 180)
        assert row(bench, worker)["is_draining"] is False
        revisions = boto3.client("ecs").list_task_definitions(status="ACTIVE")["taskDefinitionArns"]
        assert len(revisions) == 2

        deployer.die_at(removals[0])
        removal = bench.rpc("remove_cloud_worker", p_worker=worker["id"])["id"]
        last_long(bench, removal)
        deployer.die_and_come_back(removal, removals)
        done = bench.wait_job(removal)
        succeeded(bench, done)
        assert done["attempt"] == len(removals) + 1
    assert listing(REGION) == before
    wait_until(lambda: row(bench, worker)["removed_at"] is not None, 180)
