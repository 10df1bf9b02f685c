"""publish-release: the pipeline's own credential, checked input, semantic order, withdrawal."""

import random
from typing import Any

import httpx
import psycopg
import pytest

from tests.integration.edge.conftest import RELEASE_TOKEN, Edge
from tests.integration.edge.people import Person

SHA = "ab" * 32


def fresh_version() -> str:
    return f"{random.randrange(10_000)}.{random.randrange(10_000)}.{random.randrange(10_000)}"


def release(**changes: Any) -> dict[str, Any]:
    artifact = {"name": "runyard-worker.pex", "url": "https://example.com/runyard-worker.pex", "sha256": SHA}
    body = {"version": fresh_version(), "channel": "beta", "notes": "## Better", "artifacts": [artifact]}
    return {**body, "is_breaking": True, **changes}


def publish(edge: Edge, body: Any, token: str | None = RELEASE_TOKEN) -> httpx.Response:
    """Ask from an address of its own: other files use up what one address may ask in a minute."""
    address = f"10.1.{random.randrange(250)}.{random.randrange(250)}"
    return edge.post("publish-release", body, token, **{"x-forwarded-for": address})


def test_a_release_is_published_and_everybody_sees_it(edge: Edge, person: Person) -> None:
    body = release()
    answer = publish(edge, body)
    assert answer.status_code == 200, answer.text
    url = f"{edge.stack.url}/rest/v1/worker_releases?version=eq.{body['version']}"
    [row] = httpx.get(url, headers=person.headers, timeout=30).json()
    assert {name: row[name] for name in body} == body
    assert publish(edge, body).status_code == 200, "publishing the same again succeeds"
    other = publish(edge, {**body, "notes": "changed"})
    assert (other.status_code, other.json()["code"]) == (409, "RY409")


def test_a_release_is_withdrawn_with_its_reason(edge: Edge) -> None:
    body = release()
    publish(edge, body)
    gone = {"withdraw": True, "version": body["version"], "reason": "It loses logs"}
    answer = publish(edge, gone)
    assert answer.status_code == 200
    assert answer.json()["release"]["withdrawn_reason"] == "It loses logs"
    absent = publish(edge, {**gone, "version": fresh_version()})
    assert absent.status_code == 404


def test_only_the_pipeline_may_publish(edge: Edge, person: Person) -> None:
    for token in (None, "wrong", RELEASE_TOKEN[:-1], person.token, edge.stack.publishable_key):
        answer = publish(edge, release(), token)
        assert (answer.status_code, answer.json()["code"]) == (401, "RY401")
    assert publish(edge, "not even looked at", "wrong").status_code == 401


@pytest.mark.parametrize(
    "change",
    [
        {"version": "latest"},
        {"version": "1.2"},
        {"version": "01.2.3"},
        {"version": None},
        {"channel": "nightly"},
        {"notes": 7},
        {"notes": "x" * 70_000},
        {"is_breaking": "yes"},
        {"artifacts": [{"name": "a", "url": "http://example.com/a", "sha256": SHA}]},
        {"artifacts": [{"name": "../a", "url": "https://example.com/a", "sha256": SHA}]},
        {"artifacts": [{"name": "a", "url": "https://example.com/a", "sha256": "abc"}]},
        {"artifacts": [{"name": "a", "url": "javascript:alert(1)", "sha256": SHA}]},
        {"artifacts": [{"name": "a", "url": "https://example.com/a"}]},
        {"extra": 1},
    ],
)
def test_bad_input_is_named(edge: Edge, change: dict[str, Any]) -> None:
    answer = publish(edge, release(**change))
    assert answer.status_code == 400, answer.text
    assert answer.json()["details"]


def test_attempts_are_limited(edge: Edge, sql: psycopg.Connection[Any]) -> None:
    sql.execute(
        "insert into private.rate_limits (key, window_started_at, used) values (%s, now(), 100000)",
        ["release:address:10.9.9.9"],
    )
    answer = edge.post("publish-release", release(), RELEASE_TOKEN, **{"x-forwarded-for": "1.1.1.1, 10.9.9.9"})
    assert answer.status_code == 429, "the address is the one that the nearest proxy saw"
