"""A cloud-hosted runner's whole life with a real stack, real runner processes and an AWS API."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest

from tests.integration.cloud.account import listing
from tests.integration.cloud.fargate import Fargate
from tests.integration.worker_bench import Bench, bench
from tests.support.waiting import wait_until

__all__ = ["bench"]
REGION = "eu-west-1"
ROLE = "arn:aws:iam::123456789012:role/runyard-deployer"


@pytest.fixture
def fargate(aws: str, bench: Bench, tmp_path: Path) -> Iterator[Fargate]:
    folder = tmp_path / "tasks"
    folder.mkdir()
    with Fargate(folder, bench.tofu) as started:
        yield started


def publish(bench: Bench, version: str) -> None:
    """Publish a release as the edge function does, with the secret key."""
    key = bench.project.secret_key
    httpx.post(
        f"{bench.project.url}/rest/v1/rpc/publish_release",
        json={"p_spec": {"version": version, "notes": "What is new"}},
        headers={"apikey": key, "authorization": f"Bearer {key}"},
        timeout=30,
    ).raise_for_status()


def deployer(bench: Bench, **variables: str) -> None:
    """A runner with rights in the cloud, for a folder of its own so that it takes no module's jobs."""
    types = ["DEPLOY_WORKER", "UPDATE_WORKER", "REMOVE_WORKER", "VERIFY_IDENTITY"]
    named = {
        "RUNYARD__SCALING__POLLSECONDS": "0.5",
        "RUNYARD__SCALING__IMAGEREPOSITORY": "registry.test/runyard-worker",
    }
    bench.runner(options={"accepted_job_types": types}, **(named | variables))


def deploy(bench: Bench, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    identity = bench.rpc(
        "create_cloud_identity", p_org=bench.org,
        p_spec={"name": "aws", "account_id": "123456789012", "role_arn": ROLE, "regions": [REGION]},
    )  # fmt: skip
    tested = bench.rpc("verify_cloud_identity", p_identity=identity["id"])
    succeeded(bench, bench.wait_job(tested["job"]["id"]))
    made = bench.rpc(
        "deploy_worker", p_org=bench.org, p_name=f"cloud-{uuid.uuid4().hex[:6]}", p_cloud_identity=identity["id"],
        p_region=REGION,
        p_options={"is_assigned_to_all_modules": True, "version": "9.0.0", "desired_count": 1, **options},
    )  # fmt: skip
    return made["worker"], bench.wait_job(made["job"]["id"])


def row(bench: Bench, worker: dict[str, Any]) -> dict[str, Any]:
    return bench.rows("workers", id=worker["id"])[0]


def succeeded(bench: Bench, job: dict[str, Any]) -> None:
    assert job["status"] == "SUCCEEDED", f"{job['error']}\n{bench.log_of(job['id'])}"


def test_a_runner_is_deployed_scaled_to_zero_woken_and_removed_without_a_trace(bench: Bench, fargate: Fargate) -> None:
    before = listing(REGION)
    deployer(bench)
    worker, job = deploy(bench, scaling={"idle_seconds": 3})
    succeeded(bench, job)
    # Whether it still is online depends on how soon one looks: it falls asleep after seconds.
    assert "online" in {each["event"] for each in bench.rows("worker_events", worker_id=worker["id"])}

    asleep = wait_until(lambda: row(bench, worker) if row(bench, worker)["is_scaled_to_zero"] else None, 240)
    assert asleep["desired_count"] == 0
    wait_until(lambda: row(bench, worker)["status"] == "OFFLINE", 180)
    assert "Scaled to zero" in row(bench, worker)["status_reason"]

    waiting = bench.enqueue("PLAN", bench.module())
    done = bench.wait_job(waiting)
    succeeded(bench, done)
    assert done["worker_id"] == worker["id"]
    reasons = [each["reason"] for each in bench.rows("scaling_decisions", worker_id=worker["id"], order="id.asc")]
    assert reasons[0].startswith("nothing for it to run")
    assert reasons[1].startswith("1 job waiting")

    removal = bench.rpc("remove_cloud_worker", p_worker=worker["id"])
    succeeded(bench, bench.wait_job(removal["id"]))
    assert listing(REGION) == before
    assert bench.job(waiting)["worker_name"] == worker["name"]


@pytest.mark.slow
def test_updated_with_a_drain_and_put_back_when_the_new_version_stays_silent(bench: Bench, fargate: Fargate) -> None:
    deployer(bench, RUNYARD__SCALING__ENABLED="false", RUNYARD__SCALING__STARTPATIENCESECONDS="30")
    worker, job = deploy(bench)
    succeeded(bench, job)
    assert row(bench, worker)["version"] == "9.0.0"

    publish(bench, "9.1.0")
    update = bench.rpc("update_one_worker", p_worker=worker["id"])
    succeeded(bench, bench.wait_job(update["id"]))
    assert wait_until(lambda: row(bench, worker)["version"] == "9.1.0", 180)
    assert row(bench, worker)["is_draining"] is False

    good = boto3.client("ecs").list_task_definitions(status="ACTIVE")["taskDefinitionArns"]
    fargate.tofu = Path("/nonexistent/tofu")
    secret = boto3.client("secretsmanager")
    publish(bench, "9.2.0")
    token = secret.get_secret_value(SecretId=f"runyard/{worker['id']}/token")["SecretString"]
    secret.put_secret_value(SecretId=f"runyard/{worker['id']}/token", SecretString="ryw_" + "x" * 43)
    failed = bench.wait_job(bench.rpc("update_one_worker", p_worker=worker["id"])["id"], seconds=240)
    secret.put_secret_value(SecretId=f"runyard/{worker['id']}/token", SecretString=token)
    assert failed["status"] == "FAILED"
    assert failed["error"]["code"] == "cloud_rolled_back"
    service = boto3.client("ecs").describe_services(cluster="runyard", services=[worker_service(worker)])["services"][0]
    assert service["taskDefinition"] in good


def worker_service(worker: dict[str, Any]) -> str:
    return f"runyard-{worker['id'].replace('-', '')[:12]}"


def test_the_token_is_in_no_table_payload_task_definition_or_log(bench: Bench, fargate: Fargate) -> None:
    deployer(bench, RUNYARD__SCALING__ENABLED="false")
    worker, job = deploy(bench)
    succeeded(bench, job)
    token = boto3.client("secretsmanager").get_secret_value(SecretId=f"runyard/{worker['id']}/token")["SecretString"]
    assert token.startswith("ryw_")
    ecs = boto3.client("ecs")
    arns = ecs.list_task_definitions()["taskDefinitionArns"]
    tasks = [ecs.describe_task_definition(taskDefinition=arn)["taskDefinition"] for arn in arns]
    assert token not in json.dumps(tasks, default=str)
    assert token not in "".join(process.output for process in bench.processes)
    with bench.database() as connection:
        tables = connection.execute(
            "select format('%I.%I', schemaname, tablename) as name from pg_tables"
            " where schemaname in ('public', 'private', 'realtime')"
        ).fetchall()
        for table in tables:
            found = connection.execute(
                f"select count(*) as n from {table['name']} as t where strpos(t::text, %s) > 0", [token]
            ).fetchone()
            assert found is not None
            assert found["n"] == 0, f"the token is in {table['name']}"
