"""Identities of jobs in words: the roles, the last test, and the form."""

from collections.abc import Iterable
from typing import TypedDict

from app.jobs.view.words import ACTIVE
from app.ui.form.fields import Checked, texts
from app.ui.view import Row, is_below, read

KINDS = {
    "aws": "AWS roles",
    "gcp": "Google service accounts",
    "azure": "Azure applications",
    "vault": "Vault or OpenBao roles",
    "kubernetes": "Kubernetes API server",
    "custom": "Any other audience",
}
# The fields of each kind, each with an example.
FIELDS = {
    "aws": {
        "plan_role": "arn:aws:iam::123456789012:role/runyard-plan",
        "apply_role": "arn:aws:iam::123456789012:role/runyard-apply",
        "region": "eu-west-1",
    },
    "gcp": {
        "provider": "projects/123456789012/locations/global/workloadIdentityPools/runyard/providers/runyard",
        "plan_account": "plan@project.iam.gserviceaccount.com",
        "apply_account": "apply@project.iam.gserviceaccount.com",
    },
    "azure": dict.fromkeys(
        ("tenant_id", "subscription_id", "plan_client_id", "apply_client_id"), "00000000-0000-0000-0000-000000000000"
    ),
    "vault": {
        "address": "https://vault.example.com:8200",
        "plan_role": "runyard-plan",
        "apply_role": "runyard-apply",
        "mount": "jwt",
        "namespace": "",
    },
    "kubernetes": {"server": "https://cluster.example.com:6443", "certificate_authority": ""},
    "custom": {},
}


class JobIdentityView(TypedDict):
    id: str
    name: str
    kind: str
    words: str
    path: str
    place: str
    audience: str
    roles: str
    settings: dict[str, str]
    test: str
    test_words: str
    test_job: int


def build_view(row: Row, tests: Iterable[Row] = ()) -> JobIdentityView:
    """Put an identity into words; tests are jobs, the newest first."""
    settings = row.get("settings") or {}
    job = next((each for each in tests if is_below(str(each["module_path"]), str(row["path"]))), None)
    test, words = test_words(str(row["name"]), job)
    roles = [str(value) for key, value in sorted(settings.items()) if key.startswith(("plan_", "apply_"))]
    return read(
        JobIdentityView,
        row,
        words=KINDS[row["kind"]],
        place=row["path"] or "All modules",
        roles=", ".join(roles),
        settings={key: str(settings.get(key) or "") for names in FIELDS.values() for key in names},
        test=test,
        test_words=words,
        test_job=job and job["id"],
    )


def test_words(name: str, job: Row | None) -> tuple[str, str]:
    """Describe how the last test ended, in the cloud's own words."""
    if job is None:
        return "NONE", "Not tested"
    if job["status"] in ACTIVE:
        return "TESTING", "Testing"
    answer = str(((job.get("result") or {}).get("identities") or {}).get(name) or "")
    if job["status"] == "SUCCEEDED":
        return "WORKS", answer or "Accepted"
    return "REFUSED", answer or str((job.get("error") or {}).get("message") or "The test failed")


def check_form(raw: object, kind: str) -> Checked:
    """Check the form of one identity; the database knows which fields a kind needs."""
    form, checked = texts(raw), Checked()
    given = {key: form.get(key, "").strip() for key in FIELDS.get(kind, ())}
    spec = {"kind": kind, "settings": {key: value for key, value in given.items() if value}}
    optional = {"audience": form.get("audience", "").strip(), "name": form.get("name", "").strip()}
    if kind == "custom" and not all(optional.values()):
        checked.errors["audience"] = "A name and an audience are needed."
    named = {key: value for key, value in optional.items() if value and (key != "name" or kind == "custom")}
    checked.spec = {**spec, **named}
    return checked
