"""Where a secret is read from when it is needed: a file, a command, HashiCorp Vault, AWS Secrets Manager.

Nothing is cached: each sign-in reads again, so that rotation needs no restart.
"""

import asyncio
import json
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from worker.errors import Retryable

COMMAND, FILE, SECRETS_MANAGER = "command:", "file:", "aws-secretsmanager:"
SECONDS = 60.0

Register = Callable[..., None]


def _unknown(*_: str) -> None:
    return


async def read_secret(source: str, environ: Mapping[str, str] | None = None, register: Register = _unknown) -> str:
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
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise Retryable(f"{command[0]} did not answer: {error}") from error
    try:
        async with asyncio.timeout(SECONDS):
            output, errors = await process.communicate()
    except TimeoutError as error:
        process.kill()
        raise Retryable(f"{command[0]} did not answer within {SECONDS:.0f} s.") from error
    if process.returncode != 0 or not output.strip():
        said = errors.decode(errors="replace").strip()[-300:]
        raise Retryable(f"{command[0]} ended with {process.returncode}: {said}")
    return output.decode(errors="replace").strip()


def _from_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Retryable(f"{file} cannot be read: {error.strerror}") from error


async def _from_vault(source: str, environ: Mapping[str, str], token: str) -> str:
    """HashiCorp Vault's HTTP API: the address of a secret, and after # the field, `value` unless it says otherwise."""
    address, _, field = source.partition("#")
    headers = {"X-Vault-Token": token, "X-Vault-Request": "true"}
    if namespace := environ.get("VAULT_NAMESPACE"):
        headers["X-Vault-Namespace"] = namespace
    try:
        async with httpx.AsyncClient(timeout=SECONDS, follow_redirects=True) as http:
            answer = await http.get(address, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Retryable(f"Vault at {urlsplit(address).netloc} does not answer: {error}") from error
    try:
        said = answer.json()
        if answer.is_error:
            reasons = "; ".join(map(str, said["errors"])) or "no reason given"
            raise Retryable(f"Vault answered {answer.status_code} for {address}: {reasons}")
        data = said["data"]
    except (ValueError, KeyError, TypeError) as error:
        what = (
            f"Vault answered {answer.status_code} for {address}"
            if answer.is_error
            else f"{address} is not a secret of Vault"
        )
        raise Retryable(f"{what}.") from error
    # Version 2 of its key-value engine wraps the fields once more.
    fields = data["data"] if isinstance(data, dict) and "metadata" in data else data
    return _field(fields, field or "value", address)


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
    region, secret = (place.split(":")[3], place) if place.startswith("arn:") else place.split("/", 1)
    try:
        found = boto3.client("secretsmanager", region_name=region).get_secret_value(SecretId=secret)
    except (BotoCoreError, ClientError) as error:
        raise Retryable(f"AWS Secrets Manager did not give {place}: {error}") from error
    text = str(found.get("SecretString") or "")
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
