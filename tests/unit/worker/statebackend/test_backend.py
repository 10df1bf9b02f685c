"""The engine's HTTP state backend: it serves its job's engine, and nothing that is sent to it disturbs it."""

import asyncio
import base64
import json
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
        assert (await call(backend, "POST", query="?ID=abc", body=b'{"serial":1}')).status_code == 200
        assert (await call(backend, "GET")).json() == {"serial": 1}
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
    network = Network(
        lambda name, _: refusal("RY423", details=holder) if name == "worker_state_lock" else refusal("RY410")
    )
    async with StateBackend(network.server(), REF) as backend:
        locked = await call(backend, "LOCK", body=b'{"ID":"mine"}')
        assert (locked.status_code, locked.json()["ID"]) == (423, "theirs")
        assert (await call(backend, "POST", body=b"{}")).status_code == 403


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
    "a state that is no text": (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n{auth}\r\n\xff\xfe", 400),
    "a lock that is no object": (b"LOCK / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n{auth}\r\n[]", 400),
    "a password that is no base64": (b"GET / HTTP/1.1\r\nhost: x\r\nauthorization: Basic \xff=\r\n\r\n", 401),
}  # fmt: skip


async def say(backend: StateBackend, raw: bytes) -> bytes:
    """Send bytes and nothing more; `{auth}` and the path `/` are the job's own."""
    told = backend.variables()
    address = urlsplit(told["TF_HTTP_ADDRESS"])
    pair = f"{told['TF_HTTP_USERNAME']}:{told['TF_HTTP_PASSWORD']}".encode()
    raw = raw.replace(b"{auth}", b"authorization: Basic " + base64.b64encode(pair) + b"\r\n")
    reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
    writer.write(raw.replace(b" / HTTP", f" {address.path} HTTP".encode()))
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


async def test_a_state_in_chunks_is_taken_whole() -> None:
    network = Network(lambda *_: {})
    async with StateBackend(network.server(), REF) as backend:
        head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n{auth}\r\n"
        assert (await say(backend, head + b'5\r\n{"a":\r\n2\r\n1}\r\n0\r\n\r\n')).startswith(b"HTTP/1.1 200 ")
    assert network.named("worker_state_put")[0]["p_body"] == '{"a":1}'


async def test_a_state_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.statebackend.http.LARGEST_BODY", 1000)
    network = Network(lambda *_: {})
    async with StateBackend(network.server(), REF) as backend:
        assert (await call(backend, "POST", body=b"x" * 1000)).status_code == 200
        assert (await call(backend, "POST", body=b"x" * 1001)).status_code == 413


async def test_the_body_of_a_stranger_is_not_waited_for() -> None:
    network = Network(lambda *_: {})
    async with StateBackend(network.server(), REF) as backend:
        port = urlsplit(backend.variables()["TF_HTTP_ADDRESS"]).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 401 ")
        writer.close()
