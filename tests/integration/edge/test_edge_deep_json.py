"""Deeply nested JSON: every function refuses it as the caller's error, as a body and in every field."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from stack.settings import PROJECT
from tests.integration.edge.conftest import RELEASE_TOKEN, Edge
from tests.integration.edge.people import Person
from tests.integration.edge.test_edge_git import SECRET, Connected
from tests.support import webhooks

FUNCTIONS = PROJECT / "supabase" / "functions"
DEEP = "[" * 20_000 + "]" * 20_000
NAMES = sorted(path.parent.name for path in FUNCTIONS.glob("*/index.ts"))


def fields(function: Path) -> Iterator[str]:
    """The names that a function's schemas have."""
    for source in function.glob("*.ts"):
        yield from re.findall(r"^\s+(\w+): *z\b", source.read_text(), re.MULTILINE)


def send(edge: Edge, path: str, body: str, **headers: str) -> httpx.Response:
    return edge.http.post(f"{edge.url}/{path}", content=body, headers={"content-type": "application/json"} | headers)


@pytest.mark.parametrize("function", NAMES)
def test_deeply_nested_json_is_refused_and_fails_nowhere(edge: Edge, person: Person, function: str) -> None:
    bodies = [DEEP, *(f'{{"{name}": {DEEP}}}' for name in {"any", *fields(FUNCTIONS / function)})]
    for token in ("", person.token, RELEASE_TOKEN):
        own = {"authorization": f"Bearer {token}"} if token else {}
        for place in (function, f"{function}/token", f"{function}/apps"):
            for body in bodies:
                answer = send(edge, place, body, **own)
                assert answer.status_code < 500, (place, body[:40], answer.text)


@pytest.mark.parametrize(
    "function", ["device-login", "invitation", "notify", "service-account-token", "worker-session"]
)
def test_the_refusal_of_nested_json_has_words(edge: Edge, function: str) -> None:
    answer = send(edge, function, DEEP)
    assert (answer.status_code, answer.json()["code"]) == (400, "RY422")
    assert answer.json()["message"] == "The body is nested more than 100 levels deep."


def test_a_signed_delivery_that_is_nested_deeply_is_refused(edge: Edge, person: Person) -> None:
    there = Connected(edge, person, "github")
    body = f'{{"ref": {DEEP}, "commits": {DEEP}}}'.encode()
    answer = there.send(body, webhooks.github(SECRET, body))
    assert answer.status_code == 400
    assert "100 levels" in answer.text
    assert there.deliveries() == []
