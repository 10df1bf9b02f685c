"""The clouds in which a runner reports that it can act."""

import asyncio
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from tests.support.waiting import eventually
from tests.unit.worker.fakes import HandClock
from worker.cloud.proof import Proof, prove_aws, watch_clouds
from worker.process_status import ProcessStatus


@pytest.fixture
def no_rights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_a_machine_without_rights_can_act_nowhere(no_rights: None) -> None:
    proof = prove_aws()
    assert (proof.clouds, proof.why) == ([], "there are no AWS credentials on this machine")


def test_keys_alone_prove_nothing(no_rights: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    proof = prove_aws()
    assert proof.clouds == []
    assert "127.0.0.1:9" in proof.why


def test_a_token_file_that_cannot_be_read_is_no_right(
    no_rights: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/runner")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "none"))
    proof = prove_aws()
    assert proof.clouds == []
    assert str(tmp_path / "none") in proof.why


def test_a_runner_with_valid_aws_credentials_can_act_in_aws(no_rights: None, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    proof = prove_aws()
    server.stop()
    assert proof.clouds == ["aws"]
    assert proof.arn.startswith("arn:aws:")


@pytest.mark.anyio
async def test_the_reported_clouds_follow_changes_of_the_rights() -> None:
    process_status, told, clock = ProcessStatus(), [], HandClock()
    proofs = [Proof(why="none"), Proof(arn="arn:aws:x"), Proof(arn="arn:aws:x"), Proof(why="expired")]
    watching = asyncio.ensure_future(
        watch_clouds(
            process_status,
            lambda: told.append(process_status.clouds),
            clock.sleep,
            lambda: proofs.pop(0) if proofs else Proof(),
        )
    )

    async def has_asked_all() -> bool:
        return len(clock.naps) >= 5

    await eventually(has_asked_all, every_seconds=0.01)
    watching.cancel()
    assert told == [[], ["aws"], []]
