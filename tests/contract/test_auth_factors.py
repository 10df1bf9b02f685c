"""Two-step sign-in with the real client's `auth.mfa`: add, confirm, require, remove, and refusals."""

import uuid
from typing import Any

import httpx
import psycopg
import pytest
from supabase_auth.errors import AuthApiError

from supabase import create_client
from tests.contract.conftest import PASSWORD, Api, User, quiet
from tests.support.authenticator import Authenticator
from tests.support.stack import Project, RunningStack

NOBODYS = "5b0a7a52-0000-4000-8000-0000000000ff"


def enrol(user: User, name: str = "phone") -> tuple[str, Authenticator]:
    made = user.client.auth.mfa.enroll({"factor_type": "totp", "friendly_name": name, "issuer": "Runyard"})
    return made.id, Authenticator(made.totp.secret)


def confirm(client: Api, factor: str, code: str) -> Any:
    return client.auth.mfa.challenge_and_verify({"factor_id": factor, "code": code})


def level(client: Api) -> tuple[str, str]:
    found = client.auth.mfa.get_authenticator_assurance_level()
    return found.current_level, found.next_level


def signed_in(project: Project, user: User) -> Api:
    client: Api = create_client(project.url, project.publishable_key, quiet())
    client.auth.sign_in_with_password({"email": user.email, "password": PASSWORD})
    return client


def refused(call: Any) -> tuple[int, str]:
    with pytest.raises(AuthApiError) as error:
        call()
    return error.value.status, str(error.value.code)


def test_an_app_is_added_confirmed_and_required_at_the_next_sign_in(project: Project, alice: User) -> None:
    made = alice.client.auth.mfa.enroll({"factor_type": "totp", "friendly_name": "phone", "issuer": "Runyard"})
    assert made.totp.qr_code.startswith("data:image/svg+xml;utf-8,<svg")
    assert made.totp.uri.startswith(f"otpauth://totp/Runyard:{alice.email}?")
    assert [factor.status for factor in alice.client.auth.mfa.list_factors().all] == ["unverified"]
    assert level(alice.client) == ("aal1", "aal1")
    app = Authenticator(made.totp.secret)
    assert confirm(alice.client, made.id, app.code()).user.factors[0].status == "verified"
    assert level(alice.client) == ("aal2", "aal2")
    assert [factor.id for factor in alice.client.auth.mfa.list_factors().totp] == [made.id]
    later = signed_in(project, alice)
    assert level(later) == ("aal1", "aal2")
    confirm(later, made.id, app.code())
    claims = later.auth.get_claims()["claims"]
    assert (claims["aal"], [entry["method"] for entry in claims["amr"]]) == ("aal2", ["totp", "password"])
    later.auth.refresh_session()
    assert later.auth.get_claims()["claims"]["aal"] == "aal2"


def test_a_code_serves_once_and_a_wrong_one_never(project: Project, alice: User) -> None:
    factor, app = enrol(alice)
    assert refused(lambda: confirm(alice.client, factor, app.wrong())) == (422, "mfa_verification_failed")
    used = app.code()
    confirm(alice.client, factor, used)
    assert refused(lambda: confirm(signed_in(project, alice), factor, used)) == (422, "mfa_verification_failed")
    for code in ("", "12345", "1234567", "abcdef", "１２３４５６"):
        assert refused(lambda code=code: confirm(alice.client, factor, code)) == (422, "mfa_verification_failed")


def test_guessing_codes_is_stopped_wherever_it_comes_from(project: Project, alice: User) -> None:
    factor, app = enrol(alice)
    # Attempts are granted again with time, one in half a minute: a slow machine needs more of them, never many.
    said = [refused(lambda: confirm(alice.client, factor, app.wrong())) for _ in range(20)]
    assert said[0] == (422, "mfa_verification_failed")
    assert (429, "over_request_rate_limit") in said[10:]


def test_confirming_ends_sessions_that_gave_one_factor_alone(project: Project, alice: User) -> None:
    other = signed_in(project, alice)
    factor, app = enrol(alice)
    confirm(alice.client, factor, app.code())
    assert refused(other.auth.get_user)[1] == "session_not_found"
    assert refused(other.auth.refresh_session)[0] == 400


def test_one_factor_alone_changes_neither_factors_nor_password(project: Project, alice: User) -> None:
    factor, app = enrol(alice)
    confirm(alice.client, factor, app.code())
    half = signed_in(project, alice)
    assert refused(lambda: half.auth.mfa.enroll({"factor_type": "totp", "friendly_name": "two"})) == (
        403,
        "insufficient_aal",
    )
    assert refused(lambda: half.auth.mfa.unenroll({"factor_id": factor})) == (422, "insufficient_aal")
    for change in ({"password": "another horse staple"}, {"email": f"{uuid.uuid4().hex[:8]}@example.com"}):
        assert refused(lambda change=change: half.auth.update_user(change)) == (401, "insufficient_aal")
    half.auth.update_user({"data": {"name": "Ada"}})
    alice.client.auth.update_user({"password": "another horse staple"})


