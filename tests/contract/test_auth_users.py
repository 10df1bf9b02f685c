"""Accounts with the real client: sign up, sign in, look, change, leave."""

import uuid
from collections.abc import Iterator
from urllib.parse import parse_qsl

import httpx
import pytest
from supabase_auth.errors import AuthApiError, AuthSessionMissingError, AuthWeakPasswordError

from stack.auth.outbox import Outbox
from supabase import create_client
from tests.contract.conftest import PASSWORD, Api, User, quiet
from tests.contract.tokens import assert_refused_in_rest
from tests.support.stack import Project, RunningStack


@pytest.fixture
def email(admin: Api) -> Iterator[str]:
    """An address whose account, if one comes to be, is removed."""
    address = f"contract-{uuid.uuid4().hex[:12]}@example.com"
    yield address
    for user in admin.auth.admin.list_users(page=1, per_page=1000):
        if user.email == address:
            admin.auth.admin.delete_user(user.id)


def test_sign_up_opens_a_session(anon: Api, email: str) -> None:
    made = anon.auth.sign_up({"email": email.upper(), "password": PASSWORD, "options": {"data": {"name": "Ada"}}})
    assert made.user.email == email
    assert made.user.user_metadata["name"] == "Ada"
    assert made.user.app_metadata == {"provider": "email", "providers": ["email"]}
    assert made.user.identities[0].provider == "email"
    assert made.session.expires_in == 3600
    told = anon.rpc("contract_request").execute().data
    assert (told["role"], told["claims"]["sub"]) == ("authenticated", made.user.id)


def test_a_second_sign_up_with_the_same_address_is_refused(anon: Api, alice: User) -> None:
    with pytest.raises(AuthApiError) as refused:
        anon.auth.sign_up({"email": alice.email, "password": PASSWORD})
    assert (refused.value.status, refused.value.code) == (422, "user_already_exists")


def test_a_weak_password_is_refused(anon: Api, email: str) -> None:
    with pytest.raises(AuthWeakPasswordError) as refused:
        anon.auth.sign_up({"email": email, "password": "short"})
    assert (refused.value.status, refused.value.reasons) == (422, ["length"])


@pytest.mark.parametrize("password", ["12345678", "password", "qwertyuiop", "Password1"])
def test_a_common_password_is_refused(project: Project, anon: Api, alice: User, email: str, password: str) -> None:
    if not isinstance(project, RunningStack):
        pytest.skip("hosted has a service for it, which a project may have turned off")
    with pytest.raises(AuthWeakPasswordError) as refused:
        anon.auth.sign_up({"email": email, "password": password})
    assert (refused.value.status, refused.value.reasons) == (422, ["pwned"])
    assert "most common" in refused.value.message
    with pytest.raises(AuthWeakPasswordError):
        alice.client.auth.update_user({"password": password})


def test_sign_in_by_password(anon: Api, alice: User) -> None:
    found = anon.auth.sign_in_with_password({"email": alice.email, "password": PASSWORD})
    assert found.user.id == alice.id
    assert found.user.last_sign_in_at is not None
    claims = anon.auth.get_claims()["claims"]
    assert claims["sub"] == alice.id
    assert claims["aud"] == claims["role"] == "authenticated"
    assert claims["aal"] == "aal1"
    assert claims["amr"][0]["method"] == "password"
    assert claims["iss"].endswith("/auth/v1")
    assert uuid.UUID(claims["session_id"])


def test_a_wrong_password_and_an_unknown_address_get_the_same_answer(anon: Api, alice: User) -> None:
    answers = []
    for address in (alice.email, "nobody-here@example.com"):
        with pytest.raises(AuthApiError) as refused:
            anon.auth.sign_in_with_password({"email": address, "password": "not the password"})
        answers.append((refused.value.status, refused.value.code, refused.value.message))
    assert answers == [(400, "invalid_credentials", "Invalid login credentials")] * 2


