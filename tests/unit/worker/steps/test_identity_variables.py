"""The variables that each provider gets for an identity, in each phase."""

import json
from pathlib import Path
from typing import Any

import pytest

from worker.api.replies import IssuedToken
from worker.steps.identity import IdentityFiles, ProviderSetup, set_up

FOLDER = Path("/job/identity")
GCP = "projects/1/locations/global/workloadIdentityPools/p/providers/x"


def setup_of(kind: str, phase: str = "plan", name: str = "", **settings: str) -> ProviderSetup:
    token = IssuedToken(name=name or kind, kind=kind, token="x", settings=settings)
    return set_up(IdentityFiles(token, FOLDER, phase, "runyard-7-1"))


def written(setup: ProviderSetup) -> dict[str, Any]:
    [content] = setup.files.values()
    found: dict[str, Any] = json.loads(content)
    return found


@pytest.mark.parametrize(("phase", "role"), [("plan", "arn:plan"), ("apply", "arn:apply")])
def test_aws_assumes_the_role_of_the_phase(phase: str, role: str) -> None:
    setup = setup_of("aws", phase, plan_role="arn:plan", apply_role="arn:apply")
    assert setup.variables == {
        "RUNYARD_ID_TOKEN_FILE_AWS": "/job/identity/aws.jwt",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/job/identity/aws.jwt",
        "AWS_ROLE_ARN": role,
        "AWS_ROLE_SESSION_NAME": "runyard-7-1",
    }
    assert {"AWS_ACCESS_KEY_ID", "AWS_PROFILE"} <= set(setup.rivals)
    with_region = setup_of("aws", plan_role="r", apply_role="r", region="eu-west-1").variables
    assert (with_region["AWS_REGION"], with_region["AWS_DEFAULT_REGION"]) == ("eu-west-1", "eu-west-1")


def test_gcp_gets_an_external_account_that_reads_the_token_file() -> None:
    setup = setup_of("gcp", "apply", provider=GCP, plan_account="plan@x", apply_account="apply@x")
    assert setup.variables["GOOGLE_APPLICATION_CREDENTIALS"] == "/job/identity/gcp.json"
    described = written(setup)
    assert described["type"] == "external_account"
    assert described["audience"] == f"//iam.googleapis.com/{GCP}"
    assert described["credential_source"]["file"] == "/job/identity/gcp.jwt"
    assert "/serviceAccounts/apply@x:" in described["service_account_impersonation_url"]
    assert "service_account_impersonation_url" not in written(setup_of("gcp", provider=GCP))


def test_azure_gets_the_application_of_the_phase() -> None:
    setup = setup_of("azure", "apply", tenant_id="t", subscription_id="s", plan_client_id="p", apply_client_id="a")
    assert setup.variables["ARM_USE_OIDC"] == "true"
    assert setup.variables["ARM_OIDC_TOKEN_FILE_PATH"] == "/job/identity/azure.jwt"
    ids = [setup.variables[f"ARM_{name}_ID"] for name in ("CLIENT", "TENANT", "SUBSCRIPTION")]
    assert ids == ["a", "t", "s"]
    assert "ARM_CLIENT_SECRET" in setup.rivals


def test_vault_gets_address_role_and_mount() -> None:
    setup = setup_of("vault", address="https://v", plan_role="p", apply_role="a")
    assert setup.variables == {
        "RUNYARD_ID_TOKEN_FILE_VAULT": "/job/identity/vault.jwt",
        "VAULT_ADDR": "https://v",
        "RUNYARD_VAULT_ROLE": "p",
        "RUNYARD_VAULT_MOUNT": "jwt",
    }


def test_kubernetes_gets_a_configuration_whose_token_is_read_again() -> None:
    setup = setup_of("kubernetes", server="https://k", certificate_authority="LS0t")
    described = written(setup)
    assert setup.variables["KUBECONFIG"] == "/job/identity/kubernetes.json"
    assert described["users"][0]["user"] == {"tokenFile": "/job/identity/kubernetes.jwt"}
    cluster = {"server": "https://k", "certificate-authority-data": "LS0t"}
    assert described["clusters"][0]["cluster"] == cluster


def test_custom_audience_gets_a_file_of_its_own_name() -> None:
    assert setup_of("custom", name="my-registry").variables == {
        "RUNYARD_ID_TOKEN_FILE_MY_REGISTRY": "/job/identity/my-registry.jwt",
        "RUNYARD_ID_TOKEN_FILE": "/job/identity/my-registry.jwt",
    }
