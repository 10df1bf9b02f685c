"""The engine's HTTP state backend: it serves its job's engine, and nothing that is sent to it disturbs it."""

import asyncio
import base64
import json
import re
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.unit.worker.fakes import Network, refusal
from worker.api.replies import JobRef
from worker.statebackend.backend import StateBackend

pytestmark = pytest.mark.anyio
REF = JobRef(job=1, attempt=1)


async def call(
    backend: StateBackend, method: str, *, query: str = "", body: bytes = b"", **changed: str
) -> httpx.Response:
    told = backend.variables() | changed
    async with httpx.AsyncClient() as http:
        return await http.request(
            method,
            told["TF_HTTP_ADDRESS"] + query,
            content=body,
            auth=(told["TF_HTTP_USERNAME"], told["TF_HTTP_PASSWORD"]),
        )


def state_text(serial: int, lineage: str = "ours", **more: Any) -> bytes:
    return json.dumps({"version": 4, "serial": serial, "lineage": lineage, **more}).encode()


async def test_the_state_backend_speaks_to_the_servers_functions() -> None:
    state: dict[str, str] = {}

    def answer(name: str, body: dict[str, Any]) -> Any:
        if name == "worker_state_put":
            state["body"] = body["p_body"]
        return {"exists": bool(state), "body": state.get("body")}

    network = Network(answer)
    async with StateBackend(network.server(), REF) as backend:
        assert (await call(backend, "GET")).status_code == 404
        lock = json.dumps({"ID": "abc", "Who": "me"}).encode()
        assert (await call(backend, "LOCK", body=lock)).status_code == 200
        assert (await call(backend, "POST", query="?ID=abc", body=state_text(1))).status_code == 200
        assert (await call(backend, "GET")).content == state_text(1)
        assert (await call(backend, "UNLOCK", body=lock)).status_code == 200
        assert (await call(backend, "DELETE")).status_code == 405
    assert network.named("worker_state_put")[0]["p_lock_id"] == "abc"
    assert {(body["p_job"], body["p_attempt"]) for _, body in network.calls} == {(1, 1)}


async def test_only_the_jobs_own_engine_is_answered() -> None:
    network = Network(lambda *_: {"exists": True, "body": "{}"})
    async with StateBackend(network.server(), REF) as backend:
        address = backend.variables()["TF_HTTP_ADDRESS"]
        assert (await call(backend, "GET", TF_HTTP_PASSWORD="guessed")).status_code == 401
        assert (await call(backend, "GET", TF_HTTP_ADDRESS=address.rsplit("/", 1)[0] + "/other")).status_code == 401
        assert address.startswith("http://127.0.0.1:")
    assert network.calls == []


async def test_a_foreign_lock_is_shown_and_a_stale_attempt_cannot_write() -> None:
    holder = json.dumps({"ID": "theirs", "Who": "someone"})
    answers: dict[str, Any] = {
        "worker_state_lock": refusal("RY423", details=holder),
        "worker_state_put": refusal("RY410"),
    }
    network = Network(lambda name, _: answers.get(name, {"exists": False}))
    async with StateBackend(network.server(), REF) as backend:
        locked = await call(backend, "LOCK", body=b'{"ID":"mine"}')
        assert (locked.status_code, locked.json()["ID"]) == (423, "theirs")
        del answers["worker_state_lock"]
        assert (await call(backend, "LOCK", body=b'{"ID":"mine"}')).status_code == 200
        assert (await call(backend, "POST", query="?ID=mine", body=state_text(1))).status_code == 403


