"""No secret in any log of the stack, whatever was requested of it."""

from pathlib import Path

import httpx
import psycopg
import pytest

from tests.contract.conftest import PASSWORD, Api, User
from tests.support.stack import Project, RunningStack


def _exercise(http: httpx.Client, admin: Api, alice: User) -> set[str]:
    """Good and bad requests with credentials in every place; the secrets that were seen."""
    headers = {"authorization": f"Bearer {alice.token}"}
    good = http.post("/auth/v1/token?grant_type=password", json={"email": alice.email, "password": PASSWORD}).json()
    http.post("/auth/v1/token?grant_type=refresh_token", json={"refresh_token": good["refresh_token"]})
    http.post("/auth/v1/token?grant_type=password", json={"email": alice.email, "password": "Wrong-0-secret"})
    http.put("/auth/v1/user", json={"password": "New-0-secret-word"}, headers=headers)
    http.post("/auth/v1/recover", json={"email": alice.email})
    link = admin.auth.admin.generate_link({"type": "recovery", "email": alice.email}).properties
    http.post("/auth/v1/verify", json={"type": "recovery", "token_hash": link.hashed_token + "0"})
    http.get("/rest/v1/contract_places?score=eq.many", headers=headers)
    http.post("/rest/v1/rpc/contract_fail", json={"p_code": "XX000", "p_message": "m"}, headers=headers)
    http.post("/rest/v1/contract_places", content=b"{", headers=headers)
    http.get("/functions/v1/no-such-function", headers=headers)
    seen = {alice.token, good["access_token"], good["refresh_token"], link.hashed_token, link.email_otp}
    return seen | {PASSWORD, "Wrong-0-secret", "New-0-secret-word"}


def test_logs_contain_no_secret(project: Project, http: httpx.Client, admin: Api, alice: User) -> None:
    if not isinstance(project, RunningStack):
        pytest.skip("only the embedded stack's logs are at hand")
    secrets = project.secrets
    seen = _exercise(http, admin, alice)
    seen |= {secrets.secret_key, secrets.jwt_secret, secrets.signing_jwk["d"], *secrets.database_passwords.values()}
    logs = [project.log, *project.settings.log_folder.rglob("*")]
    texts = {path: path.read_text(errors="replace") for path in logs if Path(path).is_file()}
    assert texts
    found = {(path.name, secret[:6]) for path, text in texts.items() for secret in seen if secret in text}
    assert found == set()


def test_error_answers_contain_no_database_address_traceback_or_secret_key(
    http: httpx.Client, project: Project
) -> None:
    for done in (
        http.get("/rest/v1/nope"),
        http.post("/rest/v1/rpc/contract_fail", json={"p_code": "XX000"}),
        http.get("/auth/v1/nope"),
        http.get("/nowhere"),
    ):
        assert "postgresql://" not in done.text
        assert "Traceback" not in done.text
        assert project.secret_key not in done.text


def test_the_database_stores_no_usable_credential(
    http: httpx.Client, admin: Api, alice: User, db: psycopg.Connection[tuple[str]]
) -> None:
    """Tokens, links, codes and passwords are hashes or sealed, in every column of the tables of Auth."""
    seen = {text for text in _exercise(http, admin, alice) if len(text) > 8}
    tables = db.execute(
        "select quote_ident(relname) from pg_class where relnamespace = 'auth'::regnamespace and relkind = 'r'"
    ).fetchall()
    assert len(tables) > 3
    kept = "\n".join(
        row[0] for (table,) in tables for row in db.execute(f"select t::text from auth.{table} as t").fetchall()
    )
    assert alice.email in kept
    assert [text[:4] for text in seen if text in kept] == []
