"""Secrets in AWS Secrets Manager, as moto serves it: a runner's own, and those that variables refer to."""

import base64
import json
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.integration.worker_bench import Bench, bench
from tests.support.terminal import Terminal
from worker.errors import Retryable
from worker.vaults import read_secret

__all__ = ["bench"]
SECRET = "plover-58-aws-plugh"
CODE = """
variable "kept" {}
output "length" { value = length(var.kept) }
output "leak" { value = "shown as ${var.kept}" }
"""


async def test_a_secret_is_read_by_name_or_arn_and_again_after_a_rotation(aws: str) -> None:
    client: Any = boto3.client("secretsmanager", region_name="eu-west-1")
    made = client.create_secret(Name="runyard/runner", SecretString=json.dumps({"token": "ryw_first"}))
    for source in ("eu-west-1/runyard/runner#token", f"{made['ARN']}#token"):
        assert await read_secret(f"aws-secretsmanager:{source}") == "ryw_first"
    client.put_secret_value(SecretId="runyard/runner", SecretString="ryw_plain")
    assert await read_secret("aws-secretsmanager:eu-west-1/runyard/runner") == "ryw_plain"
    for wrong, words in (
        ("eu-west-1/nowhere", "did not give"), ("eu-west-1/runyard/runner#token", "is not JSON"), ("runner", "names no secret"),
    ):  # fmt: skip
        with pytest.raises(Retryable, match=words):
            await read_secret(f"aws-secretsmanager:{wrong}")


def test_a_variable_refers_to_a_secret_that_only_runner_and_engine_see(bench: Bench, aws: str, tmp_path: Path) -> None:
    client: Any = boto3.client("secretsmanager")
    client.create_secret(Name="runyard/token", SecretString=json.dumps({"value": SECRET}))
    client.create_secret(Name="private/token", SecretString=SECRET)
    environment = {**bench.project.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token}
    terminal, key = Terminal(tmp_path / "config", environment), tmp_path / "sealing.key"
    label = terminal.json("variables", "create-key", str(key))["label"]
    hook = 'echo "given: $TOKEN"; echo "$TOKEN" | base64'
    module = bench.module(source={"files": {"main.tf": CODE}}, hooks={"before_plan": hook})
    path = bench.rows("modules", id=module)[0]["path"]
    for name, kind in (("kept", "input"), ("TOKEN", "env")):
        reference = (name, "aws-sm://eu-west-1/runyard/token#value", "--kind", kind)
        assert terminal.run("variables", "refer", path, *reference).returncode == 0
    runner = bench.runner(
        RUNYARD__SEALING__KEYFILES=str(key), RUNYARD__SEALING__ALLOWEDSOURCES="aws-sm://eu-west-1/runyard/*"
    )
    bench.rpc("update_worker", p_worker=runner.worker_id, p_options={"labels": [label]})
    planned = bench.finished("PLAN", module)
    applied = bench.finished("APPLY", module, plan_job_id=planned["id"])
    outputs = {name: output["value"] for name, output in applied["result"]["outputs"].items()}
    assert outputs == {"length": len(SECRET), "leak": "shown as ***"}
    log = bench.log_of(planned["id"]) + bench.log_of(applied["id"]) + runner.output
    assert "given: ***" in log
    assert not [form for form in (SECRET, base64.b64encode(SECRET.encode()).decode()[:20]) if form in log]
    assert terminal.run("variables", "refer", path, "kept", "aws-sm://eu-west-1/private/token").returncode == 0
    refused = bench.wait_job(bench.enqueue("PLAN", module))
    assert (refused["status"], refused["error"]["code"]) == ("FAILED", "source_refused")
