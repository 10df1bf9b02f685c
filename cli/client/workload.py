"""A pipeline's identity: the token that its platform gives it, or a client secret, becomes a service account's login."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from cli.client.api import Api, is_passing, refusal, said_by
from cli.client.http import Connection
from cli.errors import Missing, SignedOut

ACCOUNT = "RUNYARD_SERVICE_ACCOUNT"
SECRET = "RUNYARD_CLIENT_SECRET"  # noqa: S105  (the variable's name)
TOKEN = "RUNYARD_ID_TOKEN"  # noqa: S105  (the variable's name)
# The path at which Kubernetes projects a token with our audience, by docs/cli.md.
PROJECTED = Path("/var/run/secrets/runyard/token")
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
COMMAND_SECONDS = 60
# Renewed a little early: a token must not expire between here and the database.
EARLY_SECONDS = 30


@dataclass(frozen=True)
class Login:
    """The login that the project issued to the account."""

    token: str
    key: str
    organization: str
    expires_at: float


def is_wanted() -> bool:
    """Whether the environment names a service account."""
    return bool(os.environ.get(ACCOUNT))


def act(connection: Connection) -> tuple[Api, Login]:
    """Act as the service account that the environment names; a long command signs in again automatically."""
    first = sign_in(connection)
    return Api(connection, first.key, first.token, lambda: sign_in(connection).token), first


def sign_in(connection: Connection) -> Login:
    """Exchange what proves this pipeline for a short-lived token."""
    account = os.environ[ACCOUNT]
    proof = {"client_id": account, "scope": "api", **_proof()}
    reply = connection.request("POST", "/functions/v1/service-account-token", {}, proof)
    if is_passing(reply):
        raise refusal("service-account-token", reply)
    if reply.is_error:
        message, hint = said_by(reply)
        raise SignedOut(f"{account} could not sign in. {message}", hint or HINT)
    answer: dict[str, Any] = reply.json()
    expires_at = time.time() + float(answer["expires_in"]) - EARLY_SECONDS
    return Login(answer["access_token"], answer["publishable_key"], answer["organization_id"], expires_at)


HINT = "`runyard accounts list` shows what it trusts: issuer, audience and each bound claim must match the token."


def _proof() -> dict[str, str]:
    if secret := os.environ.get(SECRET):
        return {"grant_type": "client_credentials", "client_secret": secret}
    found = next(_tokens(), None)
    if found is None:
        raise Missing(
            f"{ACCOUNT} is set, but nothing here proves who this is.",
            f"GitHub Actions needs `permissions: id-token: write`; GitLab `id_tokens: {TOKEN}: aud: …`; elsewhere set "
            f"{TOKEN}, {TOKEN}_FILE or {TOKEN}_COMMAND, or {SECRET}.",
        )
    return {"grant_type": EXCHANGE, "subject_token": found()}


def _tokens() -> Iterator[Callable[[], str]]:
    """The ways to a token of this platform, the most explicit first."""
    environ = os.environ
    if environ.get(TOKEN):
        yield environ[TOKEN].strip
    if environ.get(f"{TOKEN}_FILE"):
        yield lambda: _read(Path(environ[f"{TOKEN}_FILE"]))
    if environ.get(f"{TOKEN}_COMMAND"):
        yield lambda: _run(environ[f"{TOKEN}_COMMAND"])
    if environ.get("ACTIONS_ID_TOKEN_REQUEST_URL") and environ.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN"):
        yield _from_github
    if PROJECTED.exists():
        yield lambda: _read(PROJECTED)


def _from_github() -> str:
    url = urlsplit(os.environ["ACTIONS_ID_TOKEN_REQUEST_URL"])
    asked = f"{url.path}?{'&'.join(filter(None, (url.query, urlencode({'audience': audience()}))))}"
    headers = {"Authorization": f"Bearer {os.environ['ACTIONS_ID_TOKEN_REQUEST_TOKEN']}", "Accept": "application/json"}
    reply = Connection(f"{url.scheme}://{url.netloc}").request("GET", asked, headers)
    if is_passing(reply):
        raise refusal("GitHub", reply)
    if reply.is_error:
        raise SignedOut(
            f"GitHub gave no identity token: HTTP {reply.status}", "The job needs `permissions: id-token: write`."
        )
    return str(reply.json()["value"])


def audience() -> str:
    """The audience of a requested token; the account's trust names the same."""
    return os.environ.get("RUNYARD_AUDIENCE", "runyard")


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise Missing(
            f"{file} cannot be read: {error.strerror}", f"It should hold the identity token ({TOKEN}_FILE)."
        ) from error


def _run(command: str) -> str:
    import subprocess

    try:
        # The command is the pipeline's own, as is the environment that names it.
        done = subprocess.run(
            ["/bin/sh", "-c", command], capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True
        )
    except (subprocess.SubprocessError, OSError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip()[-300:]
        raise Missing(f"{TOKEN}_COMMAND gave no token: {said}", "It must print the token and end with 0.") from error
    return done.stdout.strip()
