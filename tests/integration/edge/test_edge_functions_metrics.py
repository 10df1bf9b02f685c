"""metrics: the monitoring credential's own door, in the text that Prometheus reads."""

import re

import httpx

from tests.integration.edge.conftest import METRICS_TOKEN, RELEASE_TOKEN, Edge
from tests.integration.edge.people import Person

SAMPLE = re.compile(r'runyard_\w+(\{\w+="[^"]+"\})? -?\d+(\.\d+)?(e-?\d+)?')


def ask(edge: Edge, token: str | None) -> httpx.Response:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return httpx.get(f"{edge.url}/metrics", headers=headers, timeout=60)


def test_metrics_have_the_format_of_prometheus(edge: Edge) -> None:
    answer = ask(edge, METRICS_TOKEN)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert [line for line in lines if not line.startswith("#") and not SAMPLE.fullmatch(line)] == []
    names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    wanted = {
        "runyard_jobs",
        "runyard_runners",
        "runyard_slots",
        "runyard_queue_oldest_seconds",
        "runyard_organizations",
    }
    assert wanted <= names


def test_metrics_are_refused_for_every_other_token(edge: Edge, person: Person) -> None:
    for token in (None, "wrong", METRICS_TOKEN[:-1], RELEASE_TOKEN, person.token, edge.stack.publishable_key):
        assert ask(edge, token).status_code == 401
    posted = edge.post("metrics", {}, METRICS_TOKEN)
    assert posted.status_code == 405
