"""A new version shows that it can work here: one heartbeat, and no short failure of the network counts as an answer."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import stamina

from tests.unit.worker.fakes import HandClock, Network
from worker.errors import Retryable
from worker.exit_codes import ExitCode
from worker.logs.known_secrets import KnownSecrets
from worker.main import Runner
from worker.settings import load_settings

pytestmark = pytest.mark.anyio
GRANT = {
    "access_token": "jwt", "expires_in": 900, "session_id": "s", "instance_id": "i", "publishable_key": "k",
}  # fmt: skip


async def trial(home: Path, monkeypatch: pytest.MonkeyPatch, network: Network) -> ExitCode:
    environ = {
        "WORKER_ID": "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11", "WORKER_TOKEN": "ryw_x", "SUPABASE_URL": "http://x",
        "RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY": str(home),
    }  # fmt: skip
    monkeypatch.setattr("worker.main.Transport", lambda *_, **__: network.transport())
    runner = Runner(load_settings(environ=environ), KnownSecrets(), HandClock(), is_single=False, is_trial=True)
    with stamina.set_testing(True, attempts=3):
        return await runner.run()


async def test_a_short_network_failure_does_not_fail_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeats = iter([httpx.ConnectError("down"), {}])

    def answer(name: str, _: dict[str, Any]) -> Any:
        if name == "worker-session":
            return GRANT
        return next(heartbeats) if name == "worker_heartbeat" else (503, {})

    network = Network(answer)
    assert await trial(tmp_path, monkeypatch, network) is ExitCode.OK
    assert len(network.named("worker_heartbeat")) == 2
    assert network.named("worker_close_session")


async def test_a_version_that_sends_no_heartbeat_does_not_work_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(lambda name, _: GRANT if name == "worker-session" else (503, {}))
    with pytest.raises(Retryable):
        await trial(tmp_path, monkeypatch, network)