def test_a_user_is_shown_to_themselves(alice: User) -> None:
    shown = alice.client.auth.get_user().user
    assert (shown.id, shown.email, shown.role) == (alice.id, alice.email, "authenticated")
    assert shown.email_confirmed_at is not None


def test_metadata_is_merged_and_grants_no_rights(alice: User) -> None:
    alice.client.auth.update_user({"data": {"name": "Ada", "theme": "dark"}})
    changed = alice.client.auth.update_user({"data": {"theme": None, "role": "admin"}}).user
    assert changed.user_metadata == {"name": "Ada", "role": "admin", "email_verified": True}
    assert changed.app_metadata == {"provider": "email", "providers": ["email"]}
    assert changed.role == "authenticated"


def test_role_and_audience_in_a_users_own_change_are_ignored(http: httpx.Client, alice: User) -> None:
    headers = {"authorization": f"Bearer {alice.token}"}
    body = {"role": "service_role", "aud": "x", "email_confirmed_at": None}
    shown = http.put("/auth/v1/user", json=body, headers=headers).json()
    assert (shown["role"], shown["aud"]) == ("authenticated", "authenticated")


def test_a_new_password_replaces_the_old_and_ends_other_sessions(project: Project, alice: User) -> None:
    other: Api = create_client(project.url, project.publishable_key, quiet())
    other.auth.sign_in_with_password({"email": alice.email, "password": PASSWORD})
    with pytest.raises(AuthApiError) as same:
        alice.client.auth.update_user({"password": PASSWORD})
    assert same.value.code == "same_password"
    alice.client.auth.update_user({"password": "another horse staple"})
    with pytest.raises(AuthApiError):
        other.auth.refresh_session()
    assert alice.client.auth.get_user().user.id == alice.id
    with pytest.raises(AuthApiError):
        other.auth.sign_in_with_password({"email": alice.email, "password": PASSWORD})
    again = other.auth.sign_in_with_password({"email": alice.email, "password": "another horse staple"})
    assert again.user.id == alice.id


