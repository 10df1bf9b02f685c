"""“Break something”: the launcher breaks the demo's own runner and database when its owner asks, and everything recovers."""

import json
import socket
import stat
import uuid
from pathlib import Path
from typing import Any

import httpx
import psycopg
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
    """Wait for the end; nothing was lost, and what happened is told in sentences."""
    seen = wait_until(lambda: (found := ask(stack, do="read")) and not found["run"]["is_running"] and found, 400)
    said = [step["text"] for step in seen["run"]["steps"]]
    assert seen["run"]["has_recovered"], said
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
    assert any("never run again by itself" in line for line in said)
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
def test_everything_recovers_by_itself(demo: RunningStack, owner: str, kind: str, words: str) -> None:
    said = broken(demo, owner, kind)
    assert any(words in line for line in said), said
    assert "succeeded" in said[-1]


def test_only_the_owner_of_the_demo_may(demo: RunningStack) -> None:
    other = sign_in(demo, f"{uuid.uuid4().hex[:8]}@example.org", "correct-horse-battery", "signup")
    assert "Only an owner" in ask(demo, do="break", kind="apply", token=other)["refused"]
    assert "login" in ask(demo, do="break", kind="apply", token="nonsense")["refused"]
    assert not (ask(demo, do="read")["run"] or {}).get("is_running")


def test_the_socket_is_its_users_alone(demo: RunningStack) -> None:
    assert stat.S_IMODE(path_of(demo).stat().st_mode) == 0o600


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[]", b'{"do": "anything"}', b'{"do": 1}'])
def test_what_is_no_question_is_refused_in_words(demo: RunningStack, line: bytes) -> None:
    answer = send(demo, line)
    assert answer["refused"]
    assert answer["hint"]


def test_there_is_no_other_fault(demo: RunningStack, owner: str) -> None:
    assert "no such fault" in ask(demo, do="break", kind="everything", token=owner)["refused"]


def test_nothing_is_broken_while_somebody_s_job_runs(demo: RunningStack, owner: str) -> None:
    """Somebody's: any module that the demo did not bring, the demo organisation's own included."""
    with psycopg.connect(demo.db_url, autocommit=True) as database:
        query = """select m.org_id, m.id from public.modules as m join public.organizations as o on o.id = m.org_id
          where o.slug = 'example-platform' limit 1"""
        org, module = database.execute(query).fetchone() or ("", "")
        with database.transaction(force_rollback=False):
            job = database.execute(
                """insert into public.provision_jobs (org_id, type, module_id, module_path, created_by_label)
                  values (%s, 'PLAN', %s, 'my/own', 'somebody') returning id""",
                [org, module],
            ).fetchone()
            database.execute(
                """insert into private.live_jobs (job_id, org_id, state_key, stage, priority, attempt, claimed_at, log_day,
                    worker_id, instance_id, session_id, claim_request_id, lease_until)
                  select %s, %s, gen_random_uuid(), 'RUNNING', 100, 1, now(), current_date, gen_random_uuid(),
                    gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), now() + interval '1 hour'""",
                [job and job[0], org],
            )
        try:
            assert "Somebody's job is running" in ask(demo, do="break", kind="apply", token=owner)["refused"]
        finally:
            database.execute("delete from private.live_jobs where job_id = %s", [job and job[0]])
            database.execute("delete from public.provision_jobs where id = %s", [job and job[0]])
