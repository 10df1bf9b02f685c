"""Runyard as an OIDC issuer, as clouds see it: its two documents, and the policy that trusts it."""

import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cli.client.api import Api
from cli.client.http import Connection
from cli.errors import CommandError

DISCOVERY = "/.well-known/openid-configuration"
KEYS = "/.well-known/jwks"
FUNCTION = "/functions/v1/job-identity"


class Documents(NamedTuple):
    """The documents of an issuer that a cloud reads."""

    discovery: dict[str, Any]
    keys: dict[str, Any]

    @property
    def issuer(self) -> str:
        """The address that tokens name."""
        return str(self.discovery["issuer"])


def project_documents(api: Api) -> Documents:
    """The documents as the project itself serves them."""
    return Documents(*(api.request("GET", FUNCTION + path, "job-identity") for path in (DISCOVERY, KEYS)))


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


USUAL_SUBJECT = "organization:{organization}:module:{module}:phase:{phase}"


def subject(slug: str, path: str, phase: str, *, is_group: bool, template: str = USUAL_SUBJECT) -> str:
    """The sub claim of a module's tokens, or the pattern of all modules below a group."""
    module = f"{path}/*".lstrip("/") if is_group else path
    known = {
        "organization": slug,
        "module": module,
        "workspace": module.replace("/", "."),
        "group": "*" if is_group else path.rpartition("/")[0],
        "phase": phase,
    }
    return re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], "*"), template)


def aws_policy(issuer: str, role: str, audience: str, wanted: str) -> dict[str, Any]:
    """The trust policy of an AWS role that tokens of this subject may assume."""
    _, partition, _, _, account, *_ = role.split(":")
    place = urlsplit(issuer)
    name = f"{place.netloc}{place.path}"
    provider = f"arn:{partition}:iam::{account}:oidc-provider/{name}"
    conditions = {"StringEquals": {f"{name}:aud": audience}, "StringLike": {f"{name}:sub": wanted}}
    statement = {
        "Effect": "Allow",
        "Principal": {"Federated": provider},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": conditions,
    }
    return {"Version": "2012-10-17", "Statement": [statement]}
