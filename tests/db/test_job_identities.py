"""Job identities: the one that counts, the claims of a token, and the attempts that get them."""

import base64
import hashlib
from typing import Any

import pytest

from tests.db.world import Organization, Runner, User, World, refused, this

PLAN_ROLE = "arn:aws:iam::123456789012:role/plan"
APPLY_ROLE = "arn:aws:iam::123456789012:role/apply"
AWS = {"kind": "aws", "settings": {"plan_role": PLAN_ROLE, "apply_role": APPLY_ROLE}}


@pytest.fixture
def org(world: World) -> Organization:
    return world.organization()


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("holder", is_assigned_to_all_modules=True, capacity=3)


def attach(org: Organization, path: str, **spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = org.owner.call("attach_identity", p_org=org.id, p_path=path, p_spec=spec)
    return made


def given(runner: Runner, job: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = runner.call("worker_identities", **this(job))
    return answer


def audiences(answer: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["audience"] for each in answer["identities"]}


def test_nearest_identity_of_a_name_counts_and_others_are_inherited(org: Organization, runner: Runner) -> None:
    org.module("platform/network/vpc")
    org.module("platform2/vpc")
    attach(org, "", kind="custom", name="registry", audience="everywhere")
    attach(org, "platform", **AWS, audience="far")
    attach(org, "platform", kind="custom", name="registry", audience="near")
    attach(org, "platform/network/vpc", **AWS, audience="own")
    org.enqueue("platform/network/vpc")
    assert audiences(given(runner, runner.claim_one())) == {"aws": "own", "registry": "near"}
    org.enqueue("platform2/vpc")
    assert audiences(given(runner, runner.claim_one())) == {"registry": "everywhere"}


@pytest.mark.parametrize(
    ("kind", "phase"),
    [("PLAN", "plan"), ("DRIFT", "plan"), ("OUTPUT", "plan"), ("APPLY", "apply"), ("DESTROY", "apply")],
)
def test_phase_follows_the_type_of_the_job(org: Organization, runner: Runner, kind: str, phase: str) -> None:
    org.enqueue("a/b", kind)
    answer = given(runner, runner.claim_one())
    claims = answer["claims"]
    assert (answer["phase"], claims["runyard_phase"], claims["terraform_run_phase"]) == (phase,) * 3
    assert claims["sub"].endswith(f":module:a/b:phase:{phase}")


def test_claims_name_organisation_module_job_and_runner(world: World, org: Organization, runner: Runner) -> None:
    source = {"url": "https://git.example.org/x.git", "ref": "main"}
    module = org.module("apps/web/api", source_kind="git", source=source, approvals_required=1)
    job_id = org.enqueue("apps/web/api", "APPLY")
    assert runner.claim(1) == [], "an apply that waits for approval is nobody's, so that nobody gets its token"
    org.member("operator").call("approve_job", p_job=job_id, p_decision="approve")
    job = runner.claim_one()
    slug = world.owner.one("select slug from public.organizations where id = %s", org.id)
    assert given(runner, job)["claims"] == {
        "sub": f"organization:{org.id}:module:apps/web/api:phase:apply",
        "runyard_organization": slug,
        "runyard_organization_id": org.id,
        "runyard_group": "apps/web",
        "runyard_module": "apps/web/api",
        "runyard_module_id": module,
        "runyard_phase": "apply",
        "runyard_operation": "apply",
        "runyard_trust": "branch",
        "runyard_ref": "main",
        "runyard_job": job["id"],
        "runyard_attempt": 1,
        "runyard_runner": "holder",
        "runyard_approvals": 1,
        "terraform_organization_id": org.id,
        "terraform_organization_name": slug,
        "terraform_project_name": "apps/web",
        "terraform_workspace_id": module,
        "terraform_workspace_name": "apps.web.api",
        "terraform_full_workspace": f"organization:{slug}:project:apps/web:workspace:apps.web.api",
        "terraform_run_id": f"run-{job['id']}",
        "terraform_run_phase": "apply",
    }


def test_life_of_a_token_is_the_lease_and_15_minutes_during_a_change(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    assert 1 <= given(runner, job)["seconds"] <= 60
    runner.report(job, "APPLY")
    assert given(runner, job)["seconds"] == 900


def test_attempt_that_lost_its_lease_gets_no_claims(world: World, org: Organization, runner: Runner) -> None:
    org.enqueue("a/b")
    job = runner.claim_one()
    world.silence(runner)
    with refused("RY410", "The lease of attempt 1"):
        given(runner, job)
    world.up_for_long()
    world.sweep()
    with refused("RY410"):
        given(runner, job)


def test_held_attempt_gets_no_claims_until_its_runner_is_back(world: World, org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.report(job, "APPLY")
    world.lose(runner)
    assert world.status(job["id"]) == "NEEDS_ATTENTION"
    with refused("RY410"):
        given(runner, job)
    runner.heartbeat(running=[{"job": job["id"], "attempt": 1}])
    assert given(runner, job)["phase"] == "apply"


def test_ended_job_and_other_runner_get_no_claims(org: Organization, runner: Runner) -> None:
    other = org.runner("other")
    org.enqueue("a/b")
    job = runner.claim_one()
    with refused("RY410"):
        given(other, job)
    runner.finish(job, "FAILED")
    with refused("RY410"):
        given(runner, job)


def test_removed_group_or_module_leaves_no_identity_to_its_successor(org: Organization, runner: Runner) -> None:
    org.module("a/b")
    group = org.group("empty")["id"]
    for path in ("a/b", "empty"):
        attach(org, path, kind="custom", name="x", audience=path)
    org.owner.call("delete_module", p_module=org.modules.pop("a/b"), p_confirm_name="b")
    org.owner.call("delete_group", p_group=group)
    org.module("empty/b")
    for path in ("a/b", "empty/b"):
        org.enqueue(path)
        assert given(runner, runner.claim_one())["identities"] == []


def test_attaching_again_changes_it_and_detaching_ends_it(org: Organization, runner: Runner) -> None:
    org.module("a/b")
    first = attach(org, "a", **AWS)
    assert first["audience"] == "aws.workload.identity"
    assert attach(org, "a", **AWS, audience="other")["id"] == first["id"]
    org.enqueue("a/b")
    job = runner.claim_one()
    assert audiences(given(runner, job)) == {"aws": "other"}
    org.owner.call("detach_identity", p_job_identity=first["id"])
    assert given(runner, job)["identities"] == []
    with refused("RY404", "There is no such identity of jobs."):
        org.owner.call("detach_identity", p_job_identity=first["id"])


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"kind": "ibm"},
        {"kind": "aws", "settings": {"plan_role": PLAN_ROLE}},
        {"kind": "aws", "settings": {"plan_role": PLAN_ROLE, "apply_role": "admin"}},
        {"kind": "aws", "settings": {"plan_role": PLAN_ROLE, "apply_role": APPLY_ROLE, "secret": "x"}},
        {"kind": "aws", "settings": {"plan_role": PLAN_ROLE, "apply_role": APPLY_ROLE, "region": 1}},
        {"kind": "aws", "settings": {"plan_role": PLAN_ROLE, "apply_role": APPLY_ROLE, "region": "a\nb"}},
        {**AWS, "name": "production"},
        {**AWS, "audience": ""},
        {"kind": "gcp", "settings": {"provider": "runyard"}},
        {"kind": "azure", "settings": {"tenant_id": "x"}},
        {"kind": "vault", "settings": {"address": "vault.example", "plan_role": "a", "apply_role": "b"}},
        {"kind": "kubernetes", "settings": {}},
        {"kind": "custom", "name": "aws", "audience": "x"},
        {"kind": "custom", "name": "Up", "audience": "x"},
        {"kind": "custom", "name": "x"},
        {"kind": "custom", "audience": "x", "name": "x", "settings": {"a": "b"}},
        {"kind": "custom", "name": "x", "audience": "x", "settings": []},
        {"kind": "custom", "name": "x", "audience": "x", "role": "y"},
    ],
)
def test_identity_that_no_job_could_use_is_refused(org: Organization, spec: dict[str, Any]) -> None:
    with refused("RY422") as caught:
        attach(org, "", **spec)
    words = ("A field of the identity is missing or not valid.", "The settings of an identity are texts of one line.")
    assert str(caught.value.diag.message_primary).startswith((*words, "Unknown option:", "The options must be"))


def test_identity_needs_a_module_or_group_that_exists(org: Organization) -> None:
    with refused("RY404"):
        attach(org, "nowhere", **AWS)


def test_the_preview_shows_the_identities_and_claims_of_the_next_job(org: Organization, runner: Runner) -> None:
    module = org.module("a/b")
    attach(org, "a", **AWS)
    preview = org.member("viewer").call("preview_identities", p_module=module, p_type="APPLY")
    org.enqueue("a/b", "APPLY")
    claims = given(runner, runner.claim_one())["claims"]
    assert preview["claims"].items() <= claims.items()
    assert claims.keys() - preview["claims"].keys() == {
        "runyard_job", "runyard_attempt", "runyard_runner", "runyard_approvals", "terraform_run_id",
    }  # fmt: skip
    assert [each["name"] for each in preview["identities"]] == ["aws"]
    with refused("RY422", "That is not a job of a module."):
        org.owner.call("preview_identities", p_module=module, p_type="DEPLOY_WORKER")


def test_apply_token_names_commit_and_digest_of_its_plan(world: World, org: Organization, runner: Runner) -> None:
    source = {"url": "https://git.example.org/x.git", "ref": "main"}
    org.module("a/b", source_kind="git", source=source)
    org.enqueue("a/b")
    plan = runner.claim_one()
    assert "runyard_commit" not in given(runner, plan)["claims"], "the runner finds it later"
    digest = hashlib.sha256(b"plan").hexdigest()
    body = base64.b64encode(b"plan").decode()
    runner.call("worker_put_artifact", **this(plan), p_name="plan.tfplan", p_body_base64=body, p_sha256=digest)
    commit = "4f" * 20
    runner.finish(plan, p_result={"commit": commit, "has_changes": True})
    org.enqueue("a/b", "APPLY", plan_job_id=plan["id"])
    claims = given(runner, runner.claim_one())["claims"]
    assert claims["runyard_plan"] == f"sha256:{digest}"
    assert (claims["runyard_plan_job"], claims["runyard_commit"], claims["runyard_trust"]) == (
        plan["id"],
        commit,
        "branch",
    )


def put_env(org: Organization, by: User, **variables: str) -> None:
    sent = [{"kind": "env", "name": name, "value": value} for name, value in variables.items()]
    by.call("set_variables", p_org=org.id, p_path="a", p_variables=sent)


def test_hcp_variables_make_identities_and_attached_ones_win(org: Organization, runner: Runner) -> None:
    module = org.module("a/b")
    aws = {"TFC_AWS_PROVIDER_AUTH": "true", "TFC_AWS_RUN_ROLE_ARN": PLAN_ROLE, "TFC_AWS_APPLY_ROLE_ARN": APPLY_ROLE}
    with refused("RY403"):
        put_env(org, org.member("operator"), **aws)
    vault = {"TFC_VAULT_PROVIDER_AUTH": "true", "TFC_VAULT_ADDR": "https://v.example", "TFC_VAULT_RUN_ROLE": "r"}
    put_env(org, org.owner, **aws, **vault, TFC_GCP_PROVIDER_AUTH="false", TFC_VAULT_WORKLOAD_IDENTITY_AUDIENCE="v")
    preview = org.owner.call("preview_identities", p_module=module)
    assert audiences(preview) == {"aws": "aws.workload.identity", "vault": "v"}
    org.enqueue("a/b")
    job = runner.claim_one()
    settings = {each["name"]: each["settings"] for each in given(runner, job)["identities"]}
    assert settings["aws"] == {"plan_role": PLAN_ROLE, "apply_role": APPLY_ROLE}
    assert settings["vault"] == {"address": "https://v.example", "plan_role": "r", "apply_role": "r"}
    attach(org, "a", **AWS, audience="attached")
    assert audiences(given(runner, job))["aws"] == "attached"
    put_env(org, org.owner, TFC_AZURE_PROVIDER_AUTH="true")
    with refused("RY422", "TFC_AZURE_PROVIDER_AUTH is set, but not all that belongs to it."):
        org.owner.call("preview_identities", p_module=module)


def test_only_an_output_job_tests_identities(org: Organization) -> None:
    org.module("a/b")
    with refused("RY422", "Identities are tested by an output job."):
        org.enqueue("a/b", "APPLY", test_identities=True)
