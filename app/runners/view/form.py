"""A runner as a form: what an admin may change, checked field by field."""

import re
from collections.abc import Mapping, Sequence
from typing import TypedDict

from app.ui.form import fields
from app.ui.form.fields import Checked, Wrong, texts
from app.ui.view import TYPE_WORDS, Row, read

# A select needs a value for "none of them".
# Where "Run a test plan" puts its temporary module.
TEST_GROUP, TEST_MODULE = "runyard", "runner-test"
NO_ACCOUNT = "none"
MOST_SLOTS = 256
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,61}[A-Za-z0-9])?")
_NEW_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class AccountChoice(TypedDict):
    id: str
    name: str
    client_id: str
    proof: str
    trusts: str


class RunnerForm(TypedDict):
    name: str
    labels: str
    capacity: str
    account_id: str
    allows_many: bool
    types: list[str]
    is_cloud: bool


EMPTY: RunnerForm = read(RunnerForm, {}, capacity="1", account_id=NO_ACCOUNT)


def read_runner(worker: Row) -> RunnerForm:
    return read(
        RunnerForm,
        worker,
        labels=" ".join(worker.get("labels") or []),
        capacity=worker.get("capacity") or 1,
        account_id=worker.get("service_account_id") or NO_ACCOUNT,
        allows_many=worker.get("allow_multiple_instances"),
        types=worker.get("accepted_job_types") or TYPE_WORDS,
        is_cloud=worker.get("type") == "cloud-hosted",
    )


def build_accounts(rows: Sequence[Row]) -> list[AccountChoice]:
    """List the accounts to choose from; a disabled one is marked, because nothing could sign in with it."""
    return [
        read(
            AccountChoice,
            row,
            name=f"{row['name']} (disabled)" if row.get("is_disabled") else str(row["name"]),
            proof="identity" if row.get("trusts") else "secret",
            trusts="\n\n".join(_trust_words(trust) for trust in row.get("trusts") or []),
        )
        for row in rows
    ]


def _trust_words(trust: Row) -> str:
    """Describe the issuer, the audience and the claims that the account's trust demands of a token."""
    claims = "\n".join(f"{name}: {value}" for name, value in (trust.get("bound_claims") or {}).items())
    return f"issuer: {trust.get('issuer')}\naudience: {trust.get('audience')}\n{claims}"


NAME_RULE = "Letters, digits, dots, dashes and underscores."


def new_name_problem(name: str) -> str:
    """Describe what is wrong with the name of a new runner; a space in it would only have to be quoted everywhere."""
    if not name or _NEW_NAME.fullmatch(name):
        return ""
    bent = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")
    proposal = f" Try {bent}." if _NEW_NAME.fullmatch(bent) else ""
    return f"{NAME_RULE} A letter or digit at both ends.{proposal}"


def account_of(value: str) -> str | None:
    """Read the chosen service account; none is a choice, too."""
    return None if value in ("", NO_ACCOUNT) else value


def check_host(form: Mapping[str, str]) -> Checked:
    """Check a new runner's settings for its host: labels and capacity."""
    checked = Checked()
    checked.spec = {
        "labels": checked.take("labels", form, fields.labels, []),
        "capacity": checked.take("capacity", form, lambda text: fields.whole_number(text, 1, MOST_SLOTS), 1),
    }
    return checked


def check_runner(raw: object, held: RunnerForm) -> Checked:
    """Check the form; the spec names only what differs from what is stored, so the audit log shows what was changed."""
    form = texts(raw)
    checked = check_host(form)
    spec = {
        "name": checked.take("name", form, _name, ""),
        **checked.spec,
        "accepted_job_types": _types(form, checked),
        "allow_multiple_instances": form.get("allows_many") in ("on", "true"),
        "service_account_id": account_of(form.get("account_id", held["account_id"])),
    }
    before = {
        "name": held["name"],
        "labels": held["labels"].split(),
        "capacity": int(held["capacity"]),
        "accepted_job_types": [name for name in TYPE_WORDS if name in held["types"]],
        "allow_multiple_instances": held["allows_many"],
        "service_account_id": account_of(held["account_id"]),
    }
    checked.spec = {key: value for key, value in spec.items() if value != before[key]}
    return checked


def _name(text: str) -> str:
    value = text.strip()
    if not _NAME.fullmatch(value):
        raise Wrong("Letters, digits, spaces, dots, dashes and underscores, up to 63; a letter or digit at both ends.")
    return value


def _types(form: Mapping[str, str], checked: Checked) -> list[str]:
    chosen = [name for name in TYPE_WORDS if form.get(f"type:{name}") in ("on", "true")]
    if not chosen:
        checked.errors["types"] = "Choose at least one job type."
    return chosen
