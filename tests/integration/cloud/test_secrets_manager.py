"""A runner's secret in AWS Secrets Manager, as moto serves it."""

import json
from typing import Any

import boto3
import pytest

from worker.errors import Retryable
from worker.vaults import read_secret


async def test_a_secret_is_read_where_it_is_kept_and_again_after_rotation(aws: str) -> None:
    client: Any = boto3.client("secretsmanager", region_name="eu-west-1")
    made = client.create_secret(Name="runyard/runner", SecretString=json.dumps({"token": "ryw_first"}))
    for source in ("eu-west-1/runyard/runner#token", f"{made['ARN']}#token"):
        assert await read_secret(f"aws-secretsmanager:{source}") == "ryw_first"
    client.put_secret_value(SecretId="runyard/runner", SecretString="ryw_plain")
    assert await read_secret("aws-secretsmanager:eu-west-1/runyard/runner") == "ryw_plain"
    for wrong, words in (("eu-west-1/nowhere", "did not give"), ("eu-west-1/runyard/runner#token", "is not JSON")):
        with pytest.raises(Retryable, match=words):
            await read_secret(f"aws-secretsmanager:{wrong}")
