"""What a cloud answers when a job shows it its token: for people who test an identity before a job needs it."""

import asyncio
import base64
import ssl
from collections.abc import Mapping

import httpx

from worker.errors import Retryable
from worker.vaults import log_in

SECONDS = 30.0


async def exchange(kind: str, settings: Mapping[str, str], role: str, token: str, session_name: str) -> str:
    """Exchange a token and say who the cloud takes the job for; what it refuses is raised in its own words."""
    match kind:
        case "aws":
            region = settings.get("region") or "us-east-1"
            return await asyncio.to_thread(_assume_role, region, role, token, session_name)
        case "vault":
            mount = settings.get("mount") or "jwt"
            await log_in(settings["address"], mount, role, token, settings.get("namespace", ""))
            return f"Vault accepts it for the role {role}"
        case "kubernetes":
            return await _review_self(settings["server"], settings.get("certificate_authority", ""), token)
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


async def _review_self(server: str, authority: str, token: str) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    address = f"{server.rstrip('/')}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    try:
        trusted = ssl.create_default_context(cadata=base64.b64decode(authority).decode()) if authority else True
        async with httpx.AsyncClient(timeout=SECONDS, verify=trusted) as http:
            answer = await http.post(address, json=body, headers={"authorization": f"Bearer {token}"})
        said = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ssl.SSLError) as error:
        raise Retryable(f"Kubernetes at {server} does not answer: {error}") from error
    if answer.is_error:
        raise Retryable(f"Kubernetes answered {answer.status_code}: {said.get('message')}")
    return f"Kubernetes takes it for {said['status']['userInfo']['username']}"
