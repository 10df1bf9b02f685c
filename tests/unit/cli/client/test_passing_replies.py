"""Replies that do not answer the request: a gateway without its server, a database that restarts. They are waited out."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.client import identity, workload
from cli.client.api import FAILED, Api, refusal
from cli.client.auth import PersonSession, exchange, refresh, sign_in
from cli.client.http import Connection, Reply
from cli.client.profiles import Profile, Profiles
from cli.commands import run, sets
from cli.errors import CommandError, NoAnswer, Refused, SignedOut
from cli.jobs import follow, waiting
from cli.output import Printer
from wire.tokens import PERSONAL

BAD_GATEWAY = Reply(502, "<html>Bad gateway</html>")
PROXY_FAILED = Reply(500, "\n<!DOCTYPE html><html><body>Internal Server Error</body></html>")
SIGN_IN_PAGE = Reply(200, "<html>Sign in</html>")
BUSY = Reply(503, json.dumps({"code": "PGRST001", "message": "Database client error."}))
JOB = {
    "id": 7,
    "number": 7,
    "type": "PLAN",
    "module_path": "a",
    "status": "SUCCEEDED",
    "attempt": 0,
    "plan_summary": None,
    "log_day": None,
}


def answer(status: int, **body: Any) -> Reply:
    return Reply(status, json.dumps(body))


def ok(document: Any) -> Reply:
    return Reply(200, json.dumps(document))


@dataclass
class Line:
    """A connection whose replies are made up; it keeps the requests."""

    replies: list[Reply]
    asked: list[tuple[str, Any]] = field(default_factory=list)
    url: str = "http://p"

    def request(self, _: str, path: str, __: dict[str, str], body: Any = None) -> Reply:
        self.asked.append((path, body))
        return self.replies.pop(0)


def here(line: Line) -> Any:
    return SimpleNamespace(
        api=Api(line, "key", "token"),  # type: ignore[arg-type]
        org=SimpleNamespace(id="org"),
        printer=Printer(as_json=True),
    )


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "SOON", 0.0)
    monkeypatch.setattr(sets, "POLL_EVERY_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (BAD_GATEWAY, NoAnswer),
        (BUSY, NoAnswer),
        (answer(504, code="PGRST003", message="Timed out."), NoAnswer),
        (answer(500, code="40001", message="could not serialize access"), NoAnswer),
        (answer(500, code="RY500", message="The function failed."), NoAnswer),
        (answer(500, code="XX000", message="internal error"), NoAnswer),
        (answer(405, code="25006", message="cannot execute INSERT in a read-only transaction"), NoAnswer),
        (PROXY_FAILED, NoAnswer),
        (answer(500, code=500, msg="Database error"), NoAnswer),
        (Reply(522, ""), NoAnswer),
        (answer(402, message="This project is restricted."), NoAnswer),
        (answer(429, message="Too many requests."), NoAnswer),
        (answer(400, code="RY429", message="Twenty uploads wait."), NoAnswer),
        (answer(400, code="RY413", message="An organisation has at most 200 rules."), Refused),
        (Reply(546, ""), NoAnswer),
        # Auth's older form: the code is the HTTP status.
        (answer(400, code=400, msg="Invalid login credentials"), Refused),
        (answer(403, code="403", msg="Forbidden"), Refused),
        (answer(409, code="23505", message="duplicate key"), Refused),
        (answer(403, code="RY403", message="Operators may do that."), Refused),
        (answer(400, code=["40001"]), Refused),
        (answer(401, code="PGRST301", message="JWT expired"), SignedOut),
    ],
)
def test_a_passing_reply_is_no_refusal(reply: Reply, kind: type[CommandError]) -> None:
    said = refusal("claim", reply)
    assert type(said) is kind
    # The code leads to docs/reference/errors.md.
    code = re.search("RY[0-9]{3}", reply.text)
    assert code is None or said.message.endswith(f"[{code[0]}]")


@pytest.mark.parametrize("reply", [PROXY_FAILED, BAD_GATEWAY, Reply(500, "")])
def test_an_unexplained_failure_shows_its_status_and_a_hint(reply: Reply) -> None:
    said = refusal("enqueue_job", reply)
    assert (f"HTTP {reply.status}" in said.message, "<" in said.message, said.hint) == (True, False, FAILED)


def as_refresh(line: Any) -> object:
    return refresh(line, "key", "old")


def as_password(line: Any) -> object:
    return sign_in(line, "key", "a@example.com", "secret")


def as_personal(line: Any) -> object:
    return exchange(line, PERSONAL + "x" * 43)


@pytest.mark.parametrize(
    ("ask", "reply", "kind"),
    [
        (as_refresh, BAD_GATEWAY, NoAnswer),
        (as_refresh, answer(409, code=409, msg="Too many concurrent token refresh requests"), NoAnswer),
        (as_refresh, answer(429, code=429, msg="Request rate limit reached"), NoAnswer),
        (as_refresh, answer(500, code=500, msg="Database error"), NoAnswer),
        (as_refresh, answer(400, code=400, msg="Refresh Token Not Found"), SignedOut),
        (as_password, BUSY, NoAnswer),
        (as_password, answer(400, code=400, msg="Invalid login credentials"), SignedOut),
        (as_password, answer(429, code=429, msg="Request rate limit reached"), NoAnswer),
        (as_personal, BAD_GATEWAY, NoAnswer),
        (as_password, PROXY_FAILED, NoAnswer),
        (as_personal, PROXY_FAILED, NoAnswer),
        (as_personal, answer(401, code="RY401", message="The token has expired."), SignedOut),
    ],
)
def test_a_login_ends_only_when_the_project_refuses_it(
    ask: Callable[[Any], object], reply: Reply, kind: type[CommandError]
) -> None:
    with pytest.raises(kind):
        ask(Line([reply]))


@pytest.mark.parametrize(
    ("reply", "kind"), [(BUSY, NoAnswer), (PROXY_FAILED, NoAnswer), (answer(401, code="RY401"), SignedOut)]
)
def test_a_service_accounts_login_ends_only_when_the_project_refuses_it(
    reply: Reply, kind: type[CommandError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(workload.ACCOUNT, "ci")
    monkeypatch.setenv(workload.SECRET, "secret")
    with pytest.raises(kind):
        workload.sign_in(Line([reply]))  # type: ignore[arg-type]


@pytest.mark.parametrize(("reply", "kind"), [(BAD_GATEWAY, NoAnswer), (Reply(403, ""), SignedOut)])
def test_githubs_failure_is_not_reported_as_a_missing_permission(
    reply: Reply, kind: type[CommandError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", "https://github.example/token")
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "x")
    monkeypatch.setattr(Connection, "request", lambda *_: reply)
    with pytest.raises(kind):
        workload._from_github()


@pytest.mark.parametrize("reply", [SIGN_IN_PAGE, Reply(302, "")])
def test_a_reply_from_elsewhere_is_reported_as_no_answer(reply: Reply) -> None:
    with pytest.raises(NoAnswer):
        here(Line([reply])).api.rows("provision_jobs")


def test_a_job_is_followed_past_passing_replies() -> None:
    line = Line([BAD_GATEWAY, BUSY, PROXY_FAILED, SIGN_IN_PAGE, ok([JOB]), ok([])])
    assert waiting.follow_one(here(line), JOB)["status"] == "SUCCEEDED"


@pytest.mark.parametrize(("modules", "made"), [(["m"], JOB), (["m", "n"], [JOB, JOB])])
def test_a_repeated_request_queues_a_job_once(modules: list[str], made: Any) -> None:
    line = Line([BUSY, PROXY_FAILED, ok(made)])
    run._enqueue(here(line), "PLAN", [{"id": each, "path": each} for each in modules], {}, None)
    keys = {body["p_options"]["idempotency_key"] for _, body in line.asked}
    assert (len(line.asked), len(keys)) == (3, 1)


def test_the_apply_of_a_confirmed_plan_is_found_past_passing_replies() -> None:
    assert run._followed_by(here(Line([BUSY, ok([JOB])])), JOB) == [JOB]


PROGRESS = {"id": "s", "type": "PLAN", "path": "", "done": 1, "total": 1, "failed": 0, "left_out": 0, "failures": []}


@pytest.mark.parametrize("given", [None, "nightly"])
def test_a_repeated_request_starts_a_set_once(given: str | None) -> None:
    line = Line([BUSY, PROXY_FAILED, ok({"id": "s"}), ok({**PROGRESS, "status": "RUNNING"})])
    sets._start(here(line), "PLAN", "", False, given)
    keys = {body["p_options"]["idempotency_key"] for path, body in line.asked if path.endswith("/start_set")}
    assert (line.replies, len(keys)) == ([], 1)
    assert given is None or keys == {given}


def test_a_set_is_waited_for_past_passing_replies() -> None:
    line = Line([BUSY, ok({**PROGRESS, "status": "RUNNING"}), BAD_GATEWAY, ok({**PROGRESS, "status": "DONE"})])
    sets._show(here(line), "s", is_waiting=True)
    assert line.replies == []


def test_a_failed_request_for_a_set_is_not_repeated_without_the_wait_option() -> None:
    with pytest.raises(NoAnswer):
        sets._show(here(Line([BUSY])), "s", is_waiting=False)


def test_a_login_is_renewed_twice_where_the_clock_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # By this clock no token ever expires; the project accepts the newest alone.
    tokens = [f"token {number}" for number in range(3)]
    taken = 0

    def session(number: int) -> PersonSession:
        return PersonSession(tokens[number], f"refresh {number}", 1e12, "a@example.com")

    def renewed(_: Connection, __: str, refresh_token: str) -> PersonSession:
        nonlocal taken
        assert refresh_token == f"refresh {taken}"
        taken += 1
        return session(taken)

    def request(_: Connection, __: str, ___: str, headers: dict[str, str], ____: Any = None) -> Reply:
        return ok([]) if headers["Authorization"] == f"Bearer {accepted}" else answer(401, message="JWT expired")

    monkeypatch.setattr(identity, "refresh", renewed)
    monkeypatch.setattr(Connection, "request", request)
    profiles, profile = Profiles(tmp_path), Profile("default", "http://p", "key")
    profiles.save(profile, session(0))
    api, _ = identity._from_profile(profiles, profile)
    for token in tokens:
        accepted = token
        assert api.rows("provision_jobs") == []
