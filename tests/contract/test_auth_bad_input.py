"""Requests that nobody should send to Auth: a clear error in its shape, enforced limits, and the process continues to serve."""

import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.conftest import PASSWORD, User
from tests.contract.test_rest_security import forged_tokens
from tests.support.stack import Project

SIGN_UP, TOKEN = "/auth/v1/signup", "/auth/v1/token?grant_type=password"
ADMIN = "/auth/v1/admin/users"


@pytest.fixture(autouse=True)
def _still_serving(http: httpx.Client) -> Iterator[None]:
    yield
    assert http.get("/auth/v1/health").status_code == 200


def refused(done: httpx.Response, *statuses: int) -> str:
    assert done.status_code in (statuses or (400, 422)), done.text
    body = done.json()
    assert body["code"] == done.status_code
    assert body["msg"]
    return str(body["error_code"])


@pytest.mark.parametrize("path", [SIGN_UP, TOKEN, "/auth/v1/recover", "/auth/v1/verify"])
@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"7", b'"text"', b"\xff", b'{"email": "\xff"}', b"[" * 5000, b'{"a":' * 3000, b"\x00"]
)
def test_a_body_that_is_not_a_json_object_is_refused(http: httpx.Client, path: str, body: bytes) -> None:
    assert refused(http.post(path, content=body), 400) == "bad_json"


@pytest.mark.parametrize("path", [SIGN_UP, TOKEN, "/auth/v1/recover"])
@pytest.mark.parametrize(
    "email",
    ["", "nobody", "a@", "@b", "a b@c.d", "a@b@c", "a\x00@b.c", 7, None, [], {}, "x" * 300 + "@b.c", "a@b.c\r\nBcc: d"],
)
def test_an_invalid_address_is_refused(http: httpx.Client, path: str, email: Any) -> None:
    code = refused(http.post(path, json={"email": email, "password": PASSWORD}))
    is_anonymous = path == SIGN_UP and not email
    assert code == ("anonymous_provider_disabled" if is_anonymous else "validation_failed")


@pytest.mark.parametrize("password", [7, [], {}, "x" * 73, "ü" * 40, "short", "", None, "nul\x00inside it"])
def test_an_invalid_or_weak_password_is_refused(http: httpx.Client, password: Any) -> None:
    email = f"contract-{uuid.uuid4().hex[:12]}@example.com"
    assert refused(http.post(SIGN_UP, json={"email": email, "password": password})) in {
        "validation_failed",
        "weak_password",
    }


@pytest.mark.parametrize("data", [7, [], "text", {"x": "y" * 100_000}, {"nul": "a\x00b"}])
def test_invalid_metadata_is_refused(http: httpx.Client, data: Any) -> None:
    email = f"contract-{uuid.uuid4().hex[:12]}@example.com"
    assert refused(http.post(SIGN_UP, json={"email": email, "password": PASSWORD, "data": data})) == "validation_failed"


def test_a_body_that_is_too_large_is_refused(http: httpx.Client) -> None:
    assert refused(http.post(SIGN_UP, content=b"x" * 10_000_000), 413) == "request_too_large"


@pytest.mark.parametrize("grant", ["", "nope", "client_credentials"])
def test_an_unknown_grant_is_refused(http: httpx.Client, grant: str) -> None:
    assert refused(http.post(f"/auth/v1/token?grant_type={grant}", json={})) == "invalid_credentials"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "token?grant_type=id_token"), ("POST", "otp"), ("POST", "magiclink"), ("POST", "sso"), ("POST", "resend"),
        ("GET", "reauthenticate"), ("POST", "invite"),
    ],
)  # fmt: skip
def test_endpoints_that_are_not_implemented_answer_501(http: httpx.Client, method: str, path: str) -> None:
    done = http.request(method, f"/auth/v1/{path}", json={} if method == "POST" else None)
    assert refused(done, 501) == "not_implemented"
    assert "does not speak" in done.json()["msg"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "signup", 405), ("PATCH", "user", 405), ("GET", "nope", 404), ("GET", "", 404)],
)
def test_unknown_paths_and_methods_are_refused(http: httpx.Client, method: str, path: str, status: int) -> None:
    done = http.request(method, f"/auth/v1/{path}")
    if status == 405:
        assert (done.status_code, done.content) == (405, b"")
    else:
        refused(done, status)


def test_a_forged_token_is_refused(http: httpx.Client, alice: User) -> None:
    for what, token in forged_tokens(alice).items():
        headers = {"authorization": f"Bearer {token}"}
        for method, path in (("GET", "user"), ("PUT", "user"), ("POST", "logout"), ("GET", "admin/users")):
            done = http.request(method, f"/auth/v1/{path}", headers=headers, json={} if method == "PUT" else None)
            assert (done.status_code, done.json()["error_code"]) == (403, "bad_jwt"), what


