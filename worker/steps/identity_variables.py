"""The setup that each provider expects of an identity: variables, files beside the token, and no other credential in its way."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worker.api.replies import IssuedToken
from worker.exchange import GOOGLE_ACCOUNTS, GOOGLE_TOKENS, JWT_TYPE

# Credentials that a provider would prefer to the token; a job with an identity must not act as somebody else.
_RIVALS: dict[str, tuple[str, ...]] = {
    "aws": (
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    ),
    "gcp": (
        "GOOGLE_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON",
        "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE",
    ),
    "azure": (
        "ARM_CLIENT_SECRET", "ARM_CLIENT_SECRET_FILE_PATH", "ARM_CLIENT_CERTIFICATE", "ARM_CLIENT_CERTIFICATE_PATH", "ARM_USE_MSI",
        "ARM_USE_CLI", "ARM_OIDC_TOKEN", "ARM_OIDC_REQUEST_TOKEN", "ARM_OIDC_REQUEST_URL", "AZURE_CLIENT_SECRET",
        "AZURE_CLIENT_CERTIFICATE_PATH",
    ),
    "vault": ("VAULT_TOKEN",),
    "kubernetes": ("KUBE_TOKEN", "KUBE_HOST", "KUBE_CONFIG_PATHS", "KUBE_CLIENT_CERT_DATA", "KUBE_CLIENT_KEY_DATA", "KUBE_CTX"),
}  # fmt: skip

# Beginnings of all variables that configure a provider: a job from which an identity is withheld has none of them.
PROVIDER_VARIABLES: dict[str, tuple[str, ...]] = {
    "aws": ("AWS_",),
    "gcp": ("GOOGLE_", "GCLOUD_", "CLOUDSDK_"),
    "azure": ("ARM_", "AZURE_", "IDENTITY_", "IMDS_", "MSI_"),
    "vault": ("VAULT_",),
    "kubernetes": ("KUBE",),
}


@dataclass(frozen=True)
class IdentityFiles:
    """The place of an identity's token, with the phase and the session name of its use."""

    identity: IssuedToken
    folder: Path
    phase: str
    session_name: str

    @property
    def token(self) -> Path:
        """The file with the token."""
        return self.folder / f"{self.identity.name}.jwt"

    @property
    def beside(self) -> Path:
        """The file that describes the identity to a provider that needs more than the token."""
        return self.folder / f"{self.identity.name}.json"

    def setting(self, name: str) -> str:
        """A setting; those for one phase are named after it, such as plan_role."""
        settings = self.identity.settings
        return settings.get(name) or settings.get(f"{self.phase}_{name}") or ""


@dataclass(frozen=True)
class ProviderSetup:
    """The changes to a job's environment, and the files to write beside its tokens."""

    variables: dict[str, str] = field(default_factory=dict)
    files: dict[Path, bytes] = field(default_factory=dict)
    rivals: tuple[str, ...] = ()


def set_up(files: IdentityFiles) -> ProviderSetup:
    """Point a provider at the token of its identity."""
    kind = files.identity.kind
    variables, beside = _PROVIDERS.get(kind, _any)(files)
    own = {f"RUNYARD_ID_TOKEN_FILE_{files.identity.name.upper().replace('-', '_')}": str(files.token)}
    known = {name: value for name, value in variables.items() if value}
    written = {files.beside: json.dumps(beside).encode()} if beside else {}
    return ProviderSetup(own | known, written, _RIVALS.get(kind, ()))


Found = tuple[dict[str, str], dict[str, Any]]


def _aws(files: IdentityFiles) -> Found:
    region = files.setting("region")
    return {
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(files.token),
        "AWS_ROLE_ARN": files.setting("role"),
        "AWS_ROLE_SESSION_NAME": files.session_name,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
    }, {}


def _gcp(files: IdentityFiles) -> Found:
    account = files.setting("account")
    described = {
        "type": "external_account",
        "audience": f"//iam.googleapis.com/{files.setting('provider')}",
        "subject_token_type": JWT_TYPE,
        "token_url": GOOGLE_TOKENS,
        "credential_source": {"file": str(files.token), "format": {"type": "text"}},
        **(
            {"service_account_impersonation_url": f"{GOOGLE_ACCOUNTS}/{account}:generateAccessToken"} if account else {}
        ),
    }
    return {"GOOGLE_APPLICATION_CREDENTIALS": str(files.beside)}, described


def _azure(files: IdentityFiles) -> Found:
    client, tenant, token = files.setting("client_id"), files.setting("tenant_id"), str(files.token)
    return {
        "ARM_USE_OIDC": "true",
        "ARM_OIDC_TOKEN_FILE_PATH": token,
        "ARM_CLIENT_ID": client,
        "ARM_TENANT_ID": tenant,
        "ARM_SUBSCRIPTION_ID": files.setting("subscription_id"),
        "AZURE_FEDERATED_TOKEN_FILE": token,
        "AZURE_CLIENT_ID": client,
        "AZURE_TENANT_ID": tenant,
    }, {}


def _vault(files: IdentityFiles) -> Found:
    return {
        "VAULT_ADDR": files.setting("address"),
        "VAULT_NAMESPACE": files.setting("namespace"),
        "RUNYARD_VAULT_ROLE": files.setting("role"),
        "RUNYARD_VAULT_MOUNT": files.setting("mount") or "jwt",
    }, {}


def _kubernetes(files: IdentityFiles) -> Found:
    authority = files.setting("certificate_authority")
    cluster = {
        "server": files.setting("server"),
        **({"certificate-authority-data": authority} if authority else {}),
    }
    # Clients read a token file again each minute, a token in the file itself never.
    described = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "runyard", "cluster": cluster}],
        "users": [{"name": "runyard", "user": {"tokenFile": str(files.token)}}],
        "contexts": [{"name": "runyard", "context": {"cluster": "runyard", "user": "runyard"}}],
        "current-context": "runyard",
    }
    return {"KUBECONFIG": str(files.beside), "KUBE_CONFIG_PATH": str(files.beside)}, described


def _any(files: IdentityFiles) -> Found:
    return {"RUNYARD_ID_TOKEN_FILE": str(files.token)}, {}


_PROVIDERS = {"aws": _aws, "gcp": _gcp, "azure": _azure, "vault": _vault, "kubernetes": _kubernetes}
