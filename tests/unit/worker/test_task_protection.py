"""Task protection against an agent that answers on loopback."""

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from tests.support.ecs_agent import EcsAgent, ecs_agent
from worker.task_protection import EXPIRES_MINUTES, TaskProtection

pytestmark = pytest.mark.anyio


@pytest.fixture
def agent() -> Iterator[EcsAgent]:
    with ecs_agent() as started:
        yield started


async def test_the_first_job_starts_the_protection_and_the_last_one_ends_it(agent: EcsAgent) -> None:
    protection = TaskProtection(agent.url)
    await protection.hold(1)
    await protection.hold(2)
    await protection.hold(1)
    await protection.release(1)
    assert agent.switches == [True]
    await protection.release(2)
    on, off = agent.asked
    assert on == (
        "/api/task/task-protection/v1/state",
        {"ProtectionEnabled": True, "ExpiresInMinutes": EXPIRES_MINUTES},
    )
    assert off == ("/api/task/task-protection/v1/state", {"ProtectionEnabled": False})


async def test_a_job_without_protection_releases_nothing(agent: EcsAgent) -> None:
    protection = TaskProtection(agent.url)
    await protection.hold(1)
    await protection.release(2)
    assert agent.switches == [True]


@pytest.mark.parametrize(
    "answer", [(400, {"error": {"Code": "AccessDeniedException"}}), (200, {"failure": {"Reason": "TASK_NOT_VALID"}})]
)
async def test_a_refusal_is_ignored_and_the_next_job_requests_protection_again(
    agent: EcsAgent, answer: tuple[int, dict[str, object]]
) -> None:
    agent.answer = answer
    protection = TaskProtection(agent.url)
    for job in (1, 2):
        await protection.hold(job)
        await protection.release(job)
    assert agent.switches == [True, False, True, False]


async def test_a_missing_agent_is_ignored() -> None:
    protection = TaskProtection("http://127.0.0.1:9/api", timeout_seconds=1)
    await protection.hold(1)
    with capture_logs() as logged:
        await protection.release(1)
    assert [(entry["log_level"], entry["why"]) for entry in logged] == [("warning", "ConnectError")]
