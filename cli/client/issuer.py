"""Runyard as an OIDC issuer, as clouds see it: its two documents."""

from typing import Any, NamedTuple

from cli.client.api import Api
from cli.client.http import Connection
from cli.errors import CommandError

DISCOVERY = "/.well-known/openid-configuration"
KEYS = "/.well-known/jwks"
RECORD_KEYS = "/.well-known/record-keys"
FUNCTION = "/functions/v1/job-identity"


class Documents(NamedTuple):
    """The documents of an issuer that a cloud reads."""

    discovery: dict[str, Any]
    keys: dict[str, Any]

    @property
    def issuer(self) -> str:
        """The address that tokens name."""
        return str(self.discovery["issuer"])


def project_document(api: Api, path: str) -> Any:
    """One of its documents, as the project itself serves it."""
    return api.request("GET", FUNCTION + path, "job-identity")


def project_documents(api: Api) -> Documents:
    """The documents as the project itself serves them."""
    return Documents(*(project_document(api, path) for path in (DISCOVERY, KEYS)))


def check_served(own: Documents) -> list[str]:
    """Explain why a cloud cannot trust the issuer, as far as this machine can see."""
    connection, problems = Connection(own.issuer), []
    for path, expected in ((DISCOVERY, own.discovery), (KEYS, own.keys)):
        try:
            served = connection.request("GET", path, {"Accept": "application/json"}).json()
        except CommandError as error:
            problems.append(error.message)
            continue
        if served != expected:
            problems.append(f"{own.issuer}{path} is not what the project serves.")
    if not own.issuer.startswith("https://"):
        problems.append(f"Clouds accept https addresses only, and the issuer is {own.issuer}.")
    return problems
