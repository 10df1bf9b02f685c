"""“Break something”: the launcher breaks the demo's own runner and database when its owner asks, and everything recovers.

What a push needs of it is tested beside its page, by one demo: tests/e2e/test_break_page.py.
"""

import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.launcher.demo.prepare import DEMO_EMAIL
from cli.launcher.faults.switch import socket_path
from tests.db.test_ledger import PROMISES
from tests.support.stack import RunningStack
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(900)


def path_of(stack: RunningStack) -> Path:
    path = socket_path(stack.settings.run_folder)
    assert path is not None
    return path


def send(stack: RunningStack, line: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(30)
        asked.connect(str(path_of(stack)))
        asked.sendall(line + b"\n")
        answer: dict[str, Any] = json.loads(asked.makefile("rb").readline())
    return answer


def ask(stack: RunningStack, **question: str) -> dict[str, Any]:
    return send(stack, json.dumps(question).encode())


def sign_in(stack: RunningStack, email: str, password: str, kind: str = "token?grant_type=password") -> str:
    body, headers = {"email": email, "password": password}, {"apikey": stack.publishable_key}
    answer = httpx.post(f"{stack.url}/auth/v1/{kind}", json=body, headers=headers, timeout=30)
    return str(answer.raise_for_status().json()["access_token"])


@pytest.fixture(scope="module")
def owner(demo: RunningStack) -> str:
    """The token of the demo's owner."""
    return sign_in(demo, DEMO_EMAIL, demo.secrets.demo_password)


def check_recovered(stack: RunningStack) -> list[str]:
    """Wait for the end; nothing was lost, and sentences report the events."""
    seen = wait_until(lambda: (found := ask(stack, do="read")) and not found["run"]["is_running"] and found, 400)
    said = [step["text"] for step in seen["run"]["steps"]]
    assert seen["run"]["has_recovered"], "\n".join(said)
    assert {
        name: count for name, count in seen["ledger"].items() if name in PROMISES | {"log_lines_lost"} and count
    } == {}
    assert seen["ledger"]["applies"] + seen["ledger"]["jobs"] > 0
    assert seen["ledger"]["log_lines"] > 0
    return said


def broken(stack: RunningStack, token: str, kind: str) -> list[str]:
    begun = ask(stack, do="break", kind=kind, token=token)
    assert begun.get("run", {}).get("is_running"), begun.get("run", begun)["steps"]
    assert "broken already" in ask(stack, do="break", kind=kind, token=token)["refused"]
    return check_recovered(stack)


@pytest.mark.slow  # the page's own test, tests/e2e/test_break_page.py, breaks the same with every push
def test_a_runner_killed_in_its_apply_leaves_the_job_to_a_person_and_nothing_is_lost(
    demo: RunningStack, owner: str
) -> None:
    said = broken(demo, owner, "apply")
    assert any("SIGKILL" in line for line in said)
    assert any("never run again automatically" in line for line in said)
    assert "succeeded" in said[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("plan", "back into its queue"),
        ("network", "The network is back"),
        ("freeze", "It runs again"),
        ("database", "It answers again"),
    ],
)
def test_everything_recovers_automatically(demo: RunningStack, owner: str, kind: str, words: str) -> None:
    said = broken(demo, owner, kind)
    assert any(words in line for line in said), said
    assert "succeeded" in said[-1]
