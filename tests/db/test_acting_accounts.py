"""Service accounts that act: the functions, roles and refusals of people, and every change of theirs counts at once."""

from typing import Any

import pytest

from tests.db.world import TOKEN_HASH, Caller, Organization, World, refused

SECRET = {"p_secret_hash": TOKEN_HASH, "p_secret_hint": "abcd"}
TRUSTED = {"issuer": "https://issuer.example", "audience": "runyard", "bound_claims": {"sub": "ci"}}


def plan(caller: Caller, org: Organization, module: str = "a/b") -> Any:
    module_id = org.modules.get(module) or org.module(module)
    return caller.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=module_id)


def test_an_operator_account_queues_and_is_named_in_every_record(world: World, org: Organization) -> None:
    account = org.account("operator", name="pipeline")
    job = plan(org.acting(account), org)
    assert (job["created_by"], job["created_by_label"]) == (account["id"], "pipeline")
    asked = (
        "select actor_kind::text, actor_label from public.audit_events where action = 'job.enqueued' and target_id = %s"
    )
    assert world.owner.one(asked, str(job["id"])) == ("service_account", "pipeline")
    event = "select actor_kind::text, actor_label from public.job_events where job_id = %s and event = 'enqueued'"
    assert world.owner.one(event, job["id"]) == ("service_account", "pipeline")


def test_an_account_sees_its_organisation_and_its_role(org: Organization, other_org: Organization) -> None:
    acting = org.acting(org.account("viewer"))
    assert [(one["id"], one["role"]) for one in acting.call("my_organizations")] == [(org.id, "viewer")]
    assert acting.rows("select id::text from public.organizations") == [org.id]
    with refused("RY404", "There is no such organisation"):
        acting.call("enqueue_job", p_org=other_org.id, p_type="PLAN", p_module=other_org.module("x/y"))
    with refused("RY403", "your role is viewer"):
        plan(acting, org)


def test_an_account_approves_a_persons_request_and_not_its_own(org: Organization) -> None:
    org.module("a/b", approvals_required=1)
    acting = org.acting(org.account("operator"))
    theirs = org.enqueue("a/b", "APPLY")
    assert acting.call("approve_job", p_job=theirs, p_decision="approve")["status"] == "QUEUED"
    own = acting.call("enqueue_job", p_org=org.id, p_type="APPLY", p_module=org.modules["a/b"])["id"]
    with refused("RY403", "You requested this job; somebody else approves it."):
        acting.call("approve_job", p_job=own, p_decision="approve")
    with refused("RY403", "You are not alone: somebody else can approve it."):
        acting.call("approve_job", p_job=own, p_decision="approve", p_override_reason="because")


def test_an_admin_account_registers_runners(org: Organization) -> None:
    acting = org.acting(org.account("admin"))
    made = acting.call("register_worker", p_org=org.id, p_name="r1", p_token_hash=TOKEN_HASH, p_token_hint="abcd")
    assert made["name"] == "r1"


CHANGES: dict[str, dict[str, Any]] = {
    "disabled": {"is_disabled": True},
    "without its role": {"role": None},
    "with other trust": {"trusts": [TRUSTED]},
}


@pytest.mark.parametrize("what", CHANGES)
def test_an_account_that_loses_its_rights_is_refused_at_once(org: Organization, what: str) -> None:
    account = org.account("operator")
    acting = org.acting(account)
    plan(acting, org)
    org.owner.call("update_service_account", p_account=account["id"], p_spec=CHANGES[what])
    with refused("RY403", "This service account may not act (any more)."):
        plan(acting, org)
    assert acting.call("my_organizations") == []
    assert acting.rows("select id from public.provision_jobs") == []


def test_a_new_secret_voids_the_tokens_of_the_old_one(org: Organization) -> None:
    account = org.account("operator")
    acting = org.acting(account)
    org.owner.call("rotate_service_account_secret", p_account=account["id"], **SECRET)
    with refused("RY403", "This service account may not act (any more)."):
        plan(acting, org)
    plan(org.acting(account), org)


def test_a_removed_account_does_nothing(org: Organization) -> None:
    account = org.account("operator")
    acting = org.acting(account)
    org.owner.call("remove_service_account", p_account=account["id"])
    with refused("RY403", "This service account may not act (any more)."):
        plan(acting, org)


def test_a_new_role_counts_at_once(org: Organization) -> None:
    account = org.account("viewer")
    acting = org.acting(account)
    org.owner.call("update_service_account", p_account=account["id"], p_spec={"role": "operator"})
    plan(acting, org)


def test_an_account_without_a_role_gets_no_token(world: World, org: Organization) -> None:
    with refused("RY403", "This service account has no role in the organisation."):
        world.service.call("use_service_account", p_account=org.account()["id"])


@pytest.mark.parametrize("claims", [{}, {"account_version": 99}, {"account_version": "2"}])
def test_an_account_is_admitted_only_with_its_current_version(
    world: World, org: Organization, claims: dict[str, Any]
) -> None:
    """A token that merely names the account, as a person's would, is a stranger's."""
    account = org.account("admin")
    stranger = world.caller("authenticated", sub=account["id"], **claims)
    is_right = str(claims.get("account_version")) == str(account["credential_version"])
    assert bool(stranger.call("my_organizations")) is is_right


def test_accounts_are_no_owners_and_found_nothing(org: Organization) -> None:
    with refused("RY422", "A service account may be viewer, operator or admin."):
        org.account("owner")
    with refused("RY403", "This is for people, not for service accounts."):
        org.acting(org.account("admin")).call("create_organization", p_name="X", p_slug="x-of-an-account")


def test_a_role_counts_in_the_whole_organisation(org: Organization) -> None:
    org.group("platform")
    with refused("RY422", "A service account with a role serves the whole organisation."):
        org.account("operator", path="platform")
    scoped = org.account(path="platform")
    with refused("RY422", "A service account with a role serves the whole organisation."):
        org.owner.call("update_service_account", p_account=scoped["id"], p_spec={"role": "viewer"})


def test_an_unassigned_account_learns_why(world: World, org: Organization, other_org: Organization) -> None:
    account, foreign = org.account(name="deployer"), other_org.account()
    worker = org.worker("r1")
    opening = {"p_worker": worker, "p_instance": "one", "p_boot_id": "7b0c4b53-3b0f-4f0b-8f62-0f0f0f0f0f0f"}
    with refused("RY403", 'The service account "deployer" is not assigned to this runner.'):
        world.service.call("open_worker_session", **opening, **world.proof(account["id"]))
    with refused("RY403", 'The service account "deployer" is not assigned to this runner.'):
        world.service.call("check_worker_credential", p_worker=worker, **world.proof(account["id"]))
    with refused("RY403", "These credentials do not belong to this runner."):
        world.service.call("check_worker_credential", p_worker=worker, **world.proof(foreign["id"]))
    org.owner.call("update_worker", p_worker=worker, p_options={"service_account_id": account["id"]})
    world.service.call("open_worker_session", **opening, **world.proof(account["id"]))
