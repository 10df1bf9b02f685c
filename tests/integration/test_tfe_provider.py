"""The main resources of HashiCorp's `tfe` provider: what is served is kept without a difference, the rest is refused by name."""

import shutil
from pathlib import Path

import pytest

from cli.engines.cache import cached
from tests.integration.test_cloud_block import in_one_line, slug_of
from tests.integration.worker_bench import Bench
from tests.support.cloud_terminal import HOST, CloudTerminal, personal_token
from tests.support.extent import is_all
from tests.support.providers import TFE, build
from tests.support.stack import RunningStack

PROVIDER = """
terraform {
  required_providers { tfe = { source = "hashicorp/tfe" } }
}
provider "tfe" {
  hostname     = "%s"
  organization = "%s"
}
"""
SERVED = """
data "tfe_organization" "here" {}
resource "tfe_project" "shops" { name = "shops" }
resource "tfe_workspace" "north" {
  name        = "shops.north"
  project_id  = tfe_project.shops.id
  description = "by the provider"
  auto_apply  = %s
}
resource "tfe_variable" "who" {
  workspace_id = tfe_workspace.north.id
  key          = "who"
  value        = "%s"
  category     = "terraform"
}
resource "tfe_variable" "sizes" {
  workspace_id = tfe_workspace.north.id
  key          = "sizes"
  value        = jsonencode({ small = 1 })
  category     = "terraform"
  hcl          = true
}
resource "tfe_variable" "region" {
  workspace_id = tfe_workspace.north.id
  key          = "REGION"
  value        = "eu"
  category     = "env"
}
data "tfe_workspace" "north" {
  name       = "shops.north"
  depends_on = [tfe_workspace.north]
}
data "tfe_project" "shops" {
  name       = "shops"
  depends_on = [tfe_project.shops]
}
data "tfe_workspace_ids" "shops" {
  tag_names  = ["shops"]
  depends_on = [tfe_workspace.north]
}
data "tfe_variables" "north" {
  workspace_id = tfe_workspace.north.id
  depends_on   = [tfe_variable.who, tfe_variable.sizes, tfe_variable.region]
}
output "seen" {
  value = join(" ", [data.tfe_organization.here.name, data.tfe_workspace.north.description, data.tfe_project.shops.name,
    length(data.tfe_workspace_ids.shops.ids), length(data.tfe_variables.north.variables)])
}
"""
REFUSED = {
    "tfe_team": 'name = "ops"',
    "tfe_policy_set": 'name = "rules"',
    "tfe_variable_set": 'name = "common"',
    "tfe_agent_pool": 'name = "pool"',
    "tfe_ssh_key": 'name = "key"\nkey = "x"',
    "tfe_organization_membership": 'email = "a@example.org"',
    "tfe_organization_run_task": 'name = "task"\nurl = "https://example.org"',
}


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if cached(TFE) is None and not is_all() and shutil.which("go") is None:
        pytest.skip(f"{TFE.name} not found; `python -m tests.support.providers {TFE.name}` builds it")
    folder = tmp_path_factory.mktemp("provider")
    (folder / "terraform-provider-tfe").symlink_to(build(TFE))
    return folder


@pytest.fixture
def terminal(
    provider: Path, served: Bench, running_stack: RunningStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CloudTerminal:
    made = CloudTerminal(tmp_path / "code", served.tofu, running_stack.url, personal_token(served))
    monkeypatch.setenv("TFE_TOKEN", made.token)
    settings = made.folder / ".terraformrc"
    overrides = f'provider_installation {{\n  dev_overrides {{ "hashicorp/tfe" = "{provider}" }}\n  direct {{}}\n}}\n'
    settings.write_text(settings.read_text() + overrides)
    return made


def test_the_provider_keeps_projects_workspaces_and_variables(terminal: CloudTerminal, served: Bench) -> None:
    slug = slug_of(served)
    code = terminal.folder / "main.tf"
    code.write_text(PROVIDER % (HOST, slug) + SERVED % ("false", "you"))
    assert "5 added" in terminal.run("apply", "-auto-approve")
    assert terminal.run("output", "-raw", "seen") == f"{slug} by the provider shops 1 3"
    assert "No changes" in terminal.run("plan")
    code.write_text(PROVIDER % (HOST, slug) + SERVED % ("true", "them"))
    assert "2 changed" in terminal.run("apply", "-auto-approve")
    assert "No changes" in terminal.run("plan")
    [module] = served.rows("modules", org_id=served.org, path="shops/north")
    assert module["auto_apply"] is True
    terminal.run("state", "rm", "tfe_workspace.north")
    imported = terminal.run("import", "tfe_workspace.north", f"{slug}/shops.north")
    assert "Import successful" in imported
    assert "No changes" in terminal.run("plan")
    assert "5 destroyed" in terminal.run("destroy", "-auto-approve")
    assert not served.rows("groups", org_id=served.org, path="shops")


def test_the_provider_is_refused_by_name(terminal: CloudTerminal, served: Bench) -> None:
    blocks = "".join(f'resource "{kind}" "no" {{\n{body}\n}}\n' for kind, body in REFUSED.items())
    (terminal.folder / "main.tf").write_text(PROVIDER % (HOST, slug_of(served)) + blocks)
    said = in_one_line(terminal.run("apply", "-auto-approve", code=1))
    assert {kind for kind in REFUSED if f"with {kind}.no" not in said} == set(), said
