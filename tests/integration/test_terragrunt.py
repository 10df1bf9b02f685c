"""Terragrunt itself around OpenTofu, with the layout of its live example: accounts, regions, an included root, dependencies."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.engines.cache import find
from cli.engines.catalog import ENGINES
from tests.integration.test_cli_state import commit
from tests.integration.test_dependencies import terminal
from tests.integration.test_group_review import review
from tests.integration.worker_bench import Bench, bench
from tests.support.must import unavailable
from tests.support.own_backend import run_bucket
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until
from tests.unit.worker.steps.git_places import git

__all__ = ["bench", "terminal"]

ROOT = """
locals {
  account = read_terragrunt_config(find_in_parent_folders("account.hcl"))
  region  = read_terragrunt_config(find_in_parent_folders("region.hcl"))
}
generate "tags" {
  path      = "tags.tf"
  if_exists = "overwrite_terragrunt"
  contents  = "locals { tags = \\"${local.account.locals.name}\\" }"
}
remote_state {
  backend  = "s3"
  generate = { path = "backend.tf", if_exists = "overwrite_terragrunt" }
  config = {
    bucket                      = "states"
    key                         = "${path_relative_to_include()}/terraform.tfstate"
    region                      = "eu-west-1"
    access_key                  = "test"
    secret_key                  = "test"
    endpoints                   = { s3 = "ENDPOINT" }
    use_path_style              = true
    use_lockfile                = true
    skip_credentials_validation = true
    skip_metadata_api_check     = true
    skip_requesting_account_id  = true
    skip_region_validation      = true
    skip_s3_checksum            = true
  }
}
inputs = {
  region = local.region.locals.region
}
"""
WITHOUT_BACKEND = ROOT.partition("remote_state")[0] + "inputs = {\n  region = local.region.locals.region\n}\n"
UNIT = """
include "root" {
  path = find_in_parent_folders("root.hcl")
}
terraform {
  source = "${get_repo_root()}/modules//%s"
}
"""
DEPENDENT = """
dependency "%(name)s" {
  config_path = "../%(name)s"
  mock_outputs = {
    id = "mock"
  }
  mock_outputs_merge_strategy_with_state = "shallow"
}
inputs = {
  upstream = dependency.%(name)s.outputs.id
}
"""
MODULE = """
variable "region" { type = string }
variable "size" { default = 1 }
variable "upstream" { default = "none" }
resource "terraform_data" "it" { input = "${local.tags} ${var.region} ${var.upstream} ${var.size}" }
output "id" { value = %s }
output "seen" { value = terraform_data.it.output }
"""
KNOWN = '"KIND-${var.region}-${var.size}-${var.upstream}"'


def written(top: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return top


def live(top: Path, endpoint: str = "http://127.0.0.1:9", **ids: str) -> Path:
    """Two accounts with a region each; `app` depends on `mysql`, and that on `vpc`."""
    files = {"root.hcl": ROOT.replace("ENDPOINT", endpoint)}
    for kind in ("vpc", "mysql", "app"):
        files[f"modules/{kind}/main.tf"] = MODULE % ids.get(kind, KNOWN.replace("KIND", kind))
    for account, region in (("prod", "eu-west-1"), ("non-prod", "us-east-1")):
        files[f"{account}/account.hcl"] = f'locals {{\n  name = "{account}"\n}}\n'
        files[f"{account}/{region}/region.hcl"] = f'locals {{\n  region = "{region}"\n}}\n'
        files[f"{account}/{region}/vpc/terragrunt.hcl"] = UNIT % "vpc"
        for kind, needs in (("mysql", "vpc"), ("app", "mysql")):
            files[f"{account}/{region}/{kind}/terragrunt.hcl"] = UNIT % kind + DEPENDENT % {"name": needs}
    return written(top, files)


@pytest.fixture
def terragrunt() -> Path:
    found = find(ENGINES["terragrunt"])
    if found is None:
        unavailable("terragrunt", "Terragrunt is not there; `runyard engines ensure terragrunt` provides it")
    return found


@pytest.fixture
def bucket() -> Iterator[Any]:
    with run_bucket() as client:
        yield client


@pytest.fixture
def fleet(bench: Bench, terragrunt: Path) -> Bench:
    """A bench with a runner that has both programs, and a place for each of three jobs: only order makes one wait."""
    bench.runner(
        options={"capacity": 3},
        RUNYARD__ENGINE__ADDITIONALBINARYPATHS=os.pathsep.join([str(bench.tofu.parent), str(terragrunt.parent)]),
    )
    return bench


def by_hand(bench: Bench, terragrunt: Path, top: Path, *arguments: str) -> str:
    """Run Terragrunt as people do, over everything below a folder."""
    env = {**os.environ, "TF_CLI_CONFIG_FILE": os.devnull, "TG_TF_PATH": str(bench.tofu), "TG_NON_INTERACTIVE": "true"}
    done = subprocess.run(
        [terragrunt, "run", "--all", "--", *arguments], cwd=top, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def read(bench: Bench, url: str) -> tuple[int, list[dict[str, Any]]]:
    made = bench.rpc("request_survey", p_org=bench.org, p_source={"group": f"in-{uuid.uuid4().hex[:6]}", "url": url})
    ended = bench.wait_job(made["id"])
    assert ended["status"] == "SUCCEEDED", ended["error"]
    return made["id"], bench.rpc("survey", p_org=bench.org, p_number=made["number"])["roots"]


def moved_in(bench: Bench, url: str) -> dict[str, str]:
    """Create a module for each unit, accept what the code depends on, and return the modules by folder."""
    job, roots = read(bench, url)
    assert {(each["engine"], each["problem"]) for each in roots} == {("terragrunt", "")}
    folders = [each["folder"] for each in roots]
    made = bench.rpc("bring_modules", p_job=job, p_folders=folders)
    for row in bench.rpc("list_dependencies", p_org=bench.org)["proposals"]:
        ends = {"p_consumer": row["consumer_id"], "p_producer": row["producer_id"]}
        bench.rpc("set_dependency", **ends, p_options={"bindings": row["bindings"]})
    return {folder: each["id"] for folder, each in zip(folders, made, strict=True)}


def applied_in_order(bench: Bench, terminal: Terminal, modules: dict[str, str], group: str) -> None:
    """Apply a group as one thing, and see that each unit began after the one that it depends on had ended."""
    done = terminal.run("groups", "apply", group, "--yes", "--wait")
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = {each["module_id"]: each for each in bench.rows("provision_jobs", type="APPLY", org_id=bench.org)}
    assert {each["status"] for each in jobs.values()} == {"SUCCEEDED"}
    assert jobs.keys() == set(modules.values())
    for folder, module in modules.items():
        place, _, kind = folder.rpartition("/")
        if kind != "vpc":
            before = jobs[modules[f"{place}/{'vpc' if kind == 'mysql' else 'mysql'}"]]
            assert before["finished_at"] <= jobs[module]["claimed_at"]


def test_a_live_layout_moves_in_is_changed_in_order_and_moves_out(
    fleet: Bench, terminal: Terminal, terragrunt: Path, bucket: Any, tmp_path: Path
) -> None:
    top = live(tmp_path / "live", bucket.meta.endpoint_url)
    url = commit(top)
    by_hand(fleet, terragrunt, top, "apply", "-auto-approve")
    before = kept(bucket)
    assert len(before) == 6
    modules = moved_in(fleet, url)
    assert len(modules) == 6
    app, vpc = (modules[f"prod/eu-west-1/{name}"] for name in ("app", "vpc"))
    undecided = fleet.wait_job(fleet.enqueue("PLAN", vpc))
    assert undecided["error"]["code"] == "backend_undecided"
    for folder in sorted(modules, key=lambda each: ("vpc", "mysql", "app").index(each.rpartition("/")[2])):
        brought = fleet.finished("PLAN", modules[folder], bring_state=True)
        assert brought["plan_summary"]["has_changes"] is False, fleet.log_of(brought["id"])
    (top / "prod" / "eu-west-1" / "vpc" / "size.auto.tfvars").write_text("size = 2\n")
    git(top, "add", "prod/eu-west-1/vpc/size.auto.tfvars")
    git(top, "commit", "-q", "-m", "Raise the size")
    applied_in_order(fleet, terminal, modules, fleet.rows("modules", id=app)[0]["path"].split("/")[0])
    newest = fleet.rpc("state_info", p_module=app)["serial"]
    body = fleet.rpc("state_version", p_module=app, p_serial=newest)["body"]
    assert "prod eu-west-1 mysql-eu-west-1-1-vpc-eu-west-1-2-none 1" in body
    assert kept(bucket) == before
    log = fleet.log_of(fleet.finished("PLAN", app)["id"])
    assert ("Around tofu" in log, "mock" in log) == (True, False)
    for folder, module in modules.items():
        newest = fleet.rpc("state_info", p_module=module)["serial"]
        state = fleet.rpc("state_version", p_module=module, p_serial=newest)["body"]
        bucket.put_object(Bucket="states", Key=f"{folder}/terraform.tfstate", Body=state.encode())
    assert by_hand(fleet, terragrunt, top, "plan", "-no-color").count("No changes.") == 6


def kept(bucket: Any) -> dict[str, bytes]:
    """The states in the bucket."""
    names = [
        each["Key"] for each in bucket.list_objects_v2(Bucket="states").get("Contents", []) if "prod/" in each["Key"]
    ]
    return {name: bucket.get_object(Bucket="states", Key=name)["Body"].read() for name in names}


def test_a_preview_of_three_units_shows_known_values_or_waits(fleet: Bench, terminal: Terminal, tmp_path: Path) -> None:
    """The size is in the known id of vpc, and thereby in mysql's plan; mysql's own id exists after its apply."""
    top = live(tmp_path / "live", mysql="terraform_data.it.id")
    (top / "root.hcl").write_text(WITHOUT_BACKEND)
    modules = moved_in(fleet, commit(top))
    app = modules["prod/eu-west-1/app"]
    assert fleet.wait_job(fleet.enqueue("PLAN", app))["error"]["code"] == "bound_input_missing"
    group = fleet.rows("modules", id=app)[0]["path"].rpartition("/")[0]
    planned = terminal.run("groups", "plan", group, "--wait")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    made = terminal.json("groups", "sets")[0]["id"]
    rows = review(terminal, made)
    assert (rows[f"{group}/vpc"]["decision"], rows[f"{group}/mysql"]["is_preview"]) == ("apply", True)
    assert rows[f"{group}/app"]["message"] == f"Waits for {group}/mysql: `id` is known after apply."
    (preview,) = fleet.rows("provision_jobs", number=rows[f"{group}/mysql"]["job_number"], org_id=fleet.org)
    log = fleet.log_of(preview["id"])
    assert ("prod eu-west-1 vpc-eu-west-1-1-none 1" in log, "This plan is never applied." in log) == (True, True)
    assert "mock" not in log
    # Each confirmation applies what is known; what waited for it is planned then.
    for name in ("vpc", "mysql", "app"):
        wait_until(lambda: waiting(terminal, made) == [f"{group}/{name}"], timeout_seconds=300)  # noqa: B023
        done = terminal.run("groups", "confirm", made, "--wait", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
    known = terminal.run("modules", "outputs", f"{group}/mysql", "id").stdout.strip()
    assert terminal.run("modules", "outputs", f"{group}/app", "seen").stdout.strip() == f"prod eu-west-1 {known} 1"


def waiting(terminal: Terminal, made: str) -> list[str]:
    """The modules of a set whose plans can be applied now."""
    return [path for path, row in review(terminal, made).items() if row["decision"] == "apply"]


def test_a_unit_without_its_binding_is_refused_and_proposes_it(fleet: Bench, tmp_path: Path) -> None:
    top = live(tmp_path / "live")
    (top / "root.hcl").write_text(WITHOUT_BACKEND)
    source = {"url": commit(top), "subfolder": "prod/eu-west-1/mysql"}
    unit = fleet.module(engine="terragrunt", source_kind="git", source=source)
    vpc = fleet.module(engine="terragrunt", source_kind="git", source={**source, "subfolder": "prod/eu-west-1/vpc"})
    refused = fleet.wait_job(fleet.enqueue("PLAN", unit))
    assert refused["error"]["code"] == "dependency_unbound"
    assert "gives outputs that are not bound: vpc:id" in refused["error"]["message"]
    (proposed,) = fleet.rpc("list_dependencies", p_org=fleet.org)["proposals"]
    assert (proposed["producer_id"], proposed["bindings"]) == (vpc, {"vpc:id": "id"})


STACK = """
unit "vpc" {
  source = "../units/vpc"
  path   = "vpc"
}
unit "app" {
  source = "../units/app"
  path   = "app"
  values = { network = "../vpc" }
}
"""
HOOKED = """
terraform {
  source = "${get_repo_root()}/modules/app"
  before_hook "said" {
    commands = ["plan"]
    execute  = ["sh", "-c", "echo hook-$RUNYARD_MODULE_PATH; cat /etc/shadow >/dev/null 2>&1 || echo closed"]
  }
  extra_arguments "small" {
    commands  = ["plan"]
    arguments = ["-var", "size=7"]
  }
}
dependency "network" {
  config_path = values.network
}
inputs = {
  region   = run_cmd("--terragrunt-quiet", "echo", "moon")
  upstream = dependency.network.outputs.id
}
"""


def stack(top: Path) -> str:
    vpc = 'terraform {\n  source = "${get_repo_root()}/modules/vpc"\n}\ninputs = { region = "moon" }\n'
    code = {f"modules/{kind}/main.tf": MODULE.replace("local.tags", '"x"') % KNOWN for kind in ("vpc", "app")}
    units = {"units/vpc/terragrunt.hcl": vpc, "units/app/terragrunt.hcl": HOOKED, "live/terragrunt.stack.hcl": STACK}
    return commit(written(top, code | units))


def test_a_stack_is_generated_first_and_hooks_run_in_the_sandbox(fleet: Bench, tmp_path: Path) -> None:
    modules = moved_in(fleet, stack(tmp_path / "stack"))
    vpc, app = (modules[f"live/.terragrunt-stack/{name}"] for name in ("vpc", "app"))
    fleet.finished("APPLY", vpc)
    done = fleet.finished("APPLY", app)
    log = fleet.log_of(done["id"])
    path = fleet.rows("modules", id=app)[0]["path"]
    assert f"hook-{path}" in log
    assert "x moon KIND-moon-1-none 7" in log


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ('dependencies {\n  paths = ["../../elsewhere"]\n}\n', "is not in the repository"),
        ('terraform {\n  source = "git::https://127.0.0.1:9/none.git"\n}\n', "127.0.0.1:9"),
        ('terragrunt_version_constraint = ">= 99"\n', "99"),
        ("inputs = {", "terragrunt.hcl"),
    ],
)
def test_a_unit_that_cannot_run_says_why(fleet: Bench, tmp_path: Path, unit: str, words: str) -> None:
    code = {"main.tf": MODULE % '"x"', "tags.tf": 'locals { tags = "x" }'}
    url = commit(
        written(tmp_path / "bad", {f"unit/{name}": text for name, text in (code | {"terragrunt.hcl": unit}).items()})
    )
    module = fleet.module(engine="terragrunt", source_kind="git", source={"url": url, "subfolder": "unit"})
    row = fleet.wait_job(fleet.enqueue("PLAN", module))
    assert row["status"] == "FAILED"
    assert words in row["error"]["message"], row["error"]


def test_where_hooks_need_approval_a_repository_that_runs_commands_is_refused(
    bench: Bench, terragrunt: Path, tmp_path: Path
) -> None:
    bench.runner(
        RUNYARD__ENGINE__ADDITIONALBINARYPATHS=os.pathsep.join([str(bench.tofu.parent), str(terragrunt.parent)]),
        RUNYARD__HOOKSPREAPPROVAL__ENABLED="true",
        RUNYARD__HOOKSPREAPPROVAL__PREAPPROVEDHOOKSDIRECTORY=str(tmp_path),
    )
    source = {"url": stack(tmp_path / "stack"), "subfolder": "live/.terragrunt-stack/vpc"}
    module = bench.module(engine="terragrunt", source_kind="git", source=source)
    assert bench.wait_job(bench.enqueue("PLAN", module))["error"]["code"] == "hook_not_approved"
