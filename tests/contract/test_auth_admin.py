"""Acts that only the holder of the secret key may do."""

import hashlib
import uuid
from urllib.parse import parse_qsl

import httpx
import psycopg
import pytest
from supabase_auth.errors import AuthApiError

from stack.auth.outbox import Outbox
from supabase import create_client
from tests.contract.conftest import PASSWORD, Api, User, quiet
from tests.contract.tokens import assert_refused_in_rest
from tests.support.stack import Project, RunningStack


def test_a_user_is_made_shown_listed_changed_and_removed(admin: Api) -> None:
    email = f"contract-{uuid.uuid4().hex[:12]}@example.com"
    attributes = {"email": email, "password": PASSWORD, "email_confirm": True}
    attributes |= {"user_metadata": {"name": "Ada"}, "app_metadata": {"plan": "free"}}
    made = admin.auth.admin.create_user(attributes).user
    assert made.app_metadata["plan"] == "free"
    assert admin.auth.admin.get_user_by_id(made.id).user.email == email
    assert made.id in {user.id for user in admin.auth.admin.list_users(page=1, per_page=1000)}
    changed = admin.auth.admin.update_user_by_id(made.id, {"app_metadata": {"plan": None, "x": 1}}).user
    assert changed.app_metadata == {"provider": "email", "providers": ["email"], "x": 1}
    assert changed.user_metadata == {"name": "Ada", "email_verified": True}
    admin.auth.admin.delete_user(made.id)
    with pytest.raises(AuthApiError) as gone:
        admin.auth.admin.get_user_by_id(made.id)
    assert (gone.value.status, gone.value.code) == (404, "user_not_found")


def test_lists_come_in_pages(admin: Api, alice: User, bob: User) -> None:
    pages = [admin.auth.admin.list_users(page=page, per_page=1)[0].id for page in (1, 2)]
    assert pages == [bob.id, alice.id]


def test_a_user_who_is_not_confirmed_cannot_sign_in(admin: Api, anon: Api) -> None:
    email = f"contract-{uuid.uuid4().hex[:12]}@example.com"
    made = admin.auth.admin.create_user({"email": email, "password": PASSWORD}).user
    try:
        with pytest.raises(AuthApiError) as refused:
            anon.auth.sign_in_with_password({"email": email, "password": PASSWORD})
        assert refused.value.code == "email_not_confirmed"
        admin.auth.admin.update_user_by_id(made.id, {"email_confirm": True})
        assert anon.auth.sign_in_with_password({"email": email, "password": PASSWORD}).user.id == made.id
    finally:
        admin.auth.admin.delete_user(made.id)


def test_a_new_password_ends_every_session(admin: Api, alice: User) -> None:
    admin.auth.admin.update_user_by_id(alice.id, {"password": "set by the administrator"})
    with pytest.raises(AuthApiError):
        alice.client.auth.refresh_session()


def test_a_ban_keeps_out_until_it_is_lifted(admin: Api, anon: Api, alice: User) -> None:
    admin.auth.admin.update_user_by_id(alice.id, {"ban_duration": "1h30m"})
    with pytest.raises(AuthApiError) as banned:
        anon.auth.sign_in_with_password({"email": alice.email, "password": PASSWORD})
    assert banned.value.code == "user_banned"
    admin.auth.admin.update_user_by_id(alice.id, {"ban_duration": "none"})
    assert anon.auth.sign_in_with_password({"email": alice.email, "password": PASSWORD}).user.id == alice.id


def test_a_soft_deleted_user_cannot_sign_in_and_the_address_is_free(admin: Api, alice: User, anon: Api) -> None:
    admin.auth.admin.delete_user(alice.id, should_soft_delete=True)
    with pytest.raises(AuthApiError):
        anon.auth.sign_in_with_password({"email": alice.email, "password": PASSWORD})
    again = admin.auth.admin.create_user({"email": alice.email, "password": PASSWORD}).user
    assert again.id != alice.id
    admin.auth.admin.delete_user(again.id)


def test_two_users_cannot_have_the_same_address(admin: Api, alice: User, bob: User) -> None:
    with pytest.raises(AuthApiError) as made:
        admin.auth.admin.create_user({"email": alice.email, "password": PASSWORD})
    assert (made.value.status, made.value.code) == (422, "email_exists")
    with pytest.raises(AuthApiError) as changed:
        admin.auth.admin.update_user_by_id(bob.id, {"email": alice.email})
    assert changed.value.code == "email_exists"


def test_a_session_can_be_ended_from_outside(project: Project, http: httpx.Client, admin: Api, alice: User) -> None:
    admin.auth.admin.sign_out(alice.token)
    with pytest.raises(AuthApiError):
        alice.client.auth.refresh_session()
    assert_refused_in_rest(http, project, alice.token)


def test_a_recovery_link_leads_to_a_new_password(project: Project, admin: Api, alice: User) -> None:
    link = admin.auth.admin.generate_link({"type": "recovery", "email": alice.email})
    assert link.properties.verification_type == "recovery"
    assert link.user.id == alice.id
    client: Api = create_client(project.url, project.publishable_key, quiet())
    found = client.auth.verify_otp({"token_hash": link.properties.hashed_token, "type": "recovery"})
    assert found.user.id == alice.id
    client.auth.update_user({"password": "found again in a drawer"})
    client.auth.sign_in_with_password({"email": alice.email, "password": "found again in a drawer"})
    with pytest.raises(AuthApiError) as used:
        client.auth.verify_otp({"token_hash": link.properties.hashed_token, "type": "recovery"})
    assert used.value.code == "otp_expired"


