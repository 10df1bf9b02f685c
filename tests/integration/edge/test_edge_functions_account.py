"""service-account-token: a secret or a trusted identity becomes a token that opens its own runners' sessions."""

import secrets
import uuid
from collections.abc import Iterator
from typing import Any

import bcrypt
import httpx
import psycopg
import pytest

from tests.integration.edge.conftest import Edge
from tests.integration.edge.issuer import AUDIENCE, Issuer, running_issuer
from tests.integration.edge.people import Person
from tests.integration.edge.test_edge_functions_session import asking, claims_of

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


def account(person: Person, secret: str | None = None, **spec: Any) -> dict[str, Any]:
    """Make a service account."""
    digest = bcrypt.hashpw(secret.encode(), bcrypt.gensalt(8)).decode() if secret else None
    made: dict[str, Any] = person.rpc(
        "create_service_account",
        p_org=person.org_id,
        p_spec={"name": f"sa-{uuid.uuid4().hex[:8]}", **spec},
        p_secret_hash=digest,
        p_secret_hint=secret[-4:] if secret else None,
    )
    return made


def trusting(person: Person, issuer: Issuer, **bound: Any) -> str:
    """Create an account that trusts the issuer and return its client id."""
    spec: dict[str, Any] = {
        "trusts": [{"issuer": issuer.url, "audience": AUDIENCE, "bound_claims": bound or {"repository": "acme/infra"}}],
    }
    return str(account(person, **spec)["client_id"])


def by_secret(client_id: str, secret: str) -> dict[str, str]:
    return {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}


def by_identity(client_id: str, token: str) -> dict[str, str]:
    return {"grant_type": EXCHANGE, "client_id": client_id, "subject_token": token}


def test_a_secret_becomes_a_token_that_opens_its_runner_s_session(edge: Edge, person: Person) -> None:
    secret = secrets.token_urlsafe(24)
    made = account(person, secret)
    runner = person.register(service_account_id=made["id"])
    other = person.register()
    grant = edge.post("service-account-token", by_secret(made["client_id"], secret))
    assert grant.status_code == 200, grant.text
    token = grant.json()["access_token"]
    claims = claims_of(token)
    assert (claims["role"], claims["sub"], claims["org"]) == ("service_account", made["id"], person.org_id)
    body = asking(runner, access_token=token)
    del body["worker_token"]
    assert edge.post("worker-session", body).status_code == 200
    assert edge.post("worker-session", {**body, "worker_id": other.id}).status_code == 403, "not assigned"
    assert edge.worker_rpc(token, "worker_claim", p_request_id=str(uuid.uuid4())).status_code in {401, 403}


def test_a_token_from_before_a_rotation_opens_no_session(edge: Edge, person: Person) -> None:
    secret, other = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    made = account(person, secret)
    runner = person.register(service_account_id=made["id"])

    def answered(token: str) -> int:
        body = asking(runner, access_token=token)
        del body["worker_token"]
        return edge.post("worker-session", body).status_code

    before = edge.post("service-account-token", by_secret(made["client_id"], secret)).json()["access_token"]
    person.rpc("rotate_service_account_secret", p_account=made["id"], **hashed(other))
    assert answered(before) == 401
    after = edge.post("service-account-token", by_secret(made["client_id"], other)).json()["access_token"]
    assert answered(after) == 200


def test_a_runners_token_and_an_accounts_token_cannot_replace_each_other(edge: Edge, person: Person) -> None:
    secret = secrets.token_urlsafe(24)
    made = account(person, secret)
    runner = person.register(service_account_id=made["id"])
    session = edge.post("worker-session", asking(runner)).json()["access_token"]
    body = asking(runner, access_token=session)
    del body["worker_token"]
    assert edge.post("worker-session", body).status_code == 401
    token = edge.post("service-account-token", by_secret(made["client_id"], secret)).json()["access_token"]
    assert edge.post("worker-session", {"renew": True}, token).status_code == 401


def test_the_ways_to_name_an_account(edge: Edge, person: Person) -> None:
    secret = secrets.token_urlsafe(24)
    made = account(person, secret)
    names = [made["client_id"], f"{person.org_id}:{made['client_id']}", f"{person.org_id}:{made['name']}"]
    for name in names:
        assert edge.post("service-account-token", by_secret(name, secret)).status_code == 200, name
    elsewhere = by_secret(f"{uuid.uuid4()}:{made['client_id']}", secret)
    assert edge.post("service-account-token", elsewhere).status_code == 401
    form = httpx.post(
        f"{edge.url}/service-account-token",
        data={"grant_type": "client_credentials"},
        auth=(made["client_id"], secret),
        timeout=60,
    )
    assert form.status_code == 200, "as an OAuth client sends it"


