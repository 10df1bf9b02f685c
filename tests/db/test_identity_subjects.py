"""The subject of a job's token, and the trust that clouds are configured with: no organisation and no phase passes for another."""

import re
from typing import Any

import psycopg
import pytest

from tests.db.world import Organization, Runner, World, refused, this

ISSUER = "https://runyard.example/functions/v1/job-identity"
PLACE = ISSUER.removeprefix("https://")
ROLE = "arn:aws-cn:iam::123456789012:role"
AWS = {"kind": "aws", "settings": {"plan_role": f"{ROLE}/plan", "apply_role": f"{ROLE}/apply"}}
USUAL = "organization:{organization_id}:module:{module}:phase:{phase}"
HCP = "organization:{organization}:project:{group}:workspace:{workspace}:run_phase:{phase}"


@pytest.fixture
def org(world: World) -> Organization:
    return world.organization()


def set_template(org: Organization, template: str | None) -> str:
    return str(org.owner.call("set_identity_subject", p_org=org.id, p_template=template)["template"])


def subject(org: Organization, path: str, kind: str = "PLAN") -> str:
    preview = org.owner.call("preview_identities", p_module=org.modules.get(path) or org.module(path), p_type=kind)
    return str(preview["claims"]["sub"])


def policies(org: Organization, path: str, **spec: Any) -> dict[str, Any]:
    identity = org.owner.call("attach_identity", p_org=org.id, p_path=path, p_spec=spec or AWS)["id"]
    found: dict[str, Any] = org.owner.call("identity_trust_policies", p_job_identity=identity, p_issuer=ISSUER)
    return found


def trusts(policy: dict[str, Any], sub: str) -> bool:
    """Whether AWS would accept a subject, by its rules for StringLike."""
    (statement,) = policy["Statement"]
    pattern = re.escape(statement["Condition"]["StringLike"][f"{PLACE}:sub"]).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(pattern, sub) is not None


