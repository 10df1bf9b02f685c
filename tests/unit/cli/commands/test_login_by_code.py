"""A login by code, with a project that is made up: the failures that are waited out until the code is confirmed or has expired."""

import json
from typing import Any

import pytest

from cli.client.auth import PersonSession
from cli.client.http import Reply
from cli.client.two_steps import nobody_to_ask
from cli.commands.login import _by_code
from cli.errors import NoAnswer, SignedOut

AWAY = NoAnswer("http://p does not answer")
BUSY = Reply(503, json.dumps({"code": "RY503", "message": "Too many sign in."}))
PROXY_FAILED = Reply(500, "<html>Internal Server Error</html>")
SIGN_IN_PAGE = Reply(200, "<html>Sign in</html>")
PENDING = Reply(400, json.dumps({"code": "RY403", "error": "authorization_pending"}))
DECLINED = Reply(400, json.dumps({"code": "RY403", "error": "access_denied", "message": "The code was declined."}))


def code(expires_in: float) -> Reply:
    asked = {"device_code": "d", "user_code": "BCDF-GHJK", "expires_in": expires_in, "interval": 0}
    return Reply(200, json.dumps(asked))


def login(name: str) -> Reply:
    session = {"access_token": name, "refresh_token": f"refresh {name}", "expires_in": 900, "user": {"email": "a@b.c"}}
    return Reply(200, json.dumps(session))


class Line:
    """A connection whose replies are made up; the last one stays."""

    def __init__(self, *replies: Reply | NoAnswer) -> None:
        self.replies = list(replies)

    def request(self, *_: Any) -> Reply:
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, NoAnswer):
            raise reply
        return reply


def signed_in(*replies: Reply | NoAnswer, expires_in: float = 600) -> PersonSession:
    line: Any = Line(code(expires_in), *replies)
    return _by_code(line, "key", "", False, nobody_to_ask)


def test_a_code_outlives_a_project_that_is_away_for_a_moment() -> None:
    session = signed_in(BUSY, PENDING, AWAY, PROXY_FAILED, SIGN_IN_PAGE, login("by code"), login("seen here"))
    assert session.access_token == "seen here"


@pytest.mark.parametrize("away", [BUSY, AWAY])
def test_a_granted_login_is_kept_although_the_project_then_fails(away: Reply | NoAnswer) -> None:
    assert signed_in(login("by code"), away).access_token == "by code"


@pytest.mark.parametrize("away", [BUSY, AWAY])
def test_nobody_waits_for_a_code_that_has_expired(away: Reply | NoAnswer) -> None:
    with pytest.raises(SignedOut):
        signed_in(away, expires_in=0)


def test_a_code_that_was_declined_ends_the_wait() -> None:
    with pytest.raises(SignedOut):
        signed_in(PENDING, DECLINED, login("never"))
