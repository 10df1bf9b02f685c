"""The job's identities in clouds: a token file for each, renewed in place while the job runs."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worker.api.replies import IssuedToken, IssuedTokens
from worker.api.retrying import retry_for
from worker.attempt.workspace import Workspace
from worker.clock import backoff
from worker.errors import JobFailed, Retryable, WorkerError
from worker.exchange import GOOGLE_ACCOUNTS, GOOGLE_TOKENS, JWT_TYPE, exchange
from worker.files.own_files import remove_own, replace_own
from worker.vaults import log_in

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
    other: Found = ({"RUNYARD_ID_TOKEN_FILE": str(files.token)}, {})
    variables, beside = _PROVIDERS[kind](files) if kind in _PROVIDERS else other
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


_PROVIDERS = {"aws": _aws, "gcp": _gcp, "azure": _azure, "vault": _vault, "kubernetes": _kubernetes}


FIRST_TOKENS_SECONDS = 60.0
# Renewed at half of their life, so that an SDK that reads the file always has some time left.
_RENEW_AT = 0.5
_SHORTEST_WAIT_SECONDS = 1.0
# Renewed so, older tokens have expired: the log need not look for them any more.
_LIVE_GENERATIONS = 3


async def give_identities(space: Workspace) -> None:
    """Write the tokens, point the providers at them, and renew them until the attempt ends."""
    server = space.context.server
    known = await server.identities(space.ref)
    for kind in known.withheld:
        _withhold(space, kind)
    if not known.identities:
        return
    try:
        issued = await retry_for(FIRST_TOKENS_SECONDS, lambda: server.identity_tokens(space.ref))
    except Retryable as error:
        # Without its own identity a job would act with whatever credentials the machine has.
        hint = error.hint or "Check the edge function job-identity of the project."
        raise JobFailed(
            f"The job's identities are not available: {error.message}", code="no_identity", hint=hint
        ) from error
    folder = space.root / "identity"
    folder.mkdir(mode=0o700)
    await write_tokens(space, issued)
    for each in issued.tokens:
        files = IdentityFiles(each, folder, issued.phase, f"runyard-{space.job.id}-{space.job.attempt}")
        _configure(space, files)
        if each.kind == "vault":
            await _log_in_to_vault(space, files)
    renewing = asyncio.create_task(keep_renewed(space, issued))
    space.leaving.push_async_callback(_end, renewing)


async def write_tokens(space: Workspace, issued: IssuedTokens, expired: IssuedTokens | None = None) -> None:
    """Put each token where the job reads it; none is shown in the log."""
    await asyncio.to_thread(space.log.hide, issued.secrets, expired.secrets if expired else ())
    for each in issued.tokens:
        await asyncio.to_thread(replace_own, space.root, _file(space, each.name), each.token.encode())


async def keep_renewed(
    space: Workspace, issued: IssuedTokens, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Renew the tokens until the server refuses: then the attempt has lost its lease, and the files are removed."""
    known, failures = deque([issued]), 0
    while True:
        wait = max(_SHORTEST_WAIT_SECONDS, known[-1].expires_in * _RENEW_AT)
        await sleep(backoff(failures) if failures else wait)
        try:
            known.append(await space.context.server.identity_tokens(space.ref))
            await write_tokens(space, known[-1], expired=known.popleft() if len(known) > _LIVE_GENERATIONS else None)
            failures = 0
        except WorkerError as error:
            # The runner retries after a refusal by something on the way; only the project's own refusal is final.
            if error.is_ours and not isinstance(error, Retryable):
                _remove_tokens(space, issued, error.message)
                return
            failures += 1
        except OSError as error:
            failures += 1
            space.say(f"[runyard] The job's tokens could not be written: {error.strerror}")


def _remove_tokens(space: Workspace, issued: IssuedTokens, why: str) -> None:
    space.say(f"[runyard] The job's identities end here: {why}")
    for each in issued.tokens:
        with suppress(OSError):
            remove_own(space.root, _file(space, each.name))


def _withhold(space: Workspace, kind: str) -> None:
    """Take the machine's credentials for a provider away: without its identity, the job would act as the machine."""
    left_out = _leave_out(space, [name for name in space.env if name.startswith(PROVIDER_VARIABLES.get(kind, ()))])
    space.say(f"Identity {kind} is withheld from the plan of a pull request{left_out}")


def _leave_out(space: Workspace, names: Iterable[str]) -> str:
    dropped = sorted(space.env.keys() & set(names))
    space.env = {name: value for name, value in space.env.items() if name not in dropped}
    return f"; left out of its environment: {', '.join(dropped)}" if dropped else ""


def _configure(space: Workspace, files: IdentityFiles) -> None:
    setup = set_up(files)
    for path, content in setup.files.items():
        replace_own(space.root, path, content)
    left_out = _leave_out(space, setup.rivals)
    space.env = {**space.env, **setup.variables}
    role = files.setting("role") or files.setting("account") or files.setting("client_id")
    space.say(f"Identity {files.identity.name}, phase {files.phase}{f': {role}' if role else ''}{left_out}")


async def _log_in_to_vault(space: Workspace, files: IdentityFiles) -> None:
    """Give the job a token of Vault itself: neither its provider nor its command reads the issuer's token from a file."""
    address, mount = files.setting("address"), files.setting("mount") or "jwt"
    try:
        token = await log_in(address, mount, files.setting("role"), files.identity.token, files.setting("namespace"))
    except Retryable as error:
        raise JobFailed(
            f"The job's identity in Vault is not available: {error.message}", code="no_identity",
            hint="Check the role's bound audience and claims: runyard identities test shows the token's.",
        ) from error  # fmt: skip
    await asyncio.to_thread(space.log.hide, [token])
    space.env = {**space.env, "VAULT_TOKEN": token}


def _file(space: Workspace, name: str) -> Path:
    return space.root / "identity" / f"{name}.jwt"


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def exchange_tokens(space: Workspace) -> None:
    """Try every identity before the job fails with the first refusal: a person repairs all of them at once."""
    server = space.context.server
    if not (await server.identities(space.ref)).identities:
        raise JobFailed("The module has no identity.", code="no_identity", hint="runyard identities attach adds one.")
    issued = await server.identity_tokens(space.ref)
    answers, problems = space.result.setdefault("identities", {}), []
    for each in issued.tokens:
        space.log.hide([each.token])
        files = IdentityFiles(each, space.root, issued.phase, f"runyard-{space.job.id}-{space.job.attempt}")
        try:
            answers[each.name] = await exchange(each.kind, files.setting, each.token, files.session_name)
        except Retryable as error:
            answers[each.name] = error.message
            problems.append(error.message)
        space.say(f"{each.name}: {answers[each.name]}")
    if problems:
        raise JobFailed(
            problems[0],
            code="identity_refused",
            hint="Compare the trust policy with the token: runyard identities test.",
        )