def test_subject_follows_the_organisations_template(world: World, org: Organization) -> None:
    runner = org.runner("holder", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    job = runner.claim_one()
    slug = world.owner.one("select slug from public.organizations where id = %s", org.id)

    def sub(of: Runner = runner) -> str:
        return str(of.call("worker_identities", **this(job))["claims"]["sub"])

    assert sub() == f"organization:{org.id}:module:a/b:phase:plan"
    assert set_template(org, HCP) == HCP
    assert sub() == f"organization:{slug}:project:a:workspace:a.b:run_phase:plan"
    assert set_template(org, None) == USUAL
    assert sub() == f"organization:{org.id}:module:a/b:phase:plan"
    with refused("RY403"):
        org.member("operator").call("set_identity_subject", p_org=org.id, p_template=HCP)


@pytest.mark.parametrize(
    "template",
    [
        USUAL,
        HCP,
        "organization:{organization_id}:module_id:{module_id}:phase:{phase}",
        "organization:{organization_id}:group:{group}:module:{module}:operation:{operation}:trust:{trust}:phase:{phase}",
    ],
)
def test_known_parts_between_organisation_and_phase_are_accepted(org: Organization, template: str) -> None:
    assert set_template(org, template) == template


@pytest.mark.parametrize(
    "template",
    [
        "",
        "x",
        "organization:{organization_id}:phase:{phase}",
        "organization:{organization_id}:group:{group}:phase:{phase}",
        "organization:{organization_id}:module:{module}",
        "module:{module}:organization:{organization_id}:phase:{phase}",
        "organization:acme:module:plat/{organization}/{module}:phase:{phase}",
        "organization:acme{organization}:module:{module}:phase:{phase}",
        "organization:{organization}acme:module:{module}:phase:{phase}",
        "x-organization:{organization_id}:module:{module}:phase:{phase}",
        "organization:{organization_id}:module:{module}:phase:apply",
        "organization:{organization_id}:module:{module}:phase:{operation}",
        "organization:{organization_id}:module:{module}:{operation}:phase:apply",
        "organization:{organization_id}:module:{module}:phase:{phase}:phase:apply",
        "organization:{organization_id}:module:{module}:phase:{phase}:",
        "organization:{organization_id}:module:plat/{module}:phase:{phase}",
        "organization:{organization_id}:module:{group}:phase:{phase}",
        "organization:{organization_id}::module:{module}:phase:{phase}",
        "organization:{organization_id}:module:{module}:phase:{phase} ",
        "organization:{organization_id}:module:{module}:phase:{phase}\n",
        "organization:{organization_id}:module:{module}:note:x:phase:{phase}",
        "organization:{organization_id}:module:{module}:*:phase:{phase}",
        "organization:{organization_id}:module:{module}:runner:{runner}:phase:{phase}",
        "Organization:{organization_id}:module:{module}:phase:{phase}",
        "organizati\u043en:{organization_id}:module:{module}:phase:{phase}",
        "organization:{organization_id}:module:{module}:phase:{phas\u0435}",
        "organization\uff1a{organization_id}:module:{module}:phase:{phase}",
        f"organization:{{organization_id}}{':module:{module}' * 40}:phase:{{phase}}",
    ],
)
def test_a_template_with_text_of_its_own_is_refused(world: World, org: Organization, template: str) -> None:
    with refused("RY422", "That is not a subject of a token.") as refusal:
        set_template(org, template)
    assert "begins with organization:{organization_id}" in (refusal.value.diag.message_hint or "")
    with pytest.raises(psycopg.errors.CheckViolation):
        world.owner.connection.execute(
            "insert into public.identity_subjects (org_id, template) values (%s, %s)", (org.id, template)
        )


@pytest.mark.parametrize("path", ["platform", "platform/network/vpc"])
def test_no_organisation_and_no_plan_has_the_subject_that_a_policy_trusts(world: World, path: str) -> None:
    """Another organisation has a slug, a group and a module by the same names."""
    org, other = world.organization(), world.organization()
    own, plan = subject(org, "platform/network/vpc", "APPLY"), subject(org, "platform/network/vpc")
    beside = subject(org, "platform2/network/vpc", "APPLY")
    wanted = policies(org, path)
    assert trusts(wanted["apply"], own)
    assert trusts(wanted["plan"], plan)
    assert not trusts(wanted["apply"], plan)
    assert not trusts(wanted["plan"], own)
    assert not trusts(wanted["apply"], beside)
    for template in (None, HCP, HCP.replace("run_phase", "phase").replace("project", "group")):
        set_template(other, template)
        for kind in ("PLAN", "APPLY"):
            assert not trusts(wanted["apply"], subject(other, "platform/network/vpc", kind))


def test_a_short_name_that_is_another_organisations_id_is_refused(world: World, org: Organization) -> None:
    for slug in (org.id, org.id.upper(), f" {org.id} "):
        with refused("RY422", "The name or the short name is not valid.") as refusal:
            world.user().call("create_organization", p_name="Mimic", p_slug=slug)
        assert "no UUID" in (refusal.value.diag.message_hint or "")
    other = world.organization().id
    with pytest.raises(psycopg.errors.CheckViolation):
        world.owner.connection.execute("update public.organizations set slug = %s where id = %s", (org.id, other))


def test_policy_names_provider_role_audience_and_organisation(org: Organization) -> None:
    org.module("apps/web")
    for path, modules in (("apps", "apps/*"), ("apps/web", "apps/web"), ("", "*")):
        (statement,) = policies(org, path)["plan"]["Statement"]
        assert statement == {
            "Effect": "Allow",
            "Principal": {"Federated": f"arn:aws-cn:iam::123456789012:oidc-provider/{PLACE}"},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {
                "StringEquals": {f"{PLACE}:aud": "aws.workload.identity"},
                "StringLike": {f"{PLACE}:sub": f"organization:{org.id}:module:{modules}:phase:plan"},
            },
        }


def test_other_clouds_get_the_claims_to_demand(org: Organization) -> None:
    org.module("apps/web")
    assert policies(org, "apps/web", kind="kubernetes", settings={"server": "https://k"})["apply"] == {
        "issuer": ISSUER,
        "audience": "https://k",
        "subject": f"organization:{org.id}:module:apps/web:phase:apply",
    }


def test_policies_follow_the_template(org: Organization) -> None:
    module = org.module("a/b/c")
    set_template(
        org, "organization:{organization_id}:project:{group}:workspace:{workspace}:trust:{trust}:run_phase:{phase}"
    )
    sub = f"organization:{org.id}:project:a/b:workspace:a.b.c:trust:*:run_phase:apply"
    assert policies(org, "a/b/c")["apply"]["Statement"][0]["Condition"]["StringLike"] == {f"{PLACE}:sub": sub}
    assert trusts(policies(org, "a/b/c")["apply"], subject(org, "a/b/c", "DESTROY"))
    assert trusts(policies(org, "a")["apply"], subject(org, "a/b/c", "DESTROY"))
    set_template(org, "organization:{organization_id}:module_id:{module_id}:phase:{phase}")
    assert policies(org, "a/b/c", kind="custom", name="x", audience="x")["plan"]["subject"] == (
        f"organization:{org.id}:module_id:{module}:phase:plan"
    )


def test_no_policy_is_printed_that_somebody_else_could_meet(org: Organization) -> None:
    org.module("a/b")
    set_template(org, HCP)
    with refused("RY409", "The subject of tokens has the organisation's short name, but not its id.") as refusal:
        policies(org, "a")
    assert "identities subject" in (refusal.value.diag.message_hint or "")
    # A pattern for a group would let every module of the organisation in.
    set_template(org, "organization:{organization_id}:module_id:{module_id}:phase:{phase}")
    with refused("RY409", "The subject of tokens does not show which group a module is in."):
        policies(org, "a")


def test_a_stranger_reads_no_policy(world: World, org: Organization) -> None:
    org.module("a/b")
    identity = org.owner.call("attach_identity", p_org=org.id, p_path="a", p_spec=AWS)["id"]
    assert org.member("viewer").call("identity_trust_policies", p_job_identity=identity, p_issuer=ISSUER)
    with refused("RY404", "There is no such identity of jobs."):
        world.organization().owner.call("identity_trust_policies", p_job_identity=identity, p_issuer=ISSUER)
