"""Refresh tokens: rotation, the lost answer, reuse, and many at once."""

import concurrent.futures
import hashlib
import secrets

import httpx
import psycopg
import pytest

from tests.contract.conftest import PASSWORD, Api, User


def refresh(http: httpx.Client, token: str) -> httpx.Response:
    return http.post("/auth/v1/token?grant_type=refresh_token", json={"refresh_token": token})


@pytest.fixture
def first(http: httpx.Client, alice: User) -> str:
    body = {"email": alice.email, "password": PASSWORD}
    return str(http.post("/auth/v1/token?grant_type=password", json=body).json()["refresh_token"])


def age(db: psycopg.Connection, *tokens: str) -> None:
    """Move the tokens past their reuse interval."""
    query = "update auth.refresh_tokens set updated_at = now() - interval '1 minute' where token = any(%s)"
    hashes = [hashlib.sha256(token.encode()).hexdigest() for token in tokens]
    db.execute(query, [[*tokens, *hashes]])


def test_each_refresh_gives_the_next_token(http: httpx.Client, alice: User, first: str) -> None:
    found = refresh(http, first).json()
    assert found["refresh_token"] != first
    assert found["user"]["id"] == alice.id
    again = refresh(http, found["refresh_token"]).json()
    assert again["refresh_token"] not in {first, found["refresh_token"]}
    headers = {"authorization": f"Bearer {again['access_token']}"}
    assert http.get("/auth/v1/user", headers=headers).json()["id"] == alice.id


def test_a_lost_answer_is_given_again(http: httpx.Client, db: psycopg.Connection, first: str) -> None:
    second = refresh(http, first).json()["refresh_token"]
    age(db, first)
    assert refresh(http, first).json()["refresh_token"] == second
    assert refresh(http, second).status_code == 200


def test_an_older_token_ends_the_family(http: httpx.Client, db: psycopg.Connection, first: str) -> None:
    second = refresh(http, first).json()["refresh_token"]
    third = refresh(http, second).json()
    age(db, first, second)
    stolen = refresh(http, first)
    assert (stolen.status_code, stolen.json()["error_code"]) == (400, "refresh_token_already_used")
    # As GoTrue has it: the newest was revoked just now, and its own reuse interval begins.
    newest = refresh(http, third["refresh_token"])
    assert newest.status_code == 200
    age(db, third["refresh_token"])
    for token in (first, second, third["refresh_token"]):
        done = refresh(http, token)
        assert (done.status_code, done.json()["error_code"]) == (400, "refresh_token_already_used")
    # An issued token stays valid until it expires, as on hosted.
    headers = {"authorization": f"Bearer {third['access_token']}"}
    assert http.post("/rest/v1/rpc/contract_request", json={}, headers=headers).json()["role"] == "authenticated"


def test_within_the_interval_an_older_token_still_serves(http: httpx.Client, first: str) -> None:
    second = refresh(http, first).json()["refresh_token"]
    assert refresh(http, second).status_code == 200
    assert refresh(http, first).status_code == 200


def test_many_refreshes_at_once_agree(http: httpx.Client, first: str) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: refresh(http, first), range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    assert len({answer.json()["refresh_token"] for answer in answers}) == 1


@pytest.mark.parametrize("token", ["", "nonsense", "x" * 300, None, 7, ["a"], "a\x00b"])
def test_an_invalid_refresh_token_is_refused(http: httpx.Client, token: object) -> None:
    done = http.post("/auth/v1/token?grant_type=refresh_token", json={"refresh_token": token})
    assert done.status_code == 400
    assert done.json()["error_code"] == "validation_failed"


def test_an_unknown_refresh_token_is_refused(http: httpx.Client) -> None:
    done = refresh(http, secrets.token_urlsafe(24))
    assert done.status_code == 400
    assert done.json()["error_code"] in {"refresh_token_not_found", "validation_failed"}


def test_a_deleted_or_banned_users_token_ends(http: httpx.Client, alice: User, admin: Api, first: str) -> None:
    admin.auth.admin.update_user_by_id(alice.id, {"ban_duration": "24h"})
    assert refresh(http, first).json()["error_code"] == "user_banned"
    admin.auth.admin.update_user_by_id(alice.id, {"ban_duration": "none"})
    assert refresh(http, first).status_code == 200
