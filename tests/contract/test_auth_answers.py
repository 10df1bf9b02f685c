"""Auth answers as the real GoTrue does: status, code and headers, request by request."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.contract.conftest import PASSWORD, User
from tests.support.stack import Project

KEY, SECRET, PERSON = "the publishable key", "the secret key", "a person's token"
TOKEN = "token?grant_type=password"
REFRESH = "token?grant_type=refresh_token"


@dataclass(frozen=True)
class Ask:
    """One request, and what GoTrue answers: a status, and the code of an error."""

    what: str
    method: str
    path: str
    status: int
    code: str = ""
    body: Any = None
    bearer: str = ""
    key: str = KEY


ASKS = [
    Ask("a key alone is nobody's token", "GET", "user", 403, "bad_jwt"),
    Ask("nor is a key as bearer", "GET", "user", 403, "bad_jwt", bearer=KEY),
    Ask("nor is the secret one", "GET", "user", 403, "bad_jwt", bearer=SECRET),
    Ask("a key alone cannot change a user", "PUT", "user", 403, "bad_jwt", {"data": {}}),
    Ask("a key alone cannot sign out", "POST", "logout", 403, "bad_jwt"),
    Ask("rights of one's own", "PUT", "user", 403, "not_admin", {"app_metadata": {"x": 1}}, PERSON),
    Ask("no body at sign-up", "POST", "signup", 400, "bad_json"),
    Ask("no body at sign-in", "POST", TOKEN, 400, "bad_json"),
    Ask("no body at refresh", "POST", REFRESH, 400, "bad_json"),
    Ask("no body at recovery", "POST", "recover", 400, "bad_json"),
    Ask("no body at verification", "POST", "verify", 400, "bad_json"),
    Ask("no body of a change", "PUT", "user", 400, "bad_json", bearer=PERSON),
    Ask("nobody signs up", "POST", "signup", 422, "anonymous_provider_disabled", {}),
    Ask("a password signs up", "POST", "signup", 422, "anonymous_provider_disabled", {"password": PASSWORD}),
    Ask("no grant", "POST", "token", 400, "invalid_credentials", {}),
    Ask("an unknown grant", "POST", "token?grant_type=magic", 400, "invalid_credentials", {}),
    Ask("a wrong password", "POST", TOKEN, 400, "invalid_credentials", {"email": "a@b.c", "password": "no"}),
    Ask("a garbled refresh token", "POST", REFRESH, 400, "validation_failed", {"refresh_token": "nonsense"}),
    Ask("a long password", "POST", "signup", 400, "validation_failed", {"email": "a@b.c", "password": "x" * 73}),
    Ask("a short password", "POST", "signup", 422, "weak_password", {"email": "a@b.c", "password": "abc"}),
    Ask("a wrong method", "GET", "signup", 405),
    Ask("another wrong method", "PATCH", "user", 405),
    Ask("a wrong method for administrators", "PATCH", "admin/users", 405, key=SECRET),
    Ask("page nought of users", "GET", "admin/users?page=0", 200, key=SECRET),
    Ask("a page that is none", "GET", "admin/users?page=x", 400, "validation_failed", key=SECRET),
    Ask("a person administers", "GET", "admin/users", 403, "not_admin", bearer=PERSON),
    Ask("health", "GET", "health", 200),
    Ask("settings", "GET", "settings", 200),
    Ask("a person looks", "GET", "user", 200, bearer=PERSON),
]


@pytest.fixture
def ask(project: Project, http: httpx.Client, alice: User) -> Callable[..., httpx.Response]:
    words = {KEY: project.publishable_key, SECRET: project.secret_key, PERSON: alice.token}

    def send(wanted: Ask, **headers: str) -> httpx.Response:
        headers |= {"apikey": words[wanted.key]}
        if wanted.bearer:
            headers["authorization"] = f"Bearer {words[wanted.bearer]}"
        return http.request(wanted.method, f"/auth/v1/{wanted.path}", json=wanted.body, headers=headers)

    return send


@pytest.mark.parametrize("wanted", ASKS, ids=lambda wanted: wanted.what)
def test_status_code_and_headers_are_gotrues(ask: Callable[..., httpx.Response], wanted: Ask) -> None:
    for version in ({}, {"x-supabase-api-version": "2024-01-01"}):
        done = ask(wanted, **version)
        assert done.status_code == wanted.status, done.text
        assert done.headers.get("x-sb-error-code", "") == wanted.code
        assert ("x-supabase-api-version" in done.headers) is bool(version and wanted.code)
        if wanted.status == 405:
            assert done.content == b""
        elif wanted.code:
            assert done.json()["code" if version else "error_code"] == wanted.code


def test_a_second_recovery_at_once_is_too_soon(http: httpx.Client, alice: User) -> None:
    answers = [http.post("/auth/v1/recover", json={"email": alice.email}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert answers[1].json()["error_code"] == "over_email_send_rate_limit"


def test_a_new_user_has_the_metadata_and_the_identity_data_of_the_sign_up(project: Project, http: httpx.Client) -> None:
    email = f"contract-{uuid.uuid4().hex[:12]}@example.com"
    body = {"email": email, "password": PASSWORD, "data": {"name": "Ada"}}
    user = http.post("/auth/v1/signup", json=body).json()["user"]
    try:
        known = {"email": email, "phone_verified": False, "sub": user["id"], "name": "Ada"}
        assert user["user_metadata"] == {**known, "email_verified": True}
        assert user["identities"][0]["identity_data"] == {**known, "email_verified": False}
    finally:
        headers = {"apikey": project.secret_key}
        assert http.delete(f"/auth/v1/admin/users/{user['id']}", headers=headers).status_code == 200


def test_an_administrator_may_set_a_short_password(project: Project, http: httpx.Client) -> None:
    headers = {"apikey": project.secret_key}
    body = {"email": f"contract-{uuid.uuid4().hex[:12]}@example.com", "password": "abc"}
    done = http.post("/auth/v1/admin/users", json=body, headers=headers)
    assert done.status_code == 200
    http.delete(f"/auth/v1/admin/users/{done.json()['id']}", headers=headers)
