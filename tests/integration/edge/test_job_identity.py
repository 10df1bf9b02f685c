"""Runyard as an OIDC issuer: a token is for the attempt that has the lease, and any library can verify it."""

import json
import uuid
from dataclasses import dataclass
from typing import Any

import httpx
import jwt
import psycopg
import pytest
from joserfc import jwt as joserfc_jwt
from joserfc.jwk import KeySet, RSAKey

from tests.integration.edge.conftest import Edge
from tests.integration.edge.people import Person
from tests.integration.edge.test_edge_functions_session import open_session

ROLES = {
    "plan_role": "arn:aws:iam::123456789012:role/plan",
    "apply_role": "arn:aws:iam::123456789012:role/apply",
}


@dataclass(frozen=True)
class Attempt:
    """A claimed job: its runner's session, and the request for its tokens."""

    edge: Edge
    session: str
    job: dict[str, int]

    def ask(self, session: str | None = None, **changes: Any) -> httpx.Response:
        return self.edge.post("job-identity", {"job": {**self.job, **changes}}, session or self.session)

    def token(self, name: str = "aws") -> str:
        answer = self.ask()
        assert answer.status_code == 200, answer.text
        return next(str(each["token"]) for each in answer.json()["tokens"] if each["name"] == name)


def connect(edge: Edge, person: Person) -> str:
    session = str(open_session(edge, person.register(is_assigned_to_all_modules=True))["access_token"])
    edge.worker_rpc(session, "worker_heartbeat", p_status="ONLINE", p_version="0.1.0", p_running=[]).raise_for_status()
    return session


def claim(edge: Edge, person: Person, kind: str) -> Attempt:
    """Attach two identities to a module's group, and claim a job of the module."""
    name = f"m-{uuid.uuid4().hex[:8]}"
    module = person.rpc("create_module", p_org=person.org_id, p_group_path="apps", p_name=name, p_spec={})["id"]
    for spec in ({"kind": "aws", "settings": ROLES}, {"kind": "custom", "name": "registry", "audience": "https://r"}):
        person.rpc("attach_identity", p_org=person.org_id, p_path="apps", p_spec=spec)
    session = connect(edge, person)
    person.rpc("enqueue_job", p_org=person.org_id, p_type=kind, p_module=module, p_options={})
    [job] = edge.worker_rpc(session, "worker_claim", p_request_id=str(uuid.uuid4()), p_slots=1).json()["jobs"]
    return Attempt(edge, session, {"id": job["id"], "attempt": job["attempt"]})


@pytest.fixture
def plan(edge: Edge, person: Person) -> Attempt:
    return claim(edge, person, "PLAN")


def discovery(edge: Edge) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{edge.url}/job-identity/.well-known/openid-configuration", timeout=30).json()
    return found


def served_keys(edge: Edge) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{edge.url}/job-identity/.well-known/jwks", timeout=30).json()
    return found


def test_discovery_leads_to_public_keys_through_the_gateway(edge: Edge) -> None:
    document = discovery(edge)
    assert document["issuer"] == f"{edge.stack.url}/functions/v1/job-identity"
    assert document["id_token_signing_alg_values_supported"] == ["RS256"]
    assert httpx.get(f"{document['issuer']}/.well-known/openid-configuration", timeout=30).json() == document
    [key] = httpx.get(document["jwks_uri"], timeout=30).json()["keys"]
    assert key.keys() == {"kty", "n", "e", "kid", "use", "alg"}, "a private part would let anybody sign"
    assert (key["kty"], key["use"], key["alg"]) == ("RSA", "sig", "RS256")


def test_two_libraries_verify_the_token_against_the_served_keys(plan: Attempt, person: Person) -> None:
    edge, token = plan.edge, plan.token()
    keys, issuer = served_keys(edge), discovery(edge)["issuer"]
    assert jwt.get_unverified_header(token) == {"alg": "RS256", "typ": "JWT", "kid": keys["keys"][0]["kid"]}
    needed = ["iss", "aud", "sub", "exp", "iat", "nbf", "jti"]
    key = jwt.PyJWKSet.from_dict(keys).keys[0]
    claims = jwt.decode(
        token, key, algorithms=["RS256"], issuer=issuer, audience="aws.workload.identity", options={"require": needed}
    )
    assert joserfc_jwt.decode(token, KeySet.import_key_set(keys), algorithms=["RS256"]).claims == claims
    assert claims["runyard_organization_id"] == person.org_id
    assert claims["sub"].endswith(":phase:plan")
    assert 0 < claims["exp"] - claims["iat"] <= 60, "no longer than the lease"
    with pytest.raises(jwt.InvalidAudienceError):
        jwt.decode(token, key, algorithms=["RS256"], audience="https://r")
    # Auth has other keys, and accepts nothing that this one signed.
    auth = httpx.get(f"{edge.stack.url}/auth/v1/.well-known/jwks.json", timeout=30).json()["keys"]
    assert keys["keys"][0]["kid"] not in [each["kid"] for each in auth]
    assert edge.worker_rpc(token, "worker_heartbeat", p_status="ONLINE", p_version="0.1.0").status_code == 401


