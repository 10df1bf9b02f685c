"""A new version shows that it can work here: one heartbeat, and no short failure of the network counts as an answer."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import stamina

from tests.unit.worker.fakes import HandClock, Network
from worker.errors import ExitCode, Fatal, Retryable
from worker.logs.redactor import KnownSecrets
from worker.main import Runner
from worker.settings.load import load_settings

pytestmark = pytest.mark.anyio
GRANT = {
    "access_token": "jwt", "expires_in": 900, "session_id": "s", "instance_id": "i", "publishable_key": "k",
}  # fmt: skip


async def trial(home: Path, monkeypatch: pytest.MonkeyPatch, network: Network, **variables: str) -> ExitCode:
    environ = {
        "WORKER_ID": "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11", "WORKER_TOKEN": "ryw_x", "SUPABASE_URL": "http://x",
        "RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY": str(home), **variables,
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


@pytest.mark.parametrize(
    ("user", "isolation", "is_served"),
    [
        (0, {"RUNYARD__ENGINE__ISOLATION__WAYS": "bubblewrap"}, False),
        (0, {"RUNYARD__ENGINE__ISOLATION__WAYS": "bubblewrap", "RUNYARD__ENGINE__ISOLATION__MODE": "off"}, True),
        (0, {"RUNYARD__ENGINE__ISOLATION__WAYS": "[]"}, True),
        (0, {"RUNYARD_JOB_DISPATCHER_TYPE": "docker", "RUNYARD_JOB_DISPATCHER_DATA_IMAGE": "runner"}, True),
        (10001, {"RUNYARD__ENGINE__ISOLATION__WAYS": "bubblewrap"}, True),
    ],
)
async def test_jobs_are_root_only_where_the_settings_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, isolation: dict[str, str], *, is_served: bool
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("os.geteuid", lambda: user)
    network = Network(lambda name, _: GRANT if name == "worker-session" else {})
    if is_served:
        assert await trial(tmp_path, monkeypatch, network, **isolation) is ExitCode.OK
        return
    with pytest.raises(Fatal, match="every job would be root") as refused:
        await trial(tmp_path, monkeypatch, network, **isolation)
    assert (refused.value.exit_code, "`off`" in refused.value.hint) == (ExitCode.SETTINGS, True)
    assert not network.named("worker-session")
