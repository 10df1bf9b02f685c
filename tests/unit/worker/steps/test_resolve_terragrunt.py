"""Reading a repository with Terragrunt's files: a pull request plans the units whose files it changes, and no others."""

from pathlib import Path

import pytest

from tests.unit.worker.steps.git_places import git
from tests.unit.worker.steps.test_resolve import Place

pytestmark = pytest.mark.anyio
INCLUDE = 'include "root" {\n  path = find_in_parent_folders("root.hcl")\n}\n'
FILES = {
    "live/root.hcl": 'locals {\n  a = read_terragrunt_config(find_in_parent_folders("account.hcl"))\n}\n',
    "live/prod/account.hcl": "locals {}\n",
    "live/test/account.hcl": "locals {}\n",
    "live/prod/vpc/terragrunt.hcl": INCLUDE,
    "live/prod/vpc/main.tf": "locals {}\n",
    "live/prod/app/terragrunt.hcl": INCLUDE
    + 'terraform {\n  source = "${get_repo_root()}/code/app"\n}\ndependency "vpc" {\n  config_path = "../vpc"\n}\n',
    "live/test/vpc/terragrunt.hcl": INCLUDE,
    "alone/terragrunt.hcl": "",
    "alone/main.tf": "locals {}\n",
    "code/app/main.tf": "locals {}\n",
    "stack/terragrunt.stack.hcl": 'unit "dns" {\n  source = "../units/dns"\n  path   = "dns"\n}\n',
    "units/dns/terragrunt.hcl": "",
    "dns/main.tf": "locals {}\n",
}
UNITS = (
    "live/prod/vpc", "live/prod/app", "live/test/vpc", "alone", "stack/.terragrunt-stack/dns", "dns",
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    for name, text in FILES.items():
        (made.origin / name).parent.mkdir(parents=True, exist_ok=True)
        (made.origin / name).write_text(text)
    made.commit()
    return made


async def planned(place: Place, changed: str) -> set[str]:
    """The modules that a pull request would change that changes one file."""
    git(place.origin, "checkout", "-qb", "change")
    with (place.origin / changed).open("a") as file:
        file.write("# changed\n")
    git(place.origin, "add", "-A")
    git(place.origin, "commit", "-qm", "change")
    git(place.origin, "update-ref", "refs/pull/7/head", "HEAD")
    git(place.origin, "checkout", "-q", "main")
    pull = {"number": 7, "base": "main", "ref": "refs/pull/7/head"}
    found = await place.read(*({"folder": each} for each in UNITS), pull_requests=[pull])
    (seen,) = found["pull_requests"]
    assert {each["id"] for each in seen["modules"] if not each.get("is_missing")} == set(UNITS)
    return {each["id"] for each in seen["modules"] if each["fingerprint"] != each["base_fingerprint"]}


@pytest.mark.parametrize(
    ("changed", "units"),
    [
        ("live/root.hcl", {"live/prod/vpc", "live/prod/app", "live/test/vpc"}),
        ("live/prod/account.hcl", {"live/prod/vpc", "live/prod/app"}),
        ("live/prod/vpc/main.tf", {"live/prod/vpc", "live/prod/app"}),
        ("code/app/main.tf", {"live/prod/app"}),
        ("alone/terragrunt.hcl", {"alone"}),
        ("stack/terragrunt.stack.hcl", {"stack/.terragrunt-stack/dns"}),
        ("units/dns/terragrunt.hcl", {"stack/.terragrunt-stack/dns"}),
        ("README.md", set()),
    ],
)
async def test_a_pull_request_plans_the_units_that_read_what_it_changes(
    place: Place, changed: str, units: set[str]
) -> None:
    assert await planned(place, changed) == units