def test_a_removed_factor_is_no_longer_required(project: Project, alice: User) -> None:
    factor, app = enrol(alice)
    confirm(alice.client, factor, app.code())
    assert alice.client.auth.mfa.unenroll({"factor_id": factor}).id == factor
    alice.client.auth.refresh_session()
    assert level(alice.client) == ("aal1", "aal1")
    assert level(signed_in(project, alice)) == ("aal1", "aal1")


def test_somebody_elses_factor_is_not_found(alice: User, bob: User) -> None:
    factor, app = enrol(alice)
    for call in (
        lambda: bob.client.auth.mfa.challenge({"factor_id": factor}),
        lambda: bob.client.auth.mfa.unenroll({"factor_id": factor}),
        lambda: confirm(bob.client, factor, app.code()),
    ):
        assert refused(call) == (404, "mfa_factor_not_found")


def test_a_challenge_is_for_its_factor_and_for_one_code(alice: User) -> None:
    factor, app = enrol(alice)
    other, _ = enrol(alice, "tablet")
    challenge = alice.client.auth.mfa.challenge({"factor_id": other})
    given = {"factor_id": factor, "challenge_id": challenge.id, "code": app.code()}
    assert refused(lambda: alice.client.auth.mfa.verify(given))[0] == 404
    mine = alice.client.auth.mfa.challenge({"factor_id": factor})
    given = {"factor_id": factor, "challenge_id": mine.id, "code": app.code()}
    alice.client.auth.mfa.verify(given)
    assert refused(lambda: alice.client.auth.mfa.verify(given)) == (422, "mfa_challenge_expired")
    assert [found.id for found in alice.client.auth.mfa.list_factors().all] == [factor]


def test_factor_names_are_unique_and_ten_factors_are_the_limit(alice: User) -> None:
    enrol(alice, "phone")
    assert refused(lambda: enrol(alice, "phone")) == (422, "mfa_factor_name_conflict")
    for number in range(9):
        enrol(alice, f"phone {number}")
    assert refused(lambda: enrol(alice, "one more")) == (422, "too_many_enrolled_mfa_factors")


def test_the_secret_key_removes_a_lost_device(admin: Api, project: Project, alice: User) -> None:
    factor, app = enrol(alice)
    confirm(alice.client, factor, app.code())
    assert [found.id for found in admin.auth.admin.mfa.list_factors({"user_id": alice.id})] == [factor]
    admin.auth.admin.mfa.delete_factor({"user_id": alice.id, "id": factor})
    assert level(signed_in(project, alice)) == ("aal1", "aal1")


BODIES: list[tuple[Any, int]] = [
    ({}, 400), ({"factor_type": "x"}, 400), ({"factor_type": 7}, 400), ({"factor_type": "phone"}, 501),
    ({"factor_type": "totp", "friendly_name": 7}, 400), ({"factor_type": "totp", "friendly_name": "x" * 101}, 400),
    ({"factor_type": "totp", "issuer": "a\x00b"}, 400), ([], 400),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status"), BODIES)
def test_invalid_and_unsupported_factors_are_refused(http: httpx.Client, alice: User, body: Any, status: int) -> None:
    done = http.post("/auth/v1/factors", json=body, headers={"authorization": f"Bearer {alice.token}"})
    assert done.status_code == status, done.text
    assert done.json()["msg"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "factors/x/challenge", 404), ("POST", "factors/%00/verify", 404), ("GET", "factors", 405),
     ("GET", f"factors/{NOBODYS}", 405), ("POST", f"factors/{NOBODYS}/nope", 404),
     ("POST", f"factors/{NOBODYS}/verify", 400)],
)  # fmt: skip
def test_unknown_factors_paths_and_methods_are_refused(
    http: httpx.Client, alice: User, method: str, path: str, status: int
) -> None:
    headers = {"authorization": f"Bearer {alice.token}"}
    done = http.request(method, f"/auth/v1/{path}", headers=headers, json={} if method == "POST" else None)
    assert done.status_code == status, done.text


def test_nobody_without_a_session_has_factors(http: httpx.Client) -> None:
    assert http.post("/auth/v1/factors", json={"factor_type": "totp"}).status_code == 403


def test_nobody_can_read_the_secret_of_a_factor(
    project: Project, http: httpx.Client, alice: User, db: psycopg.Connection[tuple[Any, ...]]
) -> None:
    factor, app = enrol(alice)
    shown = http.get("/auth/v1/user", headers={"authorization": f"Bearer {alice.token}"}).text
    assert factor in shown
    assert app.secret not in shown
    for role in ("anon", "authenticated", "service_role"):
        asked = "select has_table_privilege(%s, 'auth.mfa_factors', 'select')"
        assert db.execute(asked, [role]).fetchone() == (False,)
    if isinstance(project, RunningStack):
        kept = db.execute("select secret from auth.mfa_factors where id = %s", [factor]).fetchone()
        assert kept is not None
        assert app.secret not in kept[0]
