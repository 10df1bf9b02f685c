"""The token of a job's engine: it reads its module's state and granted outputs while the attempt runs, and no longer."""

import uuid
from dataclasses import dataclass
from typing import Any

import httpx
import jwt
import pytest

from tests.integration.edge.conftest import Edge
from tests.integration.edge.people import Person
from tests.integration.edge.test_edge_functions_session import aged, open_session

DAY = 24 * 60 * 60
STATE = '{"version": 4, "serial": 1, "lineage": "l", "outputs": {"vpc": {"value": "vpc-1", "type": "string"}}, "resources": []}'


@dataclass(frozen=True)
class Attempt:
    """A running attempt: what its runner says, and the token that its engine got."""

    edge: Edge
    slug: str
    runner: str
    engine: str
    this: dict[str, int]

    def state(self, token: str) -> httpx.Response:
        return self.edge.worker_rpc(token, "worker_state_get", **self.this)

    def outputs(self, token: str, workspace: str = "apps.web") -> httpx.Response:
        url = f"{self.edge.url}/terraform/api/v2/organizations/{self.slug}/workspaces/{workspace}"
        return httpx.get(url, headers={"authorization": f"Bearer {token}"}, timeout=60)


@pytest.fixture
def modules(person: Person) -> dict[str, str]:
    spec = {"source_kind": "inline", "source": {"files": {"main.tf": ""}}, "engine": "tofu"}
    return {
        name: person.rpc("create_module", p_org=person.org_id, p_group_path="apps", p_name=name, p_spec=spec)["id"]
        for name in ("web", "network")
    }


@pytest.fixture
def attempt(edge: Edge, person: Person, modules: dict[str, str], sql: Any) -> Attempt:
    """An attempt of apps/web, which has a state."""
    runner = open_session(edge, person.register(is_assigned_to_all_modules=True))["access_token"]
    edge.worker_rpc(runner, "worker_heartbeat", p_status="ONLINE", p_version="0.1.0", p_running=[]).raise_for_status()
    person.rpc("enqueue_job", p_org=person.org_id, p_type="APPLY", p_module=modules["web"], p_options={})
    [job] = edge.worker_rpc(runner, "worker_claim", p_request_id=str(uuid.uuid4()), p_slots=1).json()["jobs"]
    this = {"p_job": job["id"], "p_attempt": job["attempt"]}
    edge.worker_rpc(runner, "worker_state_put", **this, p_body=STATE).raise_for_status()
    wanted = {"job": {"id": job["id"], "attempt": job["attempt"]}, "engine": True}
    engine = edge.post("worker-session", wanted, runner).json()["access_token"]
    [slug] = sql.execute("select slug from public.organizations where id = %s", [person.org_id]).fetchone()
    return Attempt(edge, slug, runner, engine, this)


def test_an_engine_token_lives_as_long_as_the_lease_of_its_attempt(attempt: Attempt) -> None:
    """A job has no longest time, and nobody can change what a running engine has: the attempt decides, not the clock."""
    claims = jwt.decode(attempt.engine, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 60
    assert attempt.state(attempt.engine).json()["body"] == STATE
    after_weeks = aged(attempt.edge, attempt.engine, 29 * DAY)
    for token in (attempt.engine, after_weeks):
        assert attempt.outputs(token).status_code == 200
    assert attempt.state(after_weeks).status_code == 401, "alone it opens nothing once a lease has run out"
    assert attempt.outputs(aged(attempt.edge, attempt.engine, 31 * DAY)).status_code == 401
    forged = jwt.encode(claims, "not the installation's key, but a long one", algorithm="HS256")
    for other in (attempt.runner, forged):
        assert attempt.outputs(other).status_code == 401, "only an engine's own token, signed by the installation"
    ended = attempt.edge.worker_rpc(attempt.runner, "worker_finish", **attempt.this, p_status="FAILED")
    assert ended.is_success, ended.text
    for token in (attempt.engine, after_weeks):
        assert attempt.outputs(token).status_code == 403


def test_an_engine_token_reads_only_outputs_that_were_granted_to_its_module(
    attempt: Attempt, person: Person, modules: dict[str, str]
) -> None:
    for unknown in ("apps.network", "apps.nowhere"):
        assert attempt.outputs(attempt.engine, unknown).status_code == 403
    grant = {"p_module": modules["network"], "p_reader": modules["web"]}
    person.rpc("grant_outputs", **grant)
    assert attempt.outputs(attempt.engine, "apps.network").status_code == 200
    person.rpc("revoke_outputs", **grant)
    assert attempt.outputs(attempt.engine, "apps.network").status_code == 403


def test_an_engine_token_reads_no_table_no_list_and_no_account(attempt: Attempt) -> None:
    url, key = attempt.edge.stack.url, attempt.edge.stack.publishable_key
    headers = {"apikey": key, "authorization": f"Bearer {attempt.engine}"}
    for table in ("modules", "output_grants", "provision_jobs", "workers", "organizations"):
        answer = httpx.get(f"{url}/rest/v1/{table}", headers=headers, timeout=30)
        assert answer.json()["code"] == "42501", (table, answer.text)
    assert httpx.get(f"{url}/auth/v1/user", headers=headers, timeout=30).status_code == 403
    for function in ("list_modules", "grant_outputs", "organization_makers"):
        refused = attempt.edge.worker_rpc(attempt.engine, function)
        assert refused.status_code in {401, 403, 404}, (function, refused.text)
