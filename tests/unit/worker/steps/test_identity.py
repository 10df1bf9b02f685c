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


def project(*answers: Any, identities: int = 1, withheld: tuple[str, ...] = ()) -> Network:
    """A project that has identities for the job and gives these answers to its renewals, the last one for ever."""
    left = list(answers)

    def answer(name: str, _: dict[str, Any]) -> Any:
        if name == "worker_identities":
            return {"identities": [{}] * identities, "withheld": list(withheld)}
        if name == "job-identity":
            return left.pop(0) if len(left) > 1 else left[0]
        return ENDED

    return Network(answer)


async def attempt(
    scene: Scene, network: Network, act: Callable[[Workspace, HandClock], Any], env: dict[str, str] | None = None
) -> Any:
    """Run an attempt whose only step has the identities and then does this."""
    clock = HandClock()

    async def step(space: Workspace) -> None:
        space.root.mkdir(parents=True)
        space.env = env or {"AWS_ACCESS_KEY_ID": "of the machine", "HOME": "/"}
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


MACHINE = {
    "aws": (
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    ),
    "gcp": ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CREDENTIALS", "GCLOUD_KEYFILE_JSON", "CLOUDSDK_CONFIG"),
    "azure": ("ARM_CLIENT_SECRET", "ARM_CLIENT_ID", "ARM_OIDC_TOKEN_FILE_PATH", "ARM_USE_MSI", "AZURE_CLIENT_SECRET", "IDENTITY_HEADER"),
    "vault": ("VAULT_TOKEN", "VAULT_ADDR", "VAULT_TOKEN_FILE"),
    "kubernetes": ("KUBECONFIG", "KUBE_TOKEN", "KUBE_CONFIG_PATH", "KUBERNETES_SERVICE_HOST"),
}  # fmt: skip


@pytest.mark.parametrize("identities", [0, 1])
async def test_engine_from_which_identities_are_withheld_has_no_credential_of_the_machine(
    scene: Scene, identities: int
) -> None:
    async def act(space: Workspace, _: HandClock) -> None:
        left = set(space.command(["tofu", "plan"]).env)
        given = {"RUNYARD_ID_TOKEN_FILE", "RUNYARD_ID_TOKEN_FILE_REGISTRY"} if identities else set()
        assert left == {"HOME", "GITHUB_TOKEN", "AWSOME"} | given

    machine = dict.fromkeys([name for names in MACHINE.values() for name in names], "of the machine")
    beside = {"HOME": "/", "GITHUB_TOKEN": "x", "AWSOME": "x"}
    answer = tokens("x") | {"tokens": [{"name": "registry", "kind": "custom", "token": "x"}]}
    network = project(answer, identities=identities, withheld=tuple(MACHINE))
    outcome = await attempt(scene, network, act, machine | beside)
    assert outcome.status is JobStatus.SUCCEEDED, outcome.error
    assert network.named("job-identity") == [] if not identities else True


async def test_engine_keeps_the_credentials_of_providers_without_an_identity(scene: Scene) -> None:
    async def act(space: Workspace, _: HandClock) -> None:
        assert space.command(["tofu", "plan"]).env == {"ARM_CLIENT_SECRET": "x"}

    network = project(tokens("x"), identities=0, withheld=("aws", "custom"))
    outcome = await attempt(scene, network, act, {"ARM_CLIENT_SECRET": "x", "AWS_PROFILE": "x"})
    assert outcome.status is JobStatus.SUCCEEDED, outcome.error


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
