"""Requests that cannot be read, over the wire: each is the client's error, and the next one is served."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.stack import RunningStack

PATHS = [
    "/rest/v1/rpc/my_organizations",
    "/auth/v1/token?grant_type=password",
    "/functions/v1/device-login",
]
BAD_CHUNKS = [b"ZZ\r\n{}\r\n0\r\n\r\n", b"FFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n", b"5\r\n{}\r\n0\r\n\r\n"]
UNSTORABLE = ["a\\u0000b", "\\ud800", "\\udc00\\ud800"]
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
def _still_serving(running_stack: RunningStack) -> Iterator[None]:
    yield
    assert running_stack.is_healthy()


def send_raw(stack: RunningStack, path: str, rest: bytes, *, is_to_the_end: bool = False) -> bytes:
    """Send bytes as they are and return the head of the answer, or all that arrives until the server closes."""
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\napikey: {stack.secret_key}\r\n"
    answer = b""
    with socket.create_connection(("127.0.0.1", stack.settings.gateway_port), 60) as connection:
        connection.sendall(head.encode() + rest)
        while (is_to_the_end or b"\r\n\r\n" not in answer) and (part := connection.recv(65536)):
            answer += part
    return answer


def status_of(answer: bytes) -> int:
    return int(answer.split()[1])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("chunks", BAD_CHUNKS)
def test_malformed_chunks_are_refused(running_stack: RunningStack, path: str, chunks: bytes) -> None:
    assert status_of(send_raw(running_stack, path, CHUNKED + chunks)) == 400


def test_a_client_that_leaves_in_the_middle_of_its_body_harms_nobody(running_stack: RunningStack) -> None:
    head = f"POST {PATHS[0]} HTTP/1.1\r\nhost: x\r\napikey: {running_stack.secret_key}\r\ncontent-length: 10\r\n\r\n{{"
    before = running_stack.part_pid("gateway")
    with socket.create_connection(("127.0.0.1", running_stack.settings.gateway_port), 60) as connection:
        connection.sendall(head.encode())
    assert running_stack.is_healthy()
    assert running_stack.part_pid("gateway") == before


def test_a_length_beside_chunks_cannot_smuggle_a_second_request(running_stack: RunningStack) -> None:
    """The server reads the chunks, drops the length, and closes the connection behind the answer (RFC 9112, 6.1)."""
    rest = b"content-length: 4\r\n" + CHUNKED + b"2\r\n{}\r\n0\r\n\r\nGET /health HTTP/1.1\r\nhost: x\r\n\r\n"
    answer = send_raw(running_stack, PATHS[0], rest, is_to_the_end=True)
    assert b"connection: close" in answer.lower()
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("text", UNSTORABLE)
@pytest.mark.parametrize(
    ("function", "field", "others"),
    [
        ("device-login", "program", {}),
        ("service-account-token", "client_id", {"grant_type": "client_credentials", "client_secret": "x"}),
        ("worker-session", "worker_token", {}),
    ],
)
def test_text_that_cannot_be_stored_is_refused(
    running_stack: RunningStack, function: str, field: str, others: dict[str, Any], text: str
) -> None:
    body = json.dumps({**others, field: "TEXT"}).replace("TEXT", text)
    headers = {"apikey": running_stack.publishable_key, "content-type": "application/json"}
    url = f"{running_stack.url}/functions/v1/{function}"
    answer = httpx.post(url, content=body, headers=headers, timeout=60)
    assert (answer.status_code, answer.json()["code"]) == (400, "RY422")
    assert "NUL or a lone surrogate" in answer.json()["message"]


@pytest.mark.parametrize("part", ["%ff", "%00", "a%00b", "%e4%b8"])
def test_a_path_that_is_not_text_is_refused(running_stack: RunningStack, part: str) -> None:
    headers = {"apikey": running_stack.publishable_key, "authorization": "Bearer none"}
    path = f"/functions/v1/terraform/api/v2/organizations/{part}/workspaces/x"
    assert httpx.get(f"{running_stack.url}{path}", headers=headers, timeout=60).status_code == 400
