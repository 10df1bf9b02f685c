"""service-account-token: a person's own token becomes a login that acts as that person, and Auth does not accept it."""

import uuid
from hashlib import sha256
from typing import Any

import httpx
import pytest

from tests.integration.edge.conftest import Edge
from tests.integration.edge.people import Person
from tests.integration.edge.test_edge_functions_session import claims_of
from wire.tokens import make_personal_token

GRANT = "urn:runyard:grant-type:personal-token"


def make(person: Person) -> tuple[str, dict[str, Any]]:
    token = make_personal_token()
    assert token.hash == sha256(token.text.encode()).hexdigest()
    given = {"p_name": "laptop", "p_token_hash": token.hash, "p_hint": token.hint}
    return token.text, person.rpc("create_personal_token", **given)


def test_a_token_becomes_a_login_of_ten_minutes_until_it_is_revoked(edge: Edge, person: Person) -> None:
    token, made = make(person)
    body = {"grant_type": GRANT, "token": token}
    granted = edge.post("service-account-token", body)
    assert granted.status_code == 200, granted.text
    said = granted.json()
    claims = claims_of(said["access_token"])
    assert (claims["role"], claims["personal_token"]) == ("authenticated", made["id"])
    assert said["expires_in"] == 600
    assert said["publishable_key"]
    person.rpc("revoke_personal_token", p_token=made["id"])
    refused = edge.post("service-account-token", body)
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_grant")


def test_audit_events_of_a_personal_token_show_the_address_that_exchanged_it(edge: Edge, person: Person) -> None:
    token, _ = make(person)
    # The first is what the caller claims, the last what the proxy before the function saw.
    seen = {"x-forwarded-for": "198.51.100.1, 203.0.113.10"}
    granted = edge.post("service-account-token", {"grant_type": GRANT, "token": token}, **seen).json()
    person.headers |= {"authorization": f"Bearer {granted['access_token']}", "x-forwarded-for": "198.51.100.2"}
    person.rpc("update_organization", p_org=person.org_id, p_name="Renamed")
    assert audited(person, "organization.updated") == ["203.0.113.10"]


def test_a_sign_in_is_audited_with_the_address_that_auth_saw(edge: Edge) -> None:
    person = Person(edge.stack)
    person.headers["x-forwarded-for"] = "198.51.100.2"
    person.rpc("update_organization", p_org=person.org_id, p_name="Renamed")
    assert audited(person, "organization.created") == audited(person, "organization.updated") == ["127.0.0.1"]


def test_a_login_by_code_is_audited_with_the_address_that_the_function_saw(edge: Edge, person: Person) -> None:
    person.headers["authorization"] = f"Bearer {by_code(edge, person, '198.51.100.1, 203.0.113.12')}"
    person.rpc("update_organization", p_org=person.org_id, p_name="Renamed")
    assert audited(person, "organization.updated") == ["203.0.113.12"]


CLAIM = dict.fromkeys(("x-forwarded-for", "sb-forwarded-for", "cf-connecting-ip", "x-real-ip"), "198.51.100.3")


def test_through_the_gateway_nobody_makes_an_address_up(edge: Edge, person: Person) -> None:
    gateway = Edge(f"{edge.stack.url}/functions/v1", edge.stack, edge.pid)
    person.headers |= CLAIM
    person.headers["authorization"] = f"Bearer {by_code(gateway, person, **CLAIM)}"
    person.rpc("update_organization", p_org=person.org_id, p_name="By code")
    granted = gateway.post("service-account-token", {"grant_type": GRANT, "token": make(person)[0]}, **CLAIM).json()
    person.headers["authorization"] = f"Bearer {granted['access_token']}"
    person.rpc("update_organization", p_org=person.org_id, p_name="By token")
    credentials = {"email": f"{uuid.uuid4().hex[:12]}@example.com", "password": uuid.uuid4().hex}
    key = {"apikey": edge.stack.publishable_key, "x-runyard-forwarding-key": "guessed", **CLAIM}
    made = httpx.post(f"{edge.stack.url}/auth/v1/signup", json=credentials, headers=key, timeout=30).json()
    stranger = {**key, "authorization": f"Bearer {made['access_token']}"}
    slug = f"org-{uuid.uuid4().hex[:10]}"
    rpc = f"{edge.stack.url}/rest/v1/rpc/create_organization"
    org = httpx.post(rpc, json={"p_name": slug, "p_slug": slug}, headers=stranger, timeout=30).json()["id"]
    assert audited(person, "organization.updated") == ["127.0.0.1"] * 2
    person.headers, person.org_id = stranger, org
    assert audited(person, "organization.created") == ["127.0.0.1"]


def by_code(functions: Edge, person: Person, seen: str = "", **headers: str) -> str:
    """Sign in as `runyard login` does, confirmed by that person; the login's token."""
    headers |= {"x-forwarded-for": seen} if seen else {}
    asked = functions.post("device-login", {"program": "a test"}, **headers).json()
    person.rpc("decide_device_login", p_user_code=asked["user_code"], p_is_confirmed=True)
    poll = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": asked["device_code"]}
    answer = functions.post("device-login", poll, **headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


def audited(person: Person, action: str) -> list[str]:
    url = f"{person.stack.url}/rest/v1/audit_events?select=address&org_id=eq.{person.org_id}&action=eq.{action}"
    return [row["address"] for row in httpx.get(url, headers=person.headers, timeout=30).json()]


@pytest.mark.parametrize(
    "token", ["", "ryp_", "ryw_" + "a" * 43, "ryp_" + "a" * 42, "ryp_" + "a" * 44, "ryp_" + "ä" * 43, 7, None, ["x"]]
)
def test_a_malformed_token_is_refused(edge: Edge, token: Any) -> None:
    said = edge.post("service-account-token", {"grant_type": GRANT, "token": token})
    assert (said.status_code, said.json()["code"]) == (400, "RY422")


def test_an_unknown_token_learns_nothing(edge: Edge) -> None:
    token = "ryp_" + (uuid.uuid4().hex * 2)[:43]
    said = edge.post("service-account-token", {"grant_type": GRANT, "token": token})
    assert said.status_code == 401
    assert token not in said.text
