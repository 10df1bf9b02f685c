"""An attempt that is executed elsewhere, before the executor exists, and after it has ended."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.worker.fakes import HandClock, Network
from worker.api.replies import ClaimedJob
from worker.attempt.context import JobContext
from worker.attempt.control import JobControl, Lease
from worker.attempt.outcome import leftovers
from worker.dispatch.base import Execution, Order
from worker.enums import JobType
from worker.errors import RunnerUnfit
from worker.finder import EngineFinder
from worker.running.remote import RemoteAttempt
from worker.running.table import JobHandle
from worker.settings.load import load_settings
from worker.statebackend.journal import take_seal

pytestmark = pytest.mark.anyio
ENVIRON = {
    "WORKER_ID": "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11",
    "WORKER_TOKEN": "ryw_x",
    "SUPABASE_URL": "http://x",
}


class NoDispatcher:
    """A dispatcher that never has to start anything, and has no executor."""

    async def start(self, order: Order) -> Execution:
        raise AssertionError(order)

    async def find(self, name: str) -> Execution | None:
        return None

    async def probe(self) -> None:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError


def attempt_of(network: Network, folder: Path) -> RemoteAttempt:
    context = JobContext(load_settings(environ=ENVIRON), network.server(), EngineFinder((), {}), {}, take_seal(folder))
    handle = JobHandle(ClaimedJob(id=1, attempt=1, type=JobType.APPLY), Lease(1000.0, 60), JobControl(1))
    return RemoteAttempt(handle, context, folder, NoDispatcher(), HandClock(), running=list)


async def test_a_job_whose_executor_gets_no_credential_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(name: str, _: dict[str, Any]) -> Any:
        return httpx.ConnectError("down") if name == "worker-session" else {"status": "FAILED"}

    monkeypatch.setattr("worker.api.server.STATE_SECONDS", 0.01)
    network = Network(answer)
    with pytest.raises(RunnerUnfit) as caught:
        await attempt_of(network, tmp_path).run()
    assert caught.value.code == "dispatcher"
    assert network.named("worker_finish") == []
    assert list(leftovers(tmp_path)) == []


async def test_a_lost_executor_is_reported_although_a_proxy_refuses_at_first(tmp_path: Path) -> None:
    refusals = [httpx.Response(403, text="<html>Blocked</html>")]

    def answer(name: str, _: dict[str, Any]) -> Any:
        if name == "worker_job":
            return refusals.pop() if refusals else {"has_touched": False}
        return {"status": "FAILED"}

    network = Network(answer)
    await attempt_of(network, tmp_path).take_over(is_ours=True)
    assert [sent["p_status"] for sent in network.named("worker_finish")] == ["FAILED"]