@pytest.mark.parametrize("key", ["", "nonsense", "sb_secret_wrong"])
def test_a_wrong_key_gets_nothing(project: Project, key: str) -> None:
    for path in (SIGN_UP, TOKEN, "/auth/v1/settings", ADMIN):
        done = httpx.post(f"{project.url}{path}", headers={"apikey": key}, json={})
        assert refused(done, 401) in {"no_api_key", "invalid_api_key"}


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        ({"email": "x"}, (400,)), ({}, (400,)), ({"email": "a@b.c", "password": "x" * 73}, (400,)),
        ({"email": "a@b.c", "ban_duration": "soon"}, (400,)), ({"email": "a@b.c", "ban_duration": "9" * 30 + "h"}, (400,)),
        ({"email": "a@b.c", "app_metadata": 7}, (400,)), ({"email": "a@b.c", "role": 7}, (400,)), ({"email": "a@b.c", "id": "x"}, (404,)),
    ],
)  # fmt: skip
def test_bad_users_are_refused(project: Project, body: dict[str, Any], statuses: tuple[int, ...]) -> None:
    done = httpx.post(f"{project.url}{ADMIN}", headers={"apikey": project.secret_key}, json=body)
    refused(done, *statuses)


@pytest.mark.parametrize(
    "path", ["users/x", "users/" + "9" * 400, "users/1/2", "users?page=x", "users?page=-1", "audit", "users/%00"]
)
def test_bad_administrators_paths_are_refused(project: Project, path: str) -> None:
    done = httpx.get(f"{project.url}/auth/v1/admin/{path}", headers={"apikey": project.secret_key})
    refused(done, 400, 404, 501)


def test_guessing_a_password_is_stopped(http: httpx.Client, alice: User, bob: User) -> None:
    wrong = {"email": alice.email, "password": "a guess that fails"}
    codes = [http.post(TOKEN, json=wrong).json()["error_code"] for _ in range(14)]
    assert codes[0] == "invalid_credentials"
    assert codes[-1] == "over_request_rate_limit"
    # Even the right password waits now, and nobody else does.
    locked = http.post(TOKEN, json={"email": alice.email, "password": PASSWORD})
    assert locked.status_code == 429
    seconds = int(locked.headers["retry-after"])
    assert 1 <= seconds <= 30
    assert locked.json()["msg"] == f"Too many attempts. Try again in {seconds} second{'s' if seconds > 1 else ''}."
    assert http.post(TOKEN, json={"email": bob.email, "password": PASSWORD}).status_code == 200


def test_one_person_s_guesses_do_not_lock_another_out(http: httpx.Client, project: Project, alice: User) -> None:
    """A server acts for many browsers, and names the one; Supabase accepts that from a holder of the secret key."""
    wrong = {"email": alice.email, "password": "a guess that fails"}
    server = {"apikey": project.secret_key}
    guesser = {**server, "sb-forwarded-for": "203.0.113.5"}
    assert [http.post(TOKEN, json=wrong, headers=guesser).status_code for _ in range(14)][-1] == 429
    right = {"email": alice.email, "password": PASSWORD}
    assert http.post(TOKEN, json=right, headers=guesser).status_code == 429
    assert http.post(TOKEN, json=right, headers={**server, "sb-forwarded-for": "203.0.113.6"}).status_code == 200


def test_headers_that_claim_another_address_do_not_reset_the_limit_on_guesses(http: httpx.Client, alice: User) -> None:
    wrong = {"email": alice.email, "password": "a guess that fails"}
    claims = [
        dict.fromkeys(("x-forwarded-for", "sb-forwarded-for", "cf-connecting-ip", "x-real-ip"), f"203.0.113.{number}")
        for number in range(14)
    ]
    assert [http.post(TOKEN, json=wrong, headers=claim).status_code for claim in claims][-1] == 429


def test_guessing_a_link_is_stopped(http: httpx.Client, project: Project) -> None:
    origin = {"apikey": project.secret_key, "sb-forwarded-for": "203.0.113.44"}
    bodies = [{"type": "recovery", "token_hash": f"{number:056x}"} for number in range(14)]
    codes = [http.post("/auth/v1/verify", json=body, headers=origin).json()["error_code"] for body in bodies]
    assert (codes[0], codes[-1]) == ("otp_expired", "over_request_rate_limit")


def test_guessing_a_code_is_stopped(http: httpx.Client, alice: User) -> None:
    body = {"type": "recovery", "email": alice.email, "token": "00000000"}
    codes = [http.post("/auth/v1/verify", json=body).json()["error_code"] for _ in range(14)]
    assert (codes[0], codes[-1]) == ("otp_expired", "over_request_rate_limit")


def test_answers_contain_neither_passwords_nor_hashes(http: httpx.Client, alice: User) -> None:
    for done in (
        http.post(TOKEN, json={"email": alice.email, "password": PASSWORD}),
        http.get("/auth/v1/user", headers={"authorization": f"Bearer {alice.token}"}),
        http.post(TOKEN, json={"email": alice.email, "password": "wrong " + PASSWORD}),
    ):
        assert "$2b$" not in done.text
        assert PASSWORD not in done.text
        assert "recovery_token" not in done.text