def test_the_code_serves_instead_of_the_link(anon: Api, admin: Api, alice: User) -> None:
    link = admin.auth.admin.generate_link({"type": "recovery", "email": alice.email})
    params = {"email": alice.email, "token": link.properties.email_otp, "type": "recovery"}
    assert anon.auth.verify_otp(params).user.id == alice.id


def test_a_browser_that_follows_the_link_carries_the_session_home(http: httpx.Client, admin: Api, alice: User) -> None:
    params = {"type": "recovery", "email": alice.email, "options": {"redirect_to": "https://evil.example/steal"}}
    link = admin.auth.admin.generate_link(params).properties.action_link
    done = httpx.get(link)
    assert done.status_code == 303
    assert "evil.example" not in done.headers["location"]
    assert "access_token=" in done.headers["location"]
    again = httpx.get(link)
    assert "error_code=otp_expired" in again.headers["location"]


def test_recovery_answers_the_same_for_every_address(http: httpx.Client, db: psycopg.Connection, alice: User) -> None:
    for email in (alice.email, "nobody-here@example.com"):
        done = http.post("/auth/v1/recover", json={"email": email})
        assert (done.status_code, done.json()) == (200, {})


def test_a_mail_is_kept_instead_of_sent(project: Project, anon: Api, alice: User, bob: User) -> None:
    if not isinstance(project, RunningStack):
        pytest.skip("only the embedded stack keeps its mails")
    auth = "supabase_auth_admin"
    outbox = project.settings.database_url(auth, project.secrets.password(auth))
    page = f"{project.settings.dashboard_url}/reset-password"
    for user, redirect_to, expected in (
        (bob, "https://evil.example/", project.settings.dashboard_url),
        (alice, page, page),
    ):
        anon.auth.reset_password_for_email(user.email, {"redirect_to": redirect_to})
        mail = Outbox(project.secrets.jwt_secret).recent(outbox)[0]
        assert (mail.kind, mail.email) == ("recovery", user.email)
        place, _, query = mail.link.partition("?")
        assert place == expected
    hashed = dict(parse_qsl(query))["token_hash"]
    assert anon.auth.verify_otp({"token_hash": hashed, "type": "recovery"}).user.id == alice.id


def test_nobody_reads_the_outbox_through_the_api(db: psycopg.Connection) -> None:
    query = "select bool_or(has_table_privilege(r, 'auth.runyard_outbox', 'select')) from unnest(%s::text[]) as r"
    roles = ["anon", "authenticated", "service_role", "authenticator"]
    if db.execute("select to_regclass('auth.runyard_outbox')").fetchone() == (None,):
        pytest.skip("only the embedded stack keeps its mails")
    assert db.execute(query, [roles]).fetchone() == (False,)


def test_the_tables_of_auth_contain_no_usable_token_or_code(
    project: Project, http: httpx.Client, admin: Api, alice: User
) -> None:
    if not isinstance(project, RunningStack):
        pytest.skip("only the embedded stack's tables are ours")
    http.post("/auth/v1/recover", json={"email": alice.email})
    body = {"email": alice.email, "password": PASSWORD}
    session = http.post("/auth/v1/token?grant_type=password", json=body).json()
    link = admin.auth.admin.generate_link({"type": "recovery", "email": alice.email}).properties
    role = "supabase_auth_admin"
    with psycopg.connect(project.settings.database_url(role, project.secrets.password(role))) as connection:
        tables = [name for (name,) in connection.execute("select tablename from pg_tables where schemaname = 'auth'")]
        rows = [row for name in tables for row in connection.execute(f"select t::text from auth.{name} as t")]
    for secret in (session["refresh_token"], link.hashed_token, link.email_otp):
        assert not any(secret in text for (text,) in rows)


def test_the_link_cannot_be_made_of_the_code(http: httpx.Client, admin: Api, alice: User) -> None:
    link = admin.auth.admin.generate_link({"type": "recovery", "email": alice.email}).properties
    assert len(link.hashed_token) >= 43
    guess = hashlib.sha224((alice.email + link.email_otp).encode()).hexdigest()
    done = http.post("/auth/v1/verify", json={"type": "recovery", "token_hash": guess})
    assert (done.status_code, done.json()["error_code"]) == (403, "otp_expired")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "users"),
        ("POST", "users"),
        ("GET", "users/00000000-0000-0000-0000-000000000000"),
        ("PUT", "users/00000000-0000-0000-0000-000000000000"),
        ("DELETE", "users/00000000-0000-0000-0000-000000000000"),
        ("POST", "generate_link"),
    ],
)
def test_only_the_secret_key_administers(project: Project, alice: User, method: str, path: str) -> None:
    url = f"{project.url}/auth/v1/admin/{path}"
    key = {"apikey": project.publishable_key}
    for headers in (key, {**key, "authorization": f"Bearer {alice.token}"}):
        done = httpx.request(method, url, headers=headers)
        assert (done.status_code, done.json()["error_code"]) == (403, "not_admin")
    bearer = {"apikey": project.secret_key, "authorization": f"Bearer {alice.token}"}
    assert httpx.request(method, url, headers=bearer).status_code == 403
    assert httpx.request(method, url).status_code == 401
