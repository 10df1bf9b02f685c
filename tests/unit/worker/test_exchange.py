"""The answers of Google and Azure to a job's token, from a stand-in that speaks their protocol."""

import json
from collections.abc import Iterator
from urllib.parse import parse_qs

import pytest

from tests.support.receiver import Receiver, run_receiver
from worker import exchange as module
from worker.errors import Retryable
from worker.exchange import exchange

PROVIDER = "projects/1/locations/global/workloadIdentityPools/runyard/providers/runyard"
ACCOUNT = "ci@project.iam.gserviceaccount.com"
GCP = {"provider": PROVIDER, "account": ACCOUNT}
AZURE = {"tenant_id": "11111111-1111-1111-1111-111111111111", "client_id": "22222222-2222-2222-2222-222222222222"}


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with run_receiver() as receiver:
        for name, path in (("GOOGLE_TOKENS", "/token"), ("GOOGLE_ACCOUNTS", "/accounts"), ("AZURE_LOGIN", "")):
            monkeypatch.setattr(module, name, f"{receiver.url}{path}")
        receiver.answer = json.dumps({"access_token": "federated", "accessToken": "of the account"}).encode()
        yield receiver


async def ask(kind: str, settings: dict[str, str]) -> str:
    return await exchange(kind, lambda name: settings.get(name, ""), "a.job.token", "runyard-1-1")


def form(body: bytes) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(body.decode()).items()}


@pytest.mark.anyio
async def test_google_exchanges_the_token_for_one_of_the_service_account(cloud: Receiver) -> None:
    assert await ask("gcp", GCP) == f"Google takes it for {ACCOUNT}"
    first, second = cloud.received
    asked = form(first.body)
    assert (asked["subject_token"], asked["audience"]) == ("a.job.token", f"//iam.googleapis.com/{PROVIDER}")
    assert second.path == f"/accounts/{ACCOUNT}:generateAccessToken"
    assert second.headers["authorization"] == "Bearer federated"


@pytest.mark.anyio
async def test_google_without_a_service_account_exchanges_the_token_alone(cloud: Receiver) -> None:
    assert await ask("gcp", {"provider": PROVIDER}) == f"Google accepts it for {PROVIDER}"
    assert [each.path for each in cloud.received] == ["/token"]


@pytest.mark.anyio
async def test_azure_accepts_the_token_as_an_assertion_of_the_application(cloud: Receiver) -> None:
    assert await ask("azure", AZURE) == f"Azure takes it for the application {AZURE['client_id']}"
    (request,) = cloud.received
    asked = form(request.body)
    assert request.path == f"/{AZURE['tenant_id']}/oauth2/v2.0/token"
    assert (asked["client_assertion"], asked["client_id"]) == ("a.job.token", AZURE["client_id"])


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "settings", "answer", "words"),
    [
        ("gcp", GCP, {"error": "invalid_grant", "error_description": "The audience does not match."}, "The audience does not match."),
        ("gcp", GCP, {"error": {"code": 403, "message": "Permission denied."}}, "Permission denied."),
        ("azure", AZURE, {"error": "invalid_client", "error_description": "AADSTS700213: no record"}, "AADSTS700213: no record"),
        ("azure", AZURE, ["something", "else"], "no words"),
    ],
)  # fmt: skip
async def test_refusal_is_reported_with_the_clouds_message(
    cloud: Receiver, kind: str, settings: dict[str, str], answer: object, words: str
) -> None:
    cloud.status, cloud.answer = 400, json.dumps(answer).encode()
    with pytest.raises(Retryable, match=f"answered 400: {words}") as refused:
        await ask(kind, settings)
    assert "a.job.token" not in refused.value.message


@pytest.mark.anyio
async def test_answer_that_is_no_json_is_named(cloud: Receiver) -> None:
    cloud.answer = b"<html>a proxy</html>"
    with pytest.raises(Retryable, match="Azure does not answer"):
        await ask("azure", AZURE)


@pytest.mark.anyio
async def test_an_answer_without_an_end_is_not_kept(cloud: Receiver) -> None:
    cloud.answer = b'{"access_token": "%s"}' % (b"x" * 2_000_000)
    with pytest.raises(Retryable, match="more than 1,048,576 bytes"):
        await ask("azure", AZURE)
