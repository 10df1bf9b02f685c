"""The scaler's manners: who has no rights in a cloud leaves it to others for a while."""

from typing import Any

import pytest

from tests.unit.worker.fakes import HandClock, Network
from worker.cloud.scaler import ABSTAIN_SECONDS, Scaler
from worker.errors import JobFailed

pytestmark = pytest.mark.anyio
ENTRY: dict[str, Any] = {
    "worker_id": "6f1c2a52-6a3e-4f0e-9d0a-0c8b8d4c8f10",
    "org_id": "0b0b0b0b-6a3e-4f0e-9d0a-0c8b8d4c8f10",
    "name": "prod-eu",
    "limits": {"minimum": 0, "maximum": 1, "jobs_per_task": 1, "idle_seconds": 300},
    "load": {"desired": 0, "connected": 0, "waiting": 1, "running": 0, "busy_tasks": 0, "takes_jobs": True},
    "memory": {},
}


@pytest.mark.parametrize(
    ("code", "abstains"), [("cloud_identity", True), ("cloud_AccessDenied", True), ("cloud_service", False)]
)
async def test_without_rights_it_leaves_the_organisation_to_others(
    monkeypatch: pytest.MonkeyPatch, code: str, abstains: bool
) -> None:
    def answer(name: str, body: dict[str, Any]) -> Any:
        given = [] if body.get("p_except") else [ENTRY]
        return {"has_cloud": True, "workers": given} if name == "worker_scaling_inputs" else None

    def refuse(*_: object) -> None:
        raise JobFailed("no", code=code)

    network, clock = Network(answer), HandClock()
    scaler = Scaler(network.server(), "http://project.example", clock)  # type: ignore[arg-type]
    monkeypatch.setattr(scaler, "_act", refuse)
    await scaler.poll()
    await scaler.poll()
    await clock.sleep(ABSTAIN_SECONDS + 1)
    await scaler.poll()
    asked = [call["p_except"] for call in network.named("worker_scaling_inputs")]
    assert asked == [[], [ENTRY["org_id"]] if abstains else [], []]


@pytest.mark.parametrize(
    "broken", [{"memory": {"started_at": "x"}}, {"memory": {"boot_failures": "x"}}, {"limits": {"other": 1}}]
)
async def test_an_unreadable_entry_affects_only_its_own_runner(broken: dict[str, Any]) -> None:
    def answer(name: str, _: dict[str, Any]) -> Any:
        given = [ENTRY | broken, ENTRY | {"worker_id": "good"}]
        return {"has_cloud": True, "workers": given} if name == "worker_scaling_inputs" else None

    network = Network(answer)
    scaler = Scaler(network.server(), "http://project.example", HandClock(), is_rehearsal=True)  # type: ignore[arg-type]
    assert await scaler.poll()
    assert [call["p_worker"] for call in network.named("worker_scaling_decided")] == ["good"]