def test_an_account_is_found_by_path_only_in_the_organisation_of_the_runner(edge: Edge, person: Person) -> None:
    secret = secrets.token_urlsafe(24)
    made = account(person, secret)
    runner, stranger = person.register(service_account_id=made["id"]), Person(person.stack).register()
    by_path = by_secret(made["name"], secret)
    assert edge.post("service-account-token", {**by_path, "worker_id": runner.id}).status_code == 200
    for elsewhere in ({}, {"worker_id": stranger.id}, {"worker_id": str(uuid.uuid4())}):
        assert edge.post("service-account-token", {**by_path, **elsewhere}).status_code == 401


def test_an_account_with_a_role_acts_through_the_api(edge: Edge, person: Person) -> None:
    secret = secrets.token_urlsafe(24)
    made = account(person, secret, role="operator")
    body = {**by_secret(made["client_id"], secret), "scope": "api"}
    grant = edge.post("service-account-token", body, **{"x-forwarded-for": "203.0.113.11"}).json()
    assert claims_of(grant["access_token"])["client_address"] == "203.0.113.11"
    assert (grant["role"], grant["organization_id"]) == ("operator", person.org_id)
    assert grant["publishable_key"] == edge.stack.publishable_key
    headers = {"apikey": grant["publishable_key"], "Authorization": f"Bearer {grant['access_token']}"}
    mine = httpx.post(f"{edge.stack.url}/rest/v1/rpc/my_organizations", json={}, headers=headers, timeout=60)
    assert [one["role"] for one in mine.json()] == ["operator"]
    body = asking(person.register(service_account_id=made["id"]), access_token=grant["access_token"])
    del body["worker_token"]
    assert edge.post("worker-session", body).status_code == 401, "it opens no runner's session"
    person.rpc("rotate_service_account_secret", p_account=made["id"], **hashed(secrets.token_urlsafe(24)))
    again = httpx.post(f"{edge.stack.url}/rest/v1/rpc/my_organizations", json={}, headers=headers, timeout=60)
    assert again.json() == []


def hashed(secret: str) -> dict[str, str]:
    return {
        "p_secret_hash": bcrypt.hashpw(secret.encode(), bcrypt.gensalt(8)).decode(),
        "p_secret_hint": secret[-4:],
    }


def test_an_account_without_a_role_is_refused_with_that_reason(edge: Edge, person: Person) -> None:
    secret = secrets.token_urlsafe(24)
    made = account(person, secret)
    answer = edge.post("service-account-token", {**by_secret(made["client_id"], secret), "scope": "api"})
    assert (answer.status_code, answer.json()["code"]) == (403, "RY403")
    assert "has no role" in answer.json()["message"]
    wrong = edge.post("service-account-token", {**by_secret(made["client_id"], "wrong"), "scope": "api"})
    assert wrong.status_code == 401, "a stranger learns nothing"


def test_an_unassigned_account_learns_why(edge: Edge, person: Person) -> None:
    secret = secrets.token_urlsafe(24)
    made, runner = account(person, secret), person.register()
    token = edge.post("service-account-token", by_secret(made["client_id"], secret)).json()["access_token"]
    body = asking(runner, access_token=token)
    del body["worker_token"]
    checked = {"check": True, "worker_id": runner.id, "access_token": token}
    for answer in (edge.post("worker-session", body), edge.post("worker-session", checked)):
        assert answer.status_code == 403
        assert "is not assigned to this runner" in answer.json()["message"]


def test_each_trusted_issuer_has_claims_of_its_own(edge: Edge, person: Person, issuer: Issuer) -> None:
    with running_issuer() as second:
        first = {"issuer": issuer.url, "audience": AUDIENCE, "bound_claims": {"repository": "acme/infra"}}
        trusts = [
            {"issuer": issuer.url, "audience": AUDIENCE, "bound_claims": {"repository": "acme/other"}},
            first,
            {"issuer": second.url, "audience": AUDIENCE, "bound_claims": {"groups": "ops"}},
        ]
        made = account(person, trusts=trusts)

        def answer(token: str) -> int:
            return edge.post("service-account-token", by_identity(made["client_id"], token)).status_code

        assert [answer(issuer.token()), answer(second.token())] == [200, 200]
        assert answer(issuer.token(repository="acme/evil")) == 401
        assert answer(second.token(groups=["dev"])) == 401, "another issuer's claims do not help"
        person.rpc("update_service_account", p_account=made["id"], p_spec={"trusts": [first]})
        assert [answer(issuer.token()), answer(second.token())] == [200, 401]


def test_every_refusal_is_the_same(edge: Edge, person: Person, issuer: Issuer) -> None:
    secret = secrets.token_urlsafe(24)
    made, disabled = account(person, secret), account(person, secret)
    person.rpc("update_service_account", p_account=disabled["id"], p_spec={"is_disabled": True})
    trusted = trusting(person, issuer)
    refused = [
        by_secret(made["client_id"], "wrong"),
        by_secret("rysa_unknown", secret),
        by_secret("nonsense:and more", secret),
        by_secret(disabled["client_id"], secret),
        by_secret(trusted, secret),
        by_identity(made["client_id"], issuer.token()),
        by_identity(trusted, "nonsense"),
    ]
    answers = [edge.post("service-account-token", body) for body in refused]
    assert [answer.status_code for answer in answers] == [401] * len(refused)
    assert len({answer.text for answer in answers}) == 1
    assert secret not in answers[0].text


