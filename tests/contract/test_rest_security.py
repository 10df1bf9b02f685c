"""Permissions: keys, forged tokens, roles, revoked tables, policies."""

import uuid
from collections.abc import Callable

import httpx
import psycopg
import pytest
from joserfc.jwk import ECKey, OctKey
from postgrest import APIError

from stack.auth.tokens import KeyRing
from tests.contract.conftest import Api, User
from tests.contract.tokens import claims, hmac_signed, signed, tampered, unsigned
from tests.support.stack import Project, RunningStack
from tests.support.waiting import wait_until

READ = "/rest/v1/contract_notes"
SERVICE = "/rest/v1/rpc/contract_service"


@pytest.fixture
def sign(project: Project) -> Callable[..., str]:
    """Signs claims with the stack's own key: what a stolen or careless signer could make."""
    if not isinstance(project, RunningStack):
        pytest.skip("only the embedded stack's signing key is at hand")
    issuer = project.settings.auth_issuer
    ring = KeyRing(project.secrets.signing_jwk, project.secrets.jwt_secret, issuer)
    return lambda **changes: ring.sign({**claims(iss=issuer), **changes})


def test_no_key_no_answer(project: Project) -> None:
    done = httpx.get(f"{project.url}{READ}")
    assert done.status_code == 401
    assert done.json()["message"] == "No API key found in request"


@pytest.mark.parametrize("key", ["nonsense", "sb_publishable_wrong", "sb_secret_wrong", "a.b.c", "é", "x" * 5000])
def test_a_wrong_key_gets_nothing(project: Project, key: str) -> None:
    done = httpx.get(f"{project.url}{READ}", headers={b"apikey": key.encode()})
    assert done.status_code == 401
    assert done.json()["message"] == "Invalid API key"


def forged_tokens(alice: User) -> dict[str, str]:
    own = ECKey.generate_key("P-256", private=True)
    kid = alice.token.split(".")[0]
    return {
        "another key": signed(own, "ES256"),
        "another key under our key id": signed(own, "ES256", kid=kid),
        "a shared secret that is not ours": signed(OctKey.generate_key(512), "HS256"),
        "no signature": unsigned(),
        "no signature and postgres": unsigned(role="postgres"),
        "changed claims": tampered(alice.token, role="service_role"),
        "a later end": tampered(alice.token, exp=99999999999),
        "a cut signature": alice.token[:-8],
        "two parts": alice.token.rsplit(".", 1)[0],
        "words": "let me in",
        "empty parts": "..",
    }


def test_a_forged_token_gets_nothing(http: httpx.Client, alice: User) -> None:
    for what, token in forged_tokens(alice).items():
        for path in (READ, SERVICE):
            done = http.get(path, headers={"authorization": f"Bearer {token}"})
            assert (done.status_code, done.json()["code"]) == (401, "PGRST301"), what
            assert "www-authenticate" in done.headers


def test_the_public_key_is_no_shared_secret(http: httpx.Client) -> None:
    """The classic confusion: sign with HS256, using the published key as the secret."""
    jwk = http.get("/auth/v1/.well-known/jwks.json").json()["keys"][0]
    assert "d" not in jwk
    pem = ECKey.import_key(jwk).as_pem(private=False)
    for secret in (jwk["x"].encode(), pem, pem.strip()):
        token = hmac_signed(secret, kid=jwk["kid"])
        assert http.get(SERVICE, headers={"authorization": f"Bearer {token}"}).status_code == 401


def test_an_expired_token_gets_nothing(http: httpx.Client, sign: Callable[..., str]) -> None:
    token = sign(exp=1_700_000_000, iat=1_699_999_000)
    done = http.get(READ, headers={"authorization": f"Bearer {token}"})
    assert (done.status_code, done.json()["code"], done.json()["message"]) == (401, "PGRST303", "JWT expired")
    early = sign(nbf=4_000_000_000)
    assert http.get(READ, headers={"authorization": f"Bearer {early}"}).json()["code"] == "PGRST303"


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("iss", "https://other.example/auth/v1"),
        ("iss", "supabase"),
        ("iss", None),
        ("aud", "others"),
        ("aud", None),
        ("exp", None),
    ],
)
def test_a_token_of_another_origin_or_without_an_end_gets_nothing(
    http: httpx.Client, sign: Callable[..., str], claim: str, value: str | None
) -> None:
    headers = {"authorization": f"Bearer {sign(role='authenticated', **{claim: value})}"}
    done = http.get(READ, headers=headers)
    assert (done.status_code, done.json()["code"]) == (401, "PGRST303")
    assert http.get("/auth/v1/user", headers=headers).json()["error_code"] == "bad_jwt"


@pytest.mark.parametrize(
    "role", ["postgres", "supabase_admin", "authenticator", "supabase_auth_admin", "pg_read_all_data"]
)
def test_even_a_signed_token_becomes_no_other_role(http: httpx.Client, sign: Callable[..., str], role: str) -> None:
    for method, path in (("GET", READ), ("GET", "/rest/v1/contract_locked"), ("POST", SERVICE)):
        done = http.request(method, path, headers={"authorization": f"Bearer {sign(role=role)}"})
        assert (done.status_code, done.json()["code"]) in {(403, "42501"), (401, "22023")}, done.text


@pytest.mark.parametrize("role", ["nobody_at_all", "anon; drop table x", "", "NONE", "none", ["anon"], 7, None])
def test_a_token_with_an_invalid_role_is_refused(http: httpx.Client, sign: Callable[..., str], role: object) -> None:
    done = http.get(READ, headers={"authorization": f"Bearer {sign(role=role)}"})
    assert done.status_code in {400, 401, 403}, done.text
    assert "code" in done.json()


