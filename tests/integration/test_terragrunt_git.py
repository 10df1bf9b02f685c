"""Terragrunt's files in pull requests: from a signed webhook to the plans of the units that read what it changes."""

from typing import Any

import pytest

from tests.integration.git_bench import Followed
from tests.integration.test_dependencies import terminal
from tests.integration.test_git_push import Repository
from tests.integration.test_terragrunt import WITHOUT_BACKEND, fleet, live, moved_in, terragrunt
from tests.integration.worker_bench import Bench, bench
from tests.support.terminal import Terminal
from tests.unit.worker.steps.git_places import git

__all__ = ["bench", "fleet", "terminal", "terragrunt"]
PROD, OTHER = "prod/eu-west-1", "non-prod/us-east-1"
# The output of what each unit depends on, as it was applied; for its region.
UPSTREAM = {"vpc": "none", "mysql": "vpc-{0}-1-none", "app": "mysql-{0}-1-vpc-{0}-1-none"}


class Live(Repository):
    """The live layout with one unit that includes nothing; its modules are made by an import, and follow main."""

    def __init__(self, bench: Bench) -> None:
        """Make the repository with the layout, and import it."""
        folder = bench.folder / "live"
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        Followed.__init__(self, bench, folder, f"file://{folder}")

    def commit(self, message: str = "change", **contents: str) -> str:
        """Write the layout with the first commit, then files by their paths."""
        if not (self.folder / "root.hcl").exists():
            live(self.folder)
            contents = {
                "root.hcl": WITHOUT_BACKEND,
                "alone/terragrunt.hcl": "",
                "alone/main.tf": 'output "x" { value = 1 }\n',
            }
        for name, text in contents.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", message)
        return self.head()

    def publish(self, *_: str) -> None:
        self.units = moved_in(self.bench, self.url)

    def _module(self, name: str) -> str:
        return ""

    def pull(self, number: int, **contents: str) -> dict[str, Any]:
        """Open a pull request; returns the delivery once it has a verdict."""
        git(self.folder, "checkout", "-q", "-b", f"change-{number}", "main")
        head = self.commit(f"Change {number}", **contents)
        git(self.folder, "checkout", "-q", "main")
        assert self.announce_pull(number, head).status_code == 202
        return self.decided(pull_request=number)

    def planned_for(self, number: int) -> dict[str, dict[str, Any]]:
        """The plans of a pull request, by the unit's folder."""
        folders = {module: folder for folder, module in self.units.items()}
        rows = self.bench.rows("provision_jobs", org_id=self.bench.org, type="PLAN")
        mine = [row for row in rows if row["payload"]["options"].get("git", {}).get("pull_request") == number]
        return {folders[row["module_id"]]: row for row in mine}


@pytest.fixture
def repository(fleet: Bench, terminal: Terminal) -> Live:
    """All units are applied, in order, and the repository was read once."""
    made = Live(fleet)
    group = fleet.rows("modules", id=made.units["alone"])[0]["path"].split("/")[0]
    done = terminal.run("groups", "apply", group, "--yes", "--wait")
    assert done.returncode == 0, done.stdout + done.stderr
    made.poll()
    return made


def units(*places: str) -> set[str]:
    return {f"{place}/{kind}" for place in places for kind in ("vpc", "mysql", "app")}


def test_a_pull_request_plans_the_units_that_read_what_it_changes(repository: Live, terminal: Terminal) -> None:
    """The root file is every unit's but one, an account's file its units', and a file that nobody reads is nobody's."""
    bench, known = repository.bench, {each["id"] for each in repository.bench.rows("provision_jobs")}
    root = WITHOUT_BACKEND.replace("account.locals.name}", "account.locals.name}-all")
    account = 'locals {\n  name = "production"\n}\n'
    changes = {
        7: ({"root.hcl": root}, units(PROD, OTHER), "prod-all"),
        8: ({"prod/account.hcl": account}, units(PROD), "production"),
        9: ({"README.md": "Read me.\n"}, set(), ""),
    }
    for number, (contents, expected, words) in changes.items():
        row = repository.pull(number, **contents)
        assert row["verdict"] == ("PLANNED" if expected else "NOTHING"), row["reason"]
        for made in row["set_ids"]:
            done = terminal.run("groups", "progress", made, "--wait")
            assert done.returncode == 0, done.stdout + done.stderr
        plans = repository.planned_for(number)
        assert plans.keys() == expected
        for folder, plan in plans.items():
            head = git(repository.folder, "rev-parse", f"change-{number}")
            assert (plan["status"], plan["result"]["commit"], plan["plan_summary"]["update"]) == ("SUCCEEDED", head, 1)
            _, region, kind = folder.split("/")
            said = words if folder in units(PROD) else "non-prod-all"
            assert f'"{said} {region} {UPSTREAM[kind].format(region)} 1"' in bench.log_of(plan["id"])
    begun = [each for each in bench.rows("provision_jobs") if each["id"] not in known]
    assert {each["type"] for each in begun} == {"RESOLVE", "PLAN"}
    assert len([each for each in begun if each["type"] == "PLAN"]) == 9
