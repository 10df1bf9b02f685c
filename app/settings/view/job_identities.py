"""Identities of jobs in words: the roles, the last test, the form, and the policy that a cloud needs."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict
from urllib.parse import urlsplit

from app.ui.form.spec import Checked, texts
from app.ui.reader import read

Row = Mapping[str, Any]
KINDS = {
    "aws": "AWS roles",
    "gcp": "Google service accounts",
    "azure": "Azure applications",
    "vault": "Vault or OpenBao roles",
    "kubernetes": "Kubernetes API server",
    "custom": "Any other audience",
}
# The fields of each kind, as the form offers them.
FIELDS = {
    "aws": ("plan_role", "apply_role", "region"),
    "gcp": ("provider", "plan_account", "apply_account"),
    "azure": ("tenant_id", "subscription_id", "plan_client_id", "apply_client_id"),
    "vault": ("address", "plan_role", "apply_role", "mount", "namespace"),
    "kubernetes": ("server", "certificate_authority"),
    "custom": (),
}
USUAL_SUBJECT = "organization:{organization}:module:{module}:phase:{phase}"
RUNNING = ("QUEUED", "CLAIMED", "RUNNING")


class JobIdentityView(TypedDict):
    """One identity as the table and the form show it."""

    id: str
    name: str
    kind: str
    words: str
    path: str
    place: str
    audience: str
    roles: str
    text: str
    is_for_pull_requests: bool
    test: str
    test_words: str
    test_job: int


def build_view(row: Row, tests: Iterable[Row] = ()) -> JobIdentityView:
    """Put an identity into words; tests are jobs, the newest first."""
    settings = row.get("settings") or {}
    job = next((each for each in tests if _covers(str(row["path"]), str(each["module_path"]))), None)
    test, words = test_words(str(row["name"]), job)
    roles = [str(value) for key, value in sorted(settings.items()) if key.startswith(("plan_", "apply_"))]
    return read(
        JobIdentityView,
        row,
        words=KINDS[row["kind"]],
        place=row["path"] or "All modules",
        roles=", ".join(roles),
        text="\n".join(f"{key}={value}" for key, value in settings.items()),
        test=test,
        test_words=words,
        test_job=job and job["id"],
    )


def _covers(path: str, module: str) -> bool:
    return path in ("", module) or module.startswith(f"{path}/")


def test_words(name: str, job: Row | None) -> tuple[str, str]:
    """Describe how the last test ended, in the cloud's own words."""
    if job is None:
        return "NONE", "Not tested"
    if job["status"] in RUNNING:
        return "TESTING", "Testing"
    answer = str(((job.get("result") or {}).get("identities") or {}).get(name) or "")
    if job["status"] == "SUCCEEDED":
        return "WORKS", answer or "Accepted"
    return "REFUSED", answer or str((job.get("error") or {}).get("message") or "The test failed")


def check_form(raw: object, kind: str, *, is_for_pull_requests: bool) -> Checked:
    """Check the form of one identity; the database knows which fields a kind needs."""
    form, checked = texts(raw), Checked()
    lines = [line.partition("=") for line in form.get("settings", "").splitlines() if line.strip()]
    known = {key.strip(): value.strip() for key, _, value in lines}
    if unknown := sorted(set(known) - set(FIELDS.get(kind, ()))):
        checked.errors["settings"] = (
            f"Unknown: {', '.join(unknown)}. Known: {', '.join(FIELDS.get(kind, ())) or 'none'}."
        )
    spec = {"kind": kind, "settings": {key: value for key, value in known.items() if value}}
    optional = {"audience": form.get("audience", "").strip(), "name": form.get("name", "").strip()}
    if kind == "custom" and not all(optional.values()):
        checked.errors["audience"] = "A name and an audience are needed."
    named = {key: value for key, value in optional.items() if value and (key != "name" or kind == "custom")}
    checked.spec = {**spec, **named, "is_for_pull_requests": is_for_pull_requests}
    return checked


def subject(template: str, slug: str, path: str, phase: str, *, is_group: bool) -> str:
    """The sub claim of a module's tokens, or the pattern of all modules below a group."""
    module = f"{path}/*".lstrip("/") if is_group else path
    group = "*" if is_group else path.rpartition("/")[0]
    known = {
        "organization": slug,
        "module": module,
        "workspace": module.replace("/", "."),
        "group": group,
        "phase": phase,
    }
    return re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], "*"), template)


def trust_text(issuer: str, row: Row, phase: str, wanted: str) -> str:
    """Write the text to enter at the cloud: a trust policy for AWS, for others the three claims to demand."""
    if row["kind"] != "aws":
        return json.dumps({"issuer": issuer, "audience": row["audience"], "subject": wanted}, indent=2)
    role = str((row.get("settings") or {}).get(f"{phase}_role") or "")
    _, partition, _, _, account, *_ = role.split(":")
    place = urlsplit(issuer)
    name = f"{place.netloc}{place.path}"
    statement = {
        "Effect": "Allow",
        "Principal": {"Federated": f"arn:{partition}:iam::{account}:oidc-provider/{name}"},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {"StringEquals": {f"{name}:aud": row["audience"]}, "StringLike": {f"{name}:sub": wanted}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)