def test_a_token_with_the_role_anon_acts_as_anon(http: httpx.Client, sign: Callable[..., str]) -> None:
    done = http.post("/rest/v1/rpc/contract_request", json={}, headers={"authorization": f"Bearer {sign(role='anon')}"})
    assert done.json()["role"] == "anon"


def test_a_runner_has_a_role_and_settings_of_its_own(http: httpx.Client, sign: Callable[..., str]) -> None:
    headers = {"authorization": f"Bearer {sign(role='worker', sid='s', org=None)}"}
    told = http.post("/rest/v1/rpc/contract_request", json={}, headers=headers).json()
    assert (told["role"], told["claims"]["sid"], told["timeout"]) == ("worker", "s", "15s")
    assert http.get("/rest/v1/contract_locked", headers=headers).status_code == 403


def test_anon_reads_no_notes_and_calls_no_service_function(anon: Api, http: httpx.Client) -> None:
    with pytest.raises(APIError) as table:
        anon.table("contract_notes").select("*").execute()
    assert table.value.code == "42501"
    with pytest.raises(APIError) as function:
        anon.rpc("contract_service").execute()
    assert function.value.code == "42501"
    assert http.get(READ).status_code == 401


def test_the_secret_key_serves(admin: Api, alice: User) -> None:
    assert admin.rpc("contract_service").execute().data == "served"
    with pytest.raises(APIError) as refused:
        alice.client.rpc("contract_service").execute()
    assert refused.value.code == "42501"


def test_a_right_that_one_role_has_does_not_rub_off(project: Project, admin: Api, alice: User) -> None:
    """The same call in turn by those who may and those who may not, on every connection of the pool."""
    keys = [({"apikey": project.secret_key}, 200), ({"apikey": project.publishable_key}, 401)]
    keys.append(({"apikey": project.publishable_key, "authorization": f"Bearer {alice.token}"}, 403))
    with httpx.Client(base_url=project.url) as client:
        for turn in range(90):
            headers, status = keys[turn % 3]
            assert client.post(SERVICE, json={}, headers=headers).status_code == status


def test_a_users_token_counts_more_than_the_secret_key(project: Project, alice: User) -> None:
    headers = {"apikey": project.secret_key, "authorization": f"Bearer {alice.token}"}
    told = httpx.post(f"{project.url}/rest/v1/rpc/contract_request", json={}, headers=headers).json()
    assert (told["role"], told["claims"]["sub"]) == ("authenticated", alice.id)


def test_notes_are_their_owners_alone(alice: User, bob: User, db: psycopg.Connection) -> None:
    db.execute("insert into public.contract_notes (owner_id, body) values (%s, 'mine')", [alice.id])
    assert bob.client.table("contract_notes").select("*").execute().data == []
    assert alice.client.table("contract_notes").select("body").execute().data == [{"body": "mine"}]
    assert alice.client.rpc("contract_note", {"p_owner": alice.id}).execute().data > 0
    with pytest.raises(APIError) as refused:
        bob.client.rpc("contract_note", {"p_owner": alice.id}).execute()
    assert refused.value.code == "42501"


def test_a_revoked_table_stays_revoked(anon: Api, admin: Api, alice: User) -> None:
    for client in (anon, alice.client, admin):
        with pytest.raises(APIError) as refused:
            client.table("contract_locked").select("*").execute()
        assert refused.value.code == "42501"


def test_row_security_applies_from_the_moment_it_is_enabled(
    http: httpx.Client, db: psycopg.Connection, project: Project
) -> None:
    db.execute("drop table if exists public.contract_fresh")
    db.execute("create table public.contract_fresh as select 1 as id")
    db.execute("grant select on public.contract_fresh to anon")
    try:
        path = "/rest/v1/contract_fresh"
        wait_until(lambda: http.get(path).status_code == 200)
        assert http.get(path).json() == [{"id": 1}]
        db.execute("alter table public.contract_fresh enable row level security")
        assert http.get(path).json() == []
        db.execute("revoke select on public.contract_fresh from anon")
        assert http.get(path).status_code == 401
    finally:
        db.execute("drop table public.contract_fresh")


def test_schemas_that_are_not_exposed_cannot_be_reached(http: httpx.Client, project: Project) -> None:
    secret = {"apikey": project.secret_key}
    for schema in ("auth", "private", "contract_hidden", "pg_catalog", "information_schema"):
        done = http.get("/rest/v1/users", headers={**secret, "accept-profile": schema})
        assert (done.status_code, done.json()["code"]) == (406, "PGRST106")
    for path in ("auth.users", "pg_class", "pg_catalog.pg_class", '"auth"."users"', "../auth/v1/admin/users"):
        assert http.get(f"/rest/v1/{path}", headers=secret).status_code in {401, 404}


@pytest.mark.parametrize(
    "query",
    [
        "select=name);drop table public.contract_places;--",
        "name=eq.x');drop table public.contract_places;--",
        'order=name"; drop table public.contract_places; --',
        "select=name::text);drop table public.contract_places",
        'select=x:name"; drop table public.contract_places',
        "name'=eq.1",
        "meta->>'=eq.1",
        "limit=1;drop table public.contract_places",
    ],
)
def test_sql_in_any_place_stays_text(http: httpx.Client, places: dict[str, uuid.UUID], query: str) -> None:
    assert http.get(f"/rest/v1/contract_places?{query}").status_code in {200, 400, 501}
    assert len(http.get("/rest/v1/contract_places").json()) == 3


def test_credentials_are_not_given_to_the_database(http: httpx.Client, alice: User) -> None:
    headers = {"authorization": f"Bearer {alice.token}"}
    told = http.post("/rest/v1/rpc/contract_request", json={}, headers=headers)
    assert alice.token not in told.text
    assert "apikey" not in told.json()["headers"]
