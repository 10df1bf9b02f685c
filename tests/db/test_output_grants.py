"""Outputs that one module's jobs read of another's: by grant, and nothing but the outputs."""

import json
from typing import Any

import pytest

from tests.db.world import Caller, Organization, World, refused

STATE = {
    "version": 4, "terraform_version": "1.9.0", "serial": 7, "lineage": "l",
    "outputs": {"vpc": {"value": "vpc-1", "type": "string"}},
    "resources": [{"type": "x", "instances": [{"attributes": {"password": "hunter2"}}]}],
}  # fmt: skip


@pytest.fixture
def job(world: World, org: Organization) -> tuple[Caller, dict[str, Any]]:
    """The engine of a job of apps/site, while platform/network has a state."""
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=2)
    org.enqueue("platform/network", "APPLY")
    first = runner.claim_one()
    runner.call("worker_state_put", p_job=first["id"], p_attempt=1, p_body=json.dumps(STATE))
    runner.finish(first)
    org.enqueue("apps/site")
    claimed = runner.claim_one()
    engine = world.caller(
        "engine", sub=runner.worker_id, sid=runner.session_id, job=str(claimed["id"]), att=str(claimed["attempt"])
    )
    slug = world.owner.one("select slug from public.organizations where id = %s", org.id)
    return engine, {
        "p_job": claimed["id"],
        "p_attempt": claimed["attempt"],
        "p_org": slug,
        "p_path": "platform/network",
    }


def grant(org: Organization, function: str = "grant_outputs") -> Any:
    return org.owner.call(function, p_module=org.modules["platform/network"], p_reader=org.modules["apps/site"])


def test_outputs_are_read_by_grant_alone_and_without_resources(
    org: Organization, job: tuple[Caller, dict[str, Any]]
) -> None:
    engine, asked = job
    with refused("RY403", 'This job may not read the outputs of "platform/network".'):
        engine.call("worker_outputs_get", **asked)
    assert grant(org) == grant(org) == {"module": "platform/network", "reader": "apps/site"}
    found = engine.call("worker_outputs_get", **asked)
    assert (found["state"]["outputs"], found["state"]["serial"]) == (STATE["outputs"], 7)
    assert "hunter2" not in json.dumps(found)
    grant(org, "revoke_outputs")
    with refused("RY403", "This job may not read the outputs of"):
        engine.call("worker_outputs_get", **asked)


@pytest.mark.parametrize("wrong", [{"p_path": "platform/nowhere"}, {"p_org": "another"}])
def test_an_unknown_module_is_refused_like_one_without_a_grant(
    org: Organization, job: tuple[Caller, dict[str, Any]], wrong: dict[str, Any]
) -> None:
    engine, asked = job
    grant(org)
    with refused("RY403", "This job may not read the outputs of"):
        engine.call("worker_outputs_get", **{**asked, **wrong})


def test_an_encrypted_state_is_its_own_module_s(
    world: World, org: Organization, job: tuple[Caller, dict[str, Any]]
) -> None:
    engine, asked = job
    grant(org)
    world.owner.connection.execute("""update private.states set body = '{"serial": 8, "encrypted_data": "x"}'""")
    with refused("RY422", 'The state of "platform/network" is encrypted by its engine.'):
        engine.call("worker_outputs_get", **asked)


def test_grants_are_for_admins_between_modules_of_one_organisation(org: Organization, other_org: Organization) -> None:
    site, network = org.module("apps/site"), org.module("platform/network")
    with refused("RY403", "your role is operator"):
        org.member("operator").call("grant_outputs", p_module=network, p_reader=site)
    with refused("RY404", "There is no such module."):
        org.owner.call("grant_outputs", p_module=network, p_reader=other_org.module("x/y"))
    with refused("RY422", "A module reads its own state without a grant."):
        org.owner.call("grant_outputs", p_module=site, p_reader=site)
    with refused("RY404", "There is no such grant."):
        org.owner.call("revoke_outputs", p_module=network, p_reader=site)
