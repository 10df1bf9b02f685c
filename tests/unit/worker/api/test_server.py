"""The reactions that answers require, and the requests that are sent again."""

import traceback
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.unit.worker.fakes import Network, page, refusal
from worker.api.replies import HeartbeatReply, JobRef
from worker.api.server import Server
from worker.api.transport import fault
from worker.enums import JobPhase, WorkerStatus
from worker.errors import Fatal, Fenced, Locked, Rejected, Retryable, TokenExpired
from worker.logs.spool import Chunk

pytestmark = pytest.mark.anyio
REF = JobRef(job=7, attempt=2)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "RY401", Fatal),
        (400, "RY410", Fenced),
        (400, "RY423", Locked),
        (400, "RY409", Rejected),
        (400, "RY422", Rejected),
        (400, "RY429", Retryable),
        (401, "PGRST303", TokenExpired),
        (401, "", TokenExpired),
        (500, "", Retryable),
        (500, "RY500", Retryable),
        (503, "RY503", Retryable),
        (503, "53300", Retryable),
        (429, "", Retryable),
        (500, "40001", Retryable),
        (400, "57014", Retryable),
        (402, "", Retryable),
        (408, "", Retryable),
        (425, "", Retryable),
        (530, "", Retryable),
        (540, "", Retryable),
        (544, "", Retryable),
        (546, "WORKER_LIMIT", Retryable),
        (405, "25006", Retryable),
        (405, "", Rejected),
        (500, "RY410", Fenced),
        (404, "PGRST202", Rejected),
    ],
)
def test_each_answer_has_its_reaction(status: int, code: str, expected: type[Exception]) -> None:
    error = fault(status, {"code": code, "message": "m", "hint": "h"}, {})
    assert type(error) is expected
    assert error.message == "m"


def test_retry_after_is_respected_up_to_a_limit() -> None:
    error = fault(429, {}, {"retry-after": "7"})
    assert isinstance(error, Retryable)
    assert error.retry_after_seconds == 7
    unbounded = fault(429, {}, {"retry-after": "86400"})
    assert isinstance(unbounded, Retryable)
    assert unbounded.retry_after_seconds == 120


async def test_a_finish_is_repeated_until_it_is_answered() -> None:
    answers = iter([httpx.ConnectError("down"), (502, {}), {"status": "SUCCEEDED", "missing": []}])
    network = Network(lambda *_: next(answers))
    reply = await network.server().finish(REF, {"status": "SUCCEEDED"})
    assert reply.status == "SUCCEEDED"
    assert len({str(body) for body in network.named("worker_finish")}) == 1
    assert len(network.calls) == 3


async def test_a_fenced_write_is_not_repeated() -> None:
    network = Network(lambda *_: refusal("RY410"))
    with pytest.raises(Fenced):
        await network.server().state_put(REF, "{}", "lock")
    assert len(network.calls) == 1


async def test_an_expired_token_is_renewed_once_and_the_call_sent_again() -> None:
    network = Network(
        lambda *_: (401, {"code": "PGRST303"}) if network.tokens[-1] == "Bearer first" else {"last_seq": 3}
    )
    transport = network.transport()

    async def renew() -> None:
        transport.use(publishable_key="k", token="second")

    assert await Server(transport, renew).append_logs(REF, [vars(Chunk(3, "plan", "x"))]) == 3
    assert network.tokens == ["Bearer first", "Bearer second"]


async def test_a_fatal_answer_reaches_the_process_as_well() -> None:
    network = Network(lambda *_: refusal("RY401", "This session has ended: revoked."))
    told: list[Fatal] = []

    async def renew() -> None:
        raise AssertionError("not expired")

    with pytest.raises(Fatal):
        await Server(network.transport(), renew, on_fatal=told.append).heartbeat(WorkerStatus.ONLINE, "1", [], None)
    assert "revoked" in told[0].message


async def test_a_redirect_to_a_proxys_sign_in_page_is_retryable() -> None:
    network = Network(lambda *_: (302, {}, {"location": "https://login.example"}))
    with pytest.raises(Retryable, match="redirect"):
        await network.transport().rpc("worker_claim", {})


ASKED: dict[str, Callable[[Server], Awaitable[Any]]] = {
    "heartbeat": lambda server: server.heartbeat(WorkerStatus.ONLINE, "1", [], None),
    "claim": lambda server: server.claim(uuid4(), 1),
    "report": lambda server: server.report(REF, JobPhase.APPLY, [], None),
    "append_logs": lambda server: server.append_logs(REF, [vars(Chunk(1, "plan", "x"))]),
    "state_get": lambda server: server.state_get(REF, seconds=0),
    "state_put": lambda server: server.state_put(REF, "{}", "lock", seconds=0),
    "state_unlock": lambda server: server.state_unlock(REF, "lock", seconds=0),
    "job": lambda server: server.job(REF),
    "engine_token": lambda server: server.engine_token(REF),
}
STRANGE: dict[str, Callable[[], Any]] = {
    "page": page,
    "null": lambda: None,
    "list": list,
    "nothing": lambda: httpx.Response(204),
}


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
async def test_a_success_that_is_not_the_projects_means_nothing(
    ask: Callable[[Server], Awaitable[Any]], strange: Callable[[], Any]
) -> None:
    network = Network(lambda *_: strange())
    with pytest.raises(Retryable):
        await ask(network.server())
    assert len(network.calls) == 1


@pytest.mark.parametrize("ask", [ASKED["claim"], ASKED["state_get"]], ids=["claim", "state_get"])
async def test_an_object_without_the_requested_keys_means_nothing(ask: Callable[[Server], Awaitable[Any]]) -> None:
    with pytest.raises(Retryable):
        await ask(Network(lambda *_: {"error": "sign in"}).server())


async def test_a_finish_and_a_recovery_are_repeated_until_the_project_itself_answers() -> None:
    answers = iter([page(), {"status": "SUCCEEDED"}, None, {"jobs": []}])
    network = Network(lambda *_: next(answers))
    assert (await network.server().finish(REF, {"status": "SUCCEEDED"})).status == "SUCCEEDED"
    assert (await network.server().recover([REF])).jobs == []
    assert len(network.calls) == 4


async def test_a_function_without_an_answer_has_succeeded() -> None:
    assert await Network(lambda *_: httpx.Response(204)).transport().rpc("returns_void", {}) is None


async def test_an_answer_that_cannot_be_unpacked_is_retryable() -> None:
    broken = httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"not gzip"))
    with pytest.raises(Retryable):
        await Network(lambda *_: broken).transport().rpc("worker_claim", {})


async def test_an_unreadable_answer_is_not_quoted_in_the_error() -> None:
    secret = uuid4().hex
    with pytest.raises(Retryable) as raised:
        await Network(lambda *_: {"exists": secret, "body": [secret]}).server().state_get(REF, seconds=0)
    assert secret not in "".join(traceback.format_exception(raised.value))


def test_unknown_fields_of_a_newer_server_are_ignored() -> None:
    reply = HeartbeatReply.model_validate({"lease_seconds": 60, "brand_new": {"x": 1}})
    assert reply.lease_seconds == 60
