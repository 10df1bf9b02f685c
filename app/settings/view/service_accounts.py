"""Service accounts: the form, and how each one signs in."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict
from urllib.parse import urlsplit

from app.runners.view.commands import AUDIENCE
from app.ui.form import fields
from app.ui.form.fields import Checked, Wrong, texts
from app.ui.view import Row, read

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,61}[A-Za-z0-9])?")

NO_ROLE = "none"
ROLES = (NO_ROLE, "viewer", "operator", "admin")


class TrustView(TypedDict):
    key: str
    issuer: str
    audience: str
    claims: str
    hint: str


class AccountView(TypedDict):
    id: str
    name: str
    client_id: str
    path: str
    description: str
    signs_in: str
    hint: str
    has_secret: bool
    is_disabled: bool
    last_used_at: str
    role: str
    trusts: list[TrustView]


def build_view(row: Row) -> AccountView:
    trusts = row.get("trusts") or []
    return read(
        AccountView,
        row,
        signs_in=_signs_in(trusts, bool(row.get("has_secret"))),
        hint=f"…{row['secret_hint']}" if row.get("secret_hint") else "",
        role=row.get("role") or NO_ROLE,
        trusts=[_trust_view(place, trust) for place, trust in enumerate(trusts)],
    )


def _signs_in(trusts: list[Row], has_secret: bool) -> str:
    hosts = ", ".join(dict.fromkeys(urlsplit(str(trust["issuer"])).netloc for trust in trusts))
    if not hosts:
        return "Client secret"
    return f"OIDC, issuer {hosts}{' or client secret' if has_secret else ''}"


def _trust_view(place: int, trust: Row) -> TrustView:
    return read(TrustView, trust, key=place, claims=json.dumps(trust["bound_claims"], indent=2))


def new_trust(key: str, platform: str) -> TrustView:
    """Trust in a platform's issuer, to be filled in."""
    chosen = PLATFORMS.get(platform, PLATFORMS["generic"])
    return {
        "key": key,
        "issuer": chosen.issuer,
        "audience": AUDIENCE,
        "claims": json.dumps(chosen.claims, indent=2),
        "hint": chosen.hint,
    }


def check_form(raw: object, *, is_new: bool, trusts: Sequence[TrustView] = ()) -> Checked:
    """Check a service account's form; `way` is oidc or secret, `trusts` are the issuers that it shows."""
    form, checked = texts(raw), Checked()
    name = form.get("name", "").strip()
    if not _NAME.fullmatch(name):
        checked.errors["name"] = "Letters, digits, spaces, dots, dashes and underscores, up to 63."
    description = checked.take("description", form, lambda text: fields.text_of(text.strip(), 500), "")
    checked.spec = {"name": name, "description": description}
    if is_new:
        checked.spec["path"] = checked.take("path", form, lambda text: text.strip() and fields.group_path(text), "")
    role = form.get("role", NO_ROLE)
    checked.spec["role"] = role if role in ROLES[1:] else None
    if checked.spec["role"] and checked.spec.get("path"):
        checked.errors["path"] = "An account with a role serves the whole organisation: leave the scope empty."
    if form.get("way") == "oidc":
        checked.spec["trusts"] = [_trust(form, checked, trust["key"]) for trust in trusts]
    return checked


def _trust(form: Mapping[str, str], checked: Checked, key: str) -> dict[str, Any]:
    return {
        "issuer": checked.take(f"issuer-{key}", form, _issuer, ""),
        "audience": checked.take(f"audience-{key}", form, _audience, ""),
        "bound_claims": checked.take(f"claims-{key}", form, _claims, {}),
    }


def _issuer(text: str) -> str:
    value = text.strip()
    parts = urlsplit(value)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or re.search(r"\s", value):
        raise Wrong("The issuer's address, beginning with https://.")
    return value


def _audience(text: str) -> str:
    value = text.strip()
    if not value or len(value) > 200:
        raise Wrong("The audience that its tokens must name.")
    return value


def _claims(text: str) -> dict[str, Any]:
    claims = fields.json_object(text)
    if not claims:
        example = '{"sub": "repo:infra/platform:ref:refs/heads/main"}'
        raise Wrong(f"At least one claim, for example {example}. Without one, everybody at this issuer could sign in.")
    if not all(isinstance(value, str | int | bool | list) for value in claims.values()):
        raise Wrong("Each claim has a text, a number or a list of them.")
    return claims


@dataclass(frozen=True)
class Platform:
    """A platform that runs workloads: the signer of its tokens, and the claims that distinguish one workload from all others."""

    label: str
    issuer: str
    claims: dict[str, Any]
    hint: str


PLATFORMS: dict[str, Platform] = {
    "github": Platform(
        "GitHub Actions",
        "https://token.actions.githubusercontent.com",
        {"repository": "OWNER/REPOSITORY", "ref": "refs/heads/main"},
        "The job needs permissions: id-token: write.",
    ),
    "gitlab": Platform(
        "GitLab",
        "https://gitlab.com",
        {"project_path": "GROUP/PROJECT", "ref": "main", "ref_type": "branch"},
        "The job names the audience under id_tokens.",
    ),
    "kubernetes": Platform(
        "Kubernetes",
        "https://OIDC-ISSUER-OF-THE-CLUSTER",
        {"sub": "system:serviceaccount:NAMESPACE:SERVICE-ACCOUNT"},
        "kubectl get --raw /.well-known/openid-configuration names the issuer; it must be public.",
    ),
    "aws": Platform(
        "AWS",
        "https://sts.amazonaws.com",
        {"role": "arn:aws:iam::123456789012:role/ROLE"},
        "The helper runyard-worker credential aws-iam signs who the machine is.",
    ),
    "generic": Platform(
        "Another issuer", "https://ISSUER", {"sub": "SUBJECT"}, "Bind what tells your workload from those of others."
    ),
}