def test_each_identity_has_a_token_for_its_own_audience(plan: Attempt) -> None:
    answer = plan.ask().json()
    assert answer["phase"] == "plan"
    found = {each["name"]: jwt.decode(each["token"], options={"verify_signature": False}) for each in answer["tokens"]}
    assert {name: claims["aud"] for name, claims in found.items()} == {
        "aws": "aws.workload.identity", "registry": "https://r",
    }  # fmt: skip
    assert found["aws"]["jti"] != found["registry"]["jti"]


def test_only_an_apply_gets_the_phase_apply(edge: Edge, person: Person, plan: Attempt) -> None:
    phases = {}
    for kind, attempt in (("PLAN", plan), ("APPLY", claim(edge, person, "APPLY"))):
        claims = jwt.decode(attempt.token(), options={"verify_signature": False})
        phases[kind] = (claims["runyard_phase"], claims["terraform_run_phase"], claims["sub"].rpartition(":")[2])
    assert phases == {"PLAN": ("plan",) * 3, "APPLY": ("apply",) * 3}
    # There is no way to wish for a phase: what is not in the request's schema is refused.
    wish = {"job": plan.job, "phase": "apply"}
    assert edge.post("job-identity", wish, plan.session).status_code == 400


def test_other_sessions_other_attempts_and_engines_receive_no_token(edge: Edge, person: Person, plan: Attempt) -> None:
    colleague, stranger = connect(edge, person), connect(edge, Person(person.stack))
    assert [plan.ask(session).json()["code"] for session in (colleague, stranger)] == ["RY410", "RY410"]
    assert plan.ask(attempt=plan.job["attempt"] + 1).json()["code"] == "RY410"
    engine = edge.post("worker-session", {"job": plan.job, "engine": True}, plan.session).json()["access_token"]
    assert plan.ask(engine).json()["code"] == "42501"
    assert plan.ask(person.token).json()["code"] == "42501"
    assert edge.post("job-identity", {"job": plan.job}).status_code == 401
    forged = jwt.encode(jwt.decode(plan.session, options={"verify_signature": False}), "x" * 32, "HS256")
    assert plan.ask(forged).status_code == 401


def test_executor_gets_tokens_for_its_own_job_alone(edge: Edge, person: Person, plan: Attempt) -> None:
    other = claim(edge, person, "PLAN")
    executor = edge.post("worker-session", {"job": plan.job}, plan.session).json()["access_token"]
    assert plan.ask(executor).status_code == 200
    assert other.ask(executor).json()["code"] == "RY403"


def test_lost_lease_gets_no_further_token(plan: Attempt, sql: psycopg.Connection[Any]) -> None:
    """Somebody with a copy of the token and of the session has what is left of the token, and nothing after it."""
    stolen = jwt.decode(plan.token(), options={"verify_signature": False})
    assert stolen["exp"] - stolen["iat"] <= 60
    sql.execute("update private.live_jobs set lease_until = now() - interval '1 s' where job_id = %s", [plan.job["id"]])
    # A missing heartbeat would be forgiven in the first minute of the server.
    sql.execute(
        "update private.heartbeats set last_seen_at = now() - interval '61 s'"
        " where instance_id = (select instance_id from private.live_jobs where job_id = %s)",
        [plan.job["id"]],
    )
    answer = plan.ask()
    assert (answer.status_code >= 400, answer.json()["code"]) == (True, "RY410"), answer.text


def test_ended_job_gets_no_further_token(plan: Attempt) -> None:
    names = {"p_job": plan.job["id"], "p_attempt": plan.job["attempt"], "p_status": "FAILED"}
    assert plan.edge.worker_rpc(plan.session, "worker_finish", **names).is_success
    assert plan.ask().json()["code"] == "RY410"


def test_rotation_serves_both_keys_and_signs_with_the_first(other_edge: Any, person: Person) -> None:
    old, new = (RSAKey.generate_key(2048, private=True).as_dict(private=True) for _ in range(2))
    keys = json.dumps([{**new, "kid": "new"}, {**old, "kid": "old"}])
    edge = other_edge(RUNYARD_IDENTITY_KEYS=keys, RUNYARD_IDENTITY_ISSUER="https://issuer.example.com/")
    assert [key["kid"] for key in served_keys(edge)["keys"]] == ["new", "old"]
    token = claim(edge, person, "PLAN").token()
    assert jwt.get_unverified_header(token)["kid"] == "new"
    key = RSAKey.import_key(served_keys(edge)["keys"][0])
    assert joserfc_jwt.decode(token, key, algorithms=["RS256"]).claims["iss"] == "https://issuer.example.com"
    assert discovery(edge)["jwks_uri"] == "https://issuer.example.com/.well-known/jwks"


def test_an_installation_without_keys_issues_no_token_and_names_the_missing_setting(
    other_edge: Any, person: Person
) -> None:
    edge = other_edge(RUNYARD_IDENTITY_KEYS="")
    assert "RUNYARD_IDENTITY_KEYS" in served_keys(edge)["hint"]
    answer = claim(edge, person, "PLAN").ask()
    assert (answer.status_code, answer.json()["code"]) == (503, "RY503")
