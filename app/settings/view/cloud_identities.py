"""Cloud identities: the form, the trust that the other side needs, and what is known about whether it works."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from app.runners.view.deployment import check_words
from app.ui.form.fields import Checked, texts
from app.ui.view import Row, read

_ARN = re.compile(r"arn:aws[a-z-]*:iam::(\d{12}):role/[\w+=,.@/-]{1,128}")
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+){1,2}-\d")
_SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")
_GROUP = re.compile(r"sg-[0-9a-f]{8,17}")


class IdentityView(TypedDict):
    id: str
    name: str
    role: str
    role_arn: str
    external_id: str
    regions: str
    region_list: str
    runners: int
    check: str
    check_words: str
    test_job: int
    verified_at: str
    subnets: str
    security_groups: str


def build_view(row: Row, workers: Iterable[Row], jobs: Iterable[Row] = ()) -> IdentityView:
    key, arn = str(row["id"]), str(row.get("role_arn") or "")
    regions = [str(region) for region in row.get("regions") or []]
    network = row.get("network") or {}
    test = newest_test(key, jobs)
    check, said = check_words(row, test)
    return read(
        IdentityView,
        row,
        id=key,
        role=f"…{arn[len('arn:aws:iam::') :][8:]}" if len(arn) > 30 else arn,
        role_arn=arn,
        regions=region_words(regions),
        region_list=", ".join(regions),
        runners=sum(str(worker.get("cloud_identity_id")) == key for worker in workers),
        check=check,
        check_words=said,
        test_job=int(test["number"]) if test else 0,
        subnets=", ".join(network.get("subnets") or []),
        security_groups=", ".join(network.get("security_groups") or []),
    )


def region_words(regions: list[str]) -> str:
    shown = ", ".join(regions[:2])
    return f"{shown} and {len(regions) - 2} more" if len(regions) > 2 else shown


def newest_test(identity_id: str, jobs: Iterable[Row]) -> Row | None:
    """Find the job that last tried an identity, if it is still known here."""
    mine = [job for job in jobs if str(job.get("target_identity_id")) == identity_id]
    return max(mine, key=lambda job: int(job["id"]), default=None)


def trust_policy(external_id: str) -> str:
    """Write the trust that the role needs; the account that assumes it is where the runner with the rights runs."""
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::<account of the runner that deploys>:root"},
                "Action": "sts:AssumeRole",
                "Condition": {"StringEquals": {"sts:ExternalId": external_id}},
            }
        ],
    }
    return json.dumps(policy, indent=2)


def check_form(raw: object) -> Checked:
    form, checked = texts(raw), Checked()
    name, arn = form.get("name", "").strip(), form.get("role_arn", "").strip()
    regions = _list(form.get("regions", ""))
    if not 1 <= len(name) <= 100:
        checked.errors["name"] = "Enter a name of up to 100 characters."
    found = _ARN.fullmatch(arn)
    if found is None:
        checked.errors["role_arn"] = "An ARN like arn:aws:iam::123456789012:role/runyard-deploy."
    if not regions or not all(map(_REGION.fullmatch, regions)):
        checked.errors["regions"] = "At least one region, like eu-west-1."
    network = _network(form, checked)
    account = found[1] if found else ""
    checked.spec = {"name": name, "role_arn": arn, "account_id": account, "regions": regions, "network": network}
    return checked


def _network(form: Mapping[str, str], checked: Checked) -> dict[str, Any]:
    subnets, groups = _list(form.get("subnets", "")), _list(form.get("security_groups", ""))
    if not all(map(_SUBNET.fullmatch, subnets)):
        checked.errors["subnets"] = "Ids like subnet-0a1b2c3d, separated by commas."
    if not all(map(_GROUP.fullmatch, groups)):
        checked.errors["security_groups"] = "Ids like sg-0a1b2c3d, separated by commas."
    if not subnets:
        return {"create_vpc": True}
    return {"create_vpc": False, "subnets": subnets, "security_groups": groups}


def _list(text: str) -> list[str]:
    return list(dict.fromkeys(part for part in re.split(r"[,\s]+", text.strip()) if part))
