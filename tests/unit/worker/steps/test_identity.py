"""Token files of a job: written before its steps, renewed in place, removed when the server refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.worker.fakes import HandClock, Network, refusal
from tests.unit.worker.running.test_attempt_runner import ENDED, Scene, scene
from worker.api.replies import IssuedTokens
from worker.attempt.workspace import Workspace
from worker.enums import JobPhase, JobStatus
from worker.steps import identity
from worker.steps.identity import give_identities, keep_renewed

__all__ = ["scene"]
pytestmark = pytest.mark.anyio
FENCED = refusal("RY410", "The lease has run out.")


def tokens(text: str, seconds: float = 60) -> dict[str, Any]:
    settings = {"plan_role": "arn:plan", "apply_role": "arn:apply"}
    return {
        "phase": "plan",
        "expires_in": seconds,
        "tokens": [{"name": "aws", "kind": "aws", "token": text, "settings": settings}],
    }


def project(*answers: Any, identities: int = 1) -> Network:
    """A project that has identities for the job and gives these answers to its renewals, the last one for ever."""
    left = list(answers)

    def answer(name: str, _: dict[str, Any]) -> Any:
        if name == "worker_identities":
            return {"identities": [{}] * identities}
        if name == "job-identity":
            return left.pop(0) if len(left) > 1 else left[0]
        return ENDED

    return Network(answer)


async def attempt(scene: Scene, network: Network, act: Callable[[Workspace, HandClock], Any]) -> Any:
    """Run an attempt whose only step has the identities and then does this."""
    clock = HandClock()

    async def step(space: Workspace) -> None:
        space.root.mkdir(parents=True)
        space.env = {"AWS_ACCESS_KEY_ID": "of the machine", "HOME": "/"}
        await give_identities(space)
        await act(space, clock)

    return await scene.run(network, JobPhase.PLAN, step)


async def test_outage_is_waited_for_and_the_file_is_renewed_in_place(scene: Scene) -> None:
    seen: list[str] = []
    network = project(
        tokens("first"), (503, {}), httpx.ConnectError("away"), (404, {"message": "no Route"}), tokens("second"), FENCED
    )

    async def act(space: Workspace, clock: HandClock) -> None:
        file = Path(space.env["AWS_WEB_IDENTITY_TOKEN_FILE"])
        seen.append(file.read_text())

        async def sleep(seconds: float) -> None:
            seen.append(file.read_text())
            await clock.sleep(seconds)

        await keep_renewed(space, IssuedTokens.model_validate(tokens("first", 60)), sleep)
        assert not file.exists(), "a job that has lost its lease keeps no token"
        assert clock.naps[0] == 30

    assert (await attempt(scene, network, act)).status is JobStatus.SUCCEEDED
    assert [*dict.fromkeys(seen)] == ["first", "second"]


async def test_environment_has_the_identity_and_no_other_credential(scene: Scene) -> None:
    async def act(space: Workspace, _: HandClock) -> None:
        assert "AWS_ACCESS_KEY_ID" not in space.env
        assert space.env["AWS_ROLE_ARN"] == "arn:plan"
        assert space.log.redactor.redact("the-token-of-the-job") == "***"

    network = project(tokens("the-token-of-the-job"))
    outcome = await attempt(scene, network, act)
    assert outcome.status is JobStatus.SUCCEEDED, outcome.error


async def test_log_masks_live_tokens_and_forgets_expired_ones(scene: Scene) -> None:
    """Each known secret costs time in every line, and a job may run for days."""
    texts = [f"opaque{number}" * 3 for number in range(9)]

    async def act(space: Workspace, clock: HandClock) -> None:
        await keep_renewed(space, IssuedTokens.model_validate(tokens(texts[0])), clock.sleep)
        shown = [space.log.redactor.redact(text) == "***" for text in texts]
        assert shown == [False] * 6 + [True] * 3

    network = project(*map(tokens, texts), FENCED)
    outcome = await attempt(scene, network, act)
    assert outcome.status is JobStatus.SUCCEEDED, outcome.error


async def test_job_without_identities_requests_no_token(scene: Scene) -> None:
    async def act(space: Workspace, _: HandClock) -> None:
        assert space.env == {"AWS_ACCESS_KEY_ID": "of the machine", "HOME": "/"}

    network = project(tokens("x"), identities=0)
    assert (await attempt(scene, network, act)).status is JobStatus.SUCCEEDED
    assert network.named("job-identity") == []


async def test_job_fails_rather_than_act_as_the_machine(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "FIRST_TOKENS_SECONDS", 0.01)

    async def act(*_: Any) -> None:
        raise AssertionError("it must not begin")

    missing = {"code": "RY503", "message": "This installation issues no identities of jobs.", "hint": "Set a key."}
    outcome = await attempt(scene, project((503, missing)), act)
    assert (outcome.status, outcome.error["code"], outcome.error["hint"]) == (
        JobStatus.FAILED,
        "no_identity",
        "Set a key.",
    )
