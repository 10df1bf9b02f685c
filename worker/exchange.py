"""A cloud's answer to the token of a job, for people who test an identity before a job needs it."""

import asyncio
import base64
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx

from worker.download import ask
from worker.errors import Retryable
from worker.vaults import log_in

SECONDS = 30.0
GOOGLE_TOKENS = "https://sts.googleapis.com/v1/token"
GOOGLE_ACCOUNTS = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts"
GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
AZURE_LOGIN = "https://login.microsoftonline.com"
JWT_TYPE = "urn:ietf:params:oauth:token-type:jwt"
# A setting of the identity by its name, as it is in the phase of the job.
Setting = Callable[[str], str]


async def exchange(kind: str, setting: Setting, token: str, session_name: str) -> str:
    """Exchange a token and describe the identity that the cloud gives to the job; raise a refusal in the cloud's own words."""
    match kind:
        case "aws":
            region = setting("region") or "us-east-1"
            return await asyncio.to_thread(_assume_role, region, setting("role"), token, session_name)
        case "gcp":
            return await _ask_google(setting("provider"), setting("account"), token)
        case "azure":
            return await _ask_azure(setting("tenant_id"), setting("client_id"), token)
        case "vault":
            await log_in(setting("address"), setting("mount") or "jwt", setting("role"), token, setting("namespace"))
            return f"Vault accepts it for the role {setting('role')}"
        case "kubernetes":
            return await _review_self(setting("server"), setting("certificate_authority"), token)
        case _:
            return "a token was issued; the first job shows what the cloud answers"


def _assume_role(region: str, role: str, token: str, session_name: str) -> str:
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    sts = boto3.client("sts", region_name=region, config=Config(signature_version=UNSIGNED))
    try:
        found = sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName=session_name, WebIdentityToken=token)
    except (BotoCoreError, ClientError) as error:
        raise Retryable(f"AWS answered: {error}") from error
    return f"AWS takes it for {found['AssumedRoleUser']['Arn']}"


async def _ask_google(provider: str, account: str, token: str) -> str:
    """The pool exchanges the token, and the service account, if there is one, lets the result act for it."""
    asked = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "audience": f"//iam.googleapis.com/{provider}",
        "scope": GOOGLE_SCOPE,
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "subject_token_type": JWT_TYPE,
        "subject_token": token,
    }
    federated = await _post("Google", GOOGLE_TOKENS, data=asked)
    if not account:
        return f"Google accepts it for {provider}"
    bearer = {"authorization": f"Bearer {federated.get('access_token')}"}
    address = f"{GOOGLE_ACCOUNTS}/{quote(account, safe='@')}:generateAccessToken"
    await _post("Google", address, json={"scope": [GOOGLE_SCOPE]}, headers=bearer)
    return f"Google takes it for {account}"


async def _ask_azure(tenant: str, client: str, token: str) -> str:
    asked = {
        "grant_type": "client_credentials",
        "client_id": client,
        "scope": "https://management.azure.com/.default",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": token,
    }
    await _post("Azure", f"{AZURE_LOGIN}/{quote(tenant, safe='')}/oauth2/v2.0/token", data=asked)
    return f"Azure takes it for the application {client}"


async def _post(cloud: str, address: str, authority: str = "", **request: Any) -> dict[str, Any]:
    """Post and return the answer; a refusal is raised with the cloud's own words, which have no token in them."""
    try:
        trusted = ssl.create_default_context(cadata=base64.b64decode(authority).decode()) if authority else True
        async with httpx.AsyncClient(timeout=SECONDS, verify=trusted) as http:
            answer = await ask(http, "POST", address, seconds=SECONDS, **request)
        said = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ssl.SSLError) as error:
        raise Retryable(f"{cloud} does not answer: {error}") from error
    if not answer.is_error and isinstance(said, dict):
        return said
    raise Retryable(f"{cloud} answered {answer.status_code}: {_words(said)[:500]}")


def _words(said: Any) -> str:
    """OAuth describes an error in a field of its own, Google's other services inside of the error, Kubernetes beside it."""
    if not isinstance(said, dict):
        return "no words"
    error = said.get("error")
    inner = error.get("message") if isinstance(error, dict) else error
    return str(said.get("error_description") or inner or said.get("message") or "no words")


async def _review_self(server: str, authority: str, token: str) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    address = f"{server.rstrip('/')}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    said = await _post("Kubernetes", address, authority, json=body, headers={"authorization": f"Bearer {token}"})
    return f"Kubernetes takes it for {said['status']['userInfo']['username']}"