def test_a_new_password_ends_the_tokens_of_other_sessions_at_once(
    project: Project, http: httpx.Client, alice: User
) -> None:
    if not isinstance(project, RunningStack):
        pytest.skip("on hosted, an access token lasts until it expires")
    other: Api = create_client(project.url, project.publishable_key, quiet())
    stale = other.auth.sign_in_with_password({"email": alice.email, "password": PASSWORD}).session.access_token

    def role_of(token: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"}
        return http.post("/rest/v1/rpc/contract_request", json={}, headers=headers)

    assert role_of(stale).json()["role"] == "authenticated"
    alice.client.auth.update_user({"password": "another horse staple"})
    refused = role_of(stale)
    assert refused.json()["code"] == "PGRST303"
    assert_refused_in_rest(http, project, stale)
    assert "invalid_token" in refused.headers["www-authenticate"]
    assert role_of(alice.token).json()["role"] == "authenticated"


def test_an_address_can_be_changed_but_not_to_anothers(alice: User, bob: User) -> None:
    with pytest.raises(AuthApiError) as taken:
        alice.client.auth.update_user({"email": bob.email})
    assert taken.value.code == "email_exists"
    address = f"new-{alice.email}"
    changed = alice.client.auth.update_user({"email": address}).user
    assert address in (changed.email, changed.new_email)


def test_a_new_address_counts_once_both_have_confirmed(project: Project, anon: Api, alice: User) -> None:
    if not isinstance(project, RunningStack):
        pytest.skip("only the embedded stack keeps its mails")
    address = f"new-{alice.email}"
    changed = alice.client.auth.update_user({"email": address}).user
    assert (changed.email, changed.new_email) == (alice.email, address)
    role = "supabase_auth_admin"
    outbox = project.settings.database_url(role, project.secrets.password(role))
    mails = {mail.email: mail for mail in Outbox(project.secrets.jwt_secret).recent(outbox)[:2]}
    assert set(mails) == {alice.email, address}
    links = {email: dict(parse_qsl(mail.link.partition("?")[2]))["token_hash"] for email, mail in mails.items()}
    verify = f"{project.url}/auth/v1/verify"
    headers = {"apikey": project.publishable_key}
    first = httpx.post(verify, json={"type": "email_change", "token_hash": links[address]}, headers=headers)
    assert first.status_code == 200
    assert "access_token" not in first.json()
    again = httpx.post(verify, json={"type": "email_change", "token_hash": links[address]}, headers=headers)
    assert again.json()["error_code"] == "otp_expired"
    assert alice.client.auth.get_user().user.email == alice.email
    code = {"type": "email_change", "email": alice.email, "token": mails[alice.email].code}
    assert httpx.post(verify, json=code, headers=headers).json()["user"]["email"] == address
    assert anon.auth.sign_in_with_password({"email": address, "password": PASSWORD}).user.id == alice.id


@pytest.mark.parametrize(("scope", "survivors"), [("local", [1]), ("others", [0]), ("global", [])])
def test_signing_out_ends_the_sessions_of_its_scope(
    project: Project, alice: User, scope: str, survivors: list[int]
) -> None:
    clients: list[Api] = [create_client(project.url, project.publishable_key, quiet()) for _ in range(2)]
    tokens = []
    for client in clients:
        found = client.auth.sign_in_with_password({"email": alice.email, "password": PASSWORD})
        assert found.session is not None
        tokens.append((found.session.access_token, found.session.refresh_token))
    clients[0].auth.sign_out({"scope": scope})
    with httpx.Client(base_url=project.url, headers={"apikey": project.publishable_key}) as http:
        alive = [n for n, (token, _) in enumerate(tokens) if _user(http, token).status_code == 200]
        renewable = [n for n, (_, token) in enumerate(tokens) if _refresh(http, token).status_code == 200]
    assert alive == renewable == survivors


def test_an_ended_session_is_named(project: Project, http: httpx.Client, alice: User) -> None:
    token = alice.token
    alice.client.auth.sign_out()
    done = _user(http, token)
    assert (done.status_code, done.json()["error_code"]) == (403, "session_not_found")
    assert_refused_in_rest(http, project, token)


def _user(http: httpx.Client, token: str) -> httpx.Response:
    return http.get("/auth/v1/user", headers={"authorization": f"Bearer {token}"})


def _refresh(http: httpx.Client, token: str) -> httpx.Response:
    return http.post("/auth/v1/token?grant_type=refresh_token", json={"refresh_token": token})


def test_a_request_without_a_session_gets_no_account(anon: Api, http: httpx.Client) -> None:
    with pytest.raises(AuthSessionMissingError):
        anon.auth.update_user({"data": {}})
    done = http.get("/auth/v1/user")
    assert (done.status_code, done.json()["error_code"]) == (403, "bad_jwt")


def test_settings_and_health(http: httpx.Client) -> None:
    settings = http.get("/auth/v1/settings").json()
    assert settings["external"]["email"] is True
    assert settings["disable_signup"] is False
    assert http.get("/auth/v1/health").json()["name"] == "GoTrue"


def test_errors_have_both_shapes(http: httpx.Client) -> None:
    body = {"email": "nobody-here@example.com", "password": "wrong password"}
    old = http.post("/auth/v1/token?grant_type=password", json=body)
    assert old.json() == {"code": 400, "error_code": "invalid_credentials", "msg": "Invalid login credentials"}
    new = http.post("/auth/v1/token?grant_type=password", json=body, headers={"x-supabase-api-version": "2024-01-01"})
    assert new.json() == {"code": "invalid_credentials", "message": "Invalid login credentials"}
    assert new.headers["x-supabase-api-version"] == "2024-01-01"
