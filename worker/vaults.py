"""The sources of a secret, read when it is needed: a file, a command, HashiCorp Vault, AWS Secrets Manager.

Nothing is cached: each sign-in reads again, so that rotation needs no restart.
"""

import asyncio
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from worker.children.child import output_of
from worker.download import ask
from worker.errors import Retryable

COMMAND, FILE, SECRETS_MANAGER = "command:", "file:", "aws-secretsmanager:"
SECONDS = 60.0
_AWS_SECRET = re.compile(r"(?:arn:[^:]*:secretsmanager:)?([a-z0-9-]+)[:/](.+)")

Register = Callable[..., None]


async def read_secret(
    source: str, environ: Mapping[str, str] | None = None, register: Register = lambda *_: None
) -> str:
    """Read a secret from its place; an error is retryable and names its cause. `register` receives the secret first."""
    environ = os.environ if environ is None else environ
    if source.startswith(COMMAND):
        found = await run_command(shlex.split(source.removeprefix(COMMAND)))
    elif source.startswith(FILE):
        found = _from_file(Path(source.removeprefix(FILE)).expanduser())
    elif source.startswith(SECRETS_MANAGER):
        found = await asyncio.to_thread(_from_secrets_manager, source.removeprefix(SECRETS_MANAGER))
    else:
        token = _vault_token(source, environ)
        register(token)
        found = await _from_vault(source, environ, token)
    if not found:
        raise Retryable(f"The secret of {source.partition('#')[0]} is empty.")
    register(found)
    return found


async def run_command(command: list[str]) -> str:
    """Run a command that prints a secret or a token."""
    if not command:
        raise Retryable("The command that prints the secret is empty.")
    try:
        code, output, errors = await output_of(command, SECONDS, errors=subprocess.PIPE)
    except TimeoutError as error:
        raise Retryable(f"{command[0]} did not answer within {SECONDS:.0f} s.") from error
    except OSError as error:
        raise Retryable(f"{command[0]} did not answer: {error}") from error
    if code != 0 or not output.strip():
        said = errors.decode(errors="replace").strip()[-300:]
        raise Retryable(f"{command[0]} ended with {code}: {said}")
    return output.decode(errors="replace").strip()


def _from_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Retryable(f"{file} cannot be read: {error.strerror}") from error


async def log_in(address: str, mount: str, role: str, jwt: str, namespace: str = "") -> str:
    """Exchange a token of an OIDC issuer for one of Vault's own."""
    place = f"{address.rstrip('/')}/v1/auth/{mount.strip('/')}/login"
    said = await _ask_vault("POST", place, namespace, {"role": role, "jwt": jwt})
    try:
        return str(said["auth"]["client_token"])
    except (KeyError, TypeError) as error:
        raise Retryable(f"{place} is not a login of Vault.") from error


async def _from_vault(source: str, environ: Mapping[str, str], token: str) -> str:
    """HashiCorp Vault's HTTP API: the address of a secret, and after # the field, `value` unless it says otherwise."""
    address, _, field = source.partition("#")
    said = await _ask_vault("GET", address, environ.get("VAULT_NAMESPACE", ""), token=token)
    data = said.get("data")
    # Version 2 of its key-value engine wraps the fields once more.
    fields = data.get("data") if isinstance(data, dict) and "metadata" in data else data
    if fields is None:
        raise Retryable(f"{address} is not a secret of Vault.")
    return _field(fields, field or "value", address)


async def _ask_vault(method: str, address: str, namespace: str, body: Any = None, token: str = "") -> dict[str, Any]:
    named = {"X-Vault-Request": "true", "X-Vault-Token": token, "X-Vault-Namespace": namespace}
    headers = {name: value for name, value in named.items() if value}
    try:
        async with httpx.AsyncClient(timeout=SECONDS) as http:
            answer = await ask(http, method, address, seconds=SECONDS, headers=headers, json=body)
        said = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Retryable(f"Vault at {urlsplit(address).netloc} does not answer: {error}") from error
    except ValueError:
        said = None
    if answer.is_redirect:
        raise Retryable(
            f"Vault at {urlsplit(address).netloc} sends the request elsewhere, where a token does not go.",
            hint="Name the place itself: VAULT_ADDR, or the identity's address.",
        )
    if answer.is_error:
        reasons = said.get("errors") if isinstance(said, dict) else None
        why = "; ".join(map(str, reasons or ())) or "no reason given"
        raise Retryable(f"Vault answered {answer.status_code} for {address}: {why}")
    if not isinstance(said, dict):
        raise Retryable(f"{address} is not a secret of Vault.")
    return said


def _vault_token(source: str, environ: Mapping[str, str]) -> str:
    address = source.partition("#")[0]
    if urlsplit(address).scheme not in ("http", "https"):
        raise Retryable(
            f"{address!r} is not a place for a secret.",
            hint="Write file:PATH, command:…, an address of Vault, or aws-secretsmanager:REGION/NAME.",
        )
    if token := environ.get("VAULT_TOKEN"):
        return token
    file = Path(environ.get("VAULT_TOKEN_FILE") or "~/.vault-token").expanduser()
    return _from_file(file)


def _from_secrets_manager(name: str) -> str:
    """AWS Secrets Manager: REGION/NAME or an ARN, and after # the field of a secret that is JSON."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    place, _, field = name.partition("#")
    if not (found := _AWS_SECRET.fullmatch(place)):
        raise Retryable(f"{place!r} names no secret of AWS Secrets Manager.", hint="Write REGION/NAME, or an ARN.")
    region, secret = found[1], place if place.startswith("arn:") else found[2]
    try:
        answer = boto3.client("secretsmanager", region_name=region).get_secret_value(SecretId=secret)
    except (BotoCoreError, ClientError) as error:
        raise Retryable(f"AWS Secrets Manager did not give {place}: {error}") from error
    text = str(answer.get("SecretString") or "")
    if not field:
        return text.strip()
    try:
        return _field(json.loads(text), field, place)
    except ValueError as error:
        raise Retryable(f"The secret {place} is not JSON, so it has no field {field}.") from error


def _field(fields: Any, field: str, place: str) -> str:
    if not isinstance(fields, dict) or field not in fields:
        raise Retryable(f"The secret {place} has no field {field!r}.")
    return str(fields[field]).strip()