@pytest.mark.parametrize("grant_type", [EXCHANGE, BEARER])
def test_a_trusted_identity_becomes_a_token(edge: Edge, person: Person, issuer: Issuer, grant_type: str) -> None:
    client_id = trusting(person, issuer, repository=["acme/infra", "acme/other"], groups="ops", aud=AUDIENCE)
    name = "subject_token" if grant_type == EXCHANGE else "assertion"
    for _ in range(3):
        body = {"grant_type": grant_type, "client_id": client_id, name: issuer.token()}
        answer = edge.post("service-account-token", body)
        assert answer.status_code == 200, answer.text
    assert issuer.fetched == 1, "the keys are kept for a while"


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "another"},
        {"aud": None},
        {"iss": "https://elsewhere.example"},
        {"exp": 1},
        {"exp": None},
        {"iat": None},
        {"nbf": 9_999_999_999},
        {"repository": "acme/evil"},
        {"repository": None},
        {"repository": {"acme/infra": 1}},
        {"repository": "acme/infra-and-more"},
    ],
)
def test_an_identity_that_differs_in_anything_pinned_is_refused(
    edge: Edge, person: Person, issuer: Issuer, changes: dict[str, Any]
) -> None:
    client_id = trusting(person, issuer)
    answer = edge.post("service-account-token", by_identity(client_id, issuer.token(**changes)))
    assert answer.status_code == 401


def test_tokens_of_the_wrong_kind_are_refused(edge: Edge, person: Person, issuer: Issuer) -> None:
    client_id = trusting(person, issuer)
    for token in (issuer.unsigned(), issuer.signed_with_public_key(), issuer.signed_by_another()):
        assert edge.post("service-account-token", by_identity(client_id, token)).status_code == 401
    assert edge.post("service-account-token", by_identity(client_id, issuer.token())).status_code == 200


def test_an_issuer_that_names_another_is_refused(edge: Edge, person: Person, issuer: Issuer) -> None:
    issuer.named_issuer = "https://elsewhere.example"
    answer = edge.post("service-account-token", by_identity(trusting(person, issuer), issuer.token()))
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("document", "status", "answered"),
    [("discovery", 503, 503), ("keys", 502, 503), ("keys", 429, 503), ("discovery", 404, 401), ("keys", 302, 401)],
)
def test_a_provider_that_is_away_has_not_refused_anybody(
    edge: Edge, person: Person, issuer: Issuer, document: str, status: int, answered: int
) -> None:
    issuer.statuses[document] = status
    answer = edge.post("service-account-token", by_identity(trusting(person, issuer), issuer.token()))
    assert (answer.status_code, answer.json()["code"]) == (answered, f"RY{answered}")


def test_a_stopped_provider_has_not_refused_anybody(edge: Edge, person: Person) -> None:
    with running_issuer() as issuer:
        body = by_identity(trusting(person, issuer), issuer.token())
    assert edge.post("service-account-token", body).status_code == 503


def test_no_request_is_sent_to_an_issuer_inside_our_network(
    running_stack_edge: Edge, person: Person, issuer: Issuer
) -> None:
    """The stack's own functions run without the leave that these tests give theirs."""
    body = by_identity(trusting(person, issuer), issuer.token())
    assert running_stack_edge.post("service-account-token", body).status_code == 401
    assert issuer.fetched == 0


@pytest.fixture
def running_stack_edge(edge: Edge) -> Edge:
    return Edge(f"{edge.stack.url}/functions/v1", edge.stack, edge.pid)


def test_attempts_are_limited(edge: Edge, person: Person, sql: psycopg.Connection[Any]) -> None:
    secret = secrets.token_urlsafe(24)
    client_id = str(account(person, secret)["client_id"])
    sql.execute(
        "insert into private.rate_limits (key, window_started_at, used) values (%s, now(), 100000)",
        [f"account:unproven:{client_id}:unknown"],
    )
    assert edge.post("service-account-token", by_secret(client_id, secret)).status_code == 429


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"grant_type": "password", "client_id": "x"},
        {"grant_type": "client_credentials", "client_id": "x"},
        {"grant_type": "client_credentials", "client_id": ["x"], "client_secret": "hush-hush"},
        {"grant_type": EXCHANGE, "client_id": "x", "subject_token": "t" * 20_000},
    ],
)
def test_bad_input_is_named(edge: Edge, body: Any) -> None:
    answer = edge.post("service-account-token", body)
    assert answer.status_code == 400
    assert answer.json()["details"]
    assert "hush-hush" not in answer.text