BROKEN = {
    "no request line": (b"NONSENSE\r\n\r\n", 400),
    "nothing but line ends": (b"\r\n\r\n", 400),
    "cut off in the first line": (b"GET", 400),
    "cut off in the body": (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n{auth}\r\n{}", 400),
    "a length that is none": (b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n", 400),
    "two lengths": (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}", 400),
    "an unknown framing": (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n", 501),
    "chunks that are none": (
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n{auth}\r\nzz\r\n", 400,
    ),
    "a head without an end": (b"GET / HTTP/1.1\r\nhost: x\r\nx-long: " + b"y" * 70_000, 431),
    "a header with a line end": (b"GET / HTTP/1.1\r\nhost: x\r\nbad\x00name: 1\r\n\r\n", 400),
    "an address that is none": (b"GET http://[x HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a state that is not text": (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n{auth}\r\n\xff\xfe", 400),
    "a lock that is not an object": (b"LOCK / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n{auth}\r\n[]", 400),
    "a password that is no base64": (b"GET / HTTP/1.1\r\nhost: x\r\nauthorization: Basic \xff=\r\n\r\n", 401),
}  # fmt: skip


async def say(backend: StateBackend, raw: bytes) -> bytes:
    """Send bytes and nothing more; `{auth}` and the path `/` are the job's own."""
    told = backend.variables()
    address = urlsplit(told["TF_HTTP_ADDRESS"])
    pair = f"{told['TF_HTTP_USERNAME']}:{told['TF_HTTP_PASSWORD']}".encode()
    raw = raw.replace(b"{auth}", b"authorization: Basic " + base64.b64encode(pair) + b"\r\n")
    reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
    writer.write(re.sub(rb" /(\S*) HTTP", rb" " + address.path.encode() + rb"\1 HTTP", raw, count=1))
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(("raw", "status"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_request_is_refused_and_does_not_disturb_the_backend(raw: bytes, status: int) -> None:
    network = Network(lambda *_: {"exists": False})
    async with StateBackend(network.server(), REF) as backend:
        assert (await say(backend, raw)).startswith(f"HTTP/1.1 {status} ".encode())
        assert network.calls == []
        assert (await call(backend, "GET")).status_code == 404


async def test_a_chunked_state_is_stored_completely() -> None:
    network = Network(lambda *_: {"exists": False})
    async with StateBackend(network.server(), REF) as backend:
        await call(backend, "LOCK", body=b'{"ID":"abc"}')
        head = b"POST /?ID=abc HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n{auth}\r\n"
        parts = b'5\r\n{"ser\r\n1a\r\nial": 1, "lineage": "our"}\r\n0\r\n\r\n'
        assert (await say(backend, head + parts)).startswith(b"HTTP/1.1 200 ")
    assert network.named("worker_state_put")[0]["p_body"] == '{"serial": 1, "lineage": "our"}'


async def test_a_state_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.statebackend.http.LARGEST_BODY", 1000)
    network = Network(lambda *_: {"exists": False})
    async with StateBackend(network.server(), REF) as backend:
        await call(backend, "LOCK", body=b'{"ID":"abc"}')
        for size, status in ((1000, 200), (1001, 413)):
            assert (await call(backend, "POST", query="?ID=abc", body=state_text(1).ljust(size))).status_code == status


async def test_the_body_of_a_stranger_is_not_waited_for() -> None:
    network = Network(lambda *_: {})
    async with StateBackend(network.server(), REF) as backend:
        port = urlsplit(backend.variables()["TF_HTTP_ADDRESS"]).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 401 ")
        writer.close()


# ---------------------------------------------------------------------------------------------- what is refused


def storing(stored: bytes | None = None) -> Network:
    """A project that has a state, or none."""
    return Network(lambda *_: {"exists": stored is not None, "body": stored.decode() if stored else None})


@pytest.mark.parametrize("method", ["POST", "LOCK", "UNLOCK"])
async def test_a_job_that_only_reads_neither_locks_nor_writes(method: str) -> None:
    network = storing(state_text(1))
    async with StateBackend(network.server(), REF, is_read_only=True) as backend:
        assert "TF_HTTP_LOCK_ADDRESS" not in backend.variables()
        assert (await call(backend, "GET")).content == state_text(1)
        answer = await call(backend, method, query="?ID=x", body=b'{"ID":"x"}')
        assert answer.status_code == 423
        assert "only reads the state" in answer.json()["Info"]
        assert [word for word in backend.take_refusals() if "only reads the state" in word]
    assert [name for name, _ in network.calls] == ["worker_state_get"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"not json", "not JSON"),
        (b"[]", "lineage is not a text"),
        (b'{"serial": 6}', "the stored one's is ours"),
        (b'{"lineage": "ours"}', "no serial"),
        (b'{"lineage": "ours", "serial": "6"}', "no serial"),
        (state_text(6, "theirs"), "lineage is theirs"),
        (state_text(5, resources=[]), "serial is 5"),
        (state_text(4), "serial is 4"),
        (b"\xff", "not UTF-8"),
    ],
)
async def test_a_state_that_may_not_follow_the_stored_one_is_refused_with_its_reason(body: bytes, reason: str) -> None:
    network = storing(state_text(5))
    async with StateBackend(network.server(), REF) as backend:
        await call(backend, "LOCK", body=b'{"ID":"abc"}')
        answer = await call(backend, "POST", query="?ID=abc", body=body)
        assert answer.status_code in {400, 409}
        assert reason in answer.json()["error"]
        (noted,) = backend.take_refusals()
        assert reason in noted
        # The same once more is no other write: an engine repeats a request whose answer it did not receive.
        for good in (state_text(5), state_text(6)):
            assert (await call(backend, "POST", query="?ID=abc", body=good)).status_code == 200
    assert [each["p_body"] for each in network.named("worker_state_put")] == [
        state_text(5).decode(),
        state_text(6).decode(),
    ]


async def test_only_the_holder_of_the_lock_writes_and_unlocks() -> None:
    network = storing()
    async with StateBackend(network.server(), REF) as backend:
        for query in ("", "?ID=nolock"):
            answer = await call(backend, "POST", query=query, body=state_text(1))
            assert (answer.status_code, "not locked" in answer.json()["error"]) == (409, True)
        await call(backend, "LOCK", body=b'{"ID":"abc"}')
        assert (await call(backend, "POST", query="?ID=wrong", body=state_text(1))).status_code == 409
        assert (await call(backend, "UNLOCK", body=b'{"ID":"wrong"}')).status_code == 409
        assert network.named("worker_state_put") == network.named("worker_state_unlock") == []
        assert (await call(backend, "POST", query="?ID=abc", body=state_text(1))).status_code == 200
        for _ in range(2):
            assert (await call(backend, "UNLOCK", body=b'{"ID":"abc"}')).status_code == 200
        assert (await call(backend, "POST", query="?ID=abc", body=state_text(2))).status_code == 409
    assert len(network.named("worker_state_unlock")) == 1
