"""The text of Terragrunt's files tells: units, what they depend on, what they read, and what is only invented."""

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from wire.terragrunt import Layout, attributes, is_outside, runs_commands, without_mocks

ROOT = 'include "root" {\n  path = find_in_parent_folders("root.hcl")\n}\n'
APP = """
locals {
  base = "../${local.name}"
  name = "vpc"
}
include "root" { path = find_in_parent_folders("root.hcl") }
include "env" {
  path = "${dirname(find_in_parent_folders("root.hcl"))}/_env/app.hcl"
}
dependency "vpc" {
  config_path  = local.base // the name
  mock_outputs = {
    id = "vpc-mock" # }
  }
  mock_outputs_allowed_terraform_commands = ["plan"]
  skip_outputs = true
}
dependency "db" { config_path = "${get_repo_root()}/prod/db" }
dependency "far" { config_path = run_cmd("somewhere") }
dependencies {
  paths = [
    "../vpc", # dependency.vpc.outputs.commented
    "../queue",
  ]
}
inputs = {
  id    = dependency.vpc.outputs.id
  zones = "${join(",", dependency.vpc.outputs["zones"])}-x"
  /* dependency.db.outputs.no */
  text  = <<-EOT
    ${dependency.db.outputs.address}
  EOT
}
"""
FILES = {
    "root.hcl": 'locals {\n  a = read_terragrunt_config(find_in_parent_folders("account.hcl"))\n}\n'
    'terragrunt_version_constraint = ">= 1.0"\nremote_state {\n  backend = "s3"\n}\n',
    "_env/app.hcl": 'terraform {\n  source = "${get_parent_terragrunt_dir()}/../modules//app"\n}\n'
    'terraform_binary = "/opt/terraform"\n',
    "prod/account.hcl": "",
    "prod/vpc/terragrunt.hcl": ROOT + 'terraform {\n  source = "git::https://example.com/m.git//vpc?ref=v1"\n}\n',
    "prod/db/terragrunt.hcl": ROOT,
    "prod/queue/terragrunt.hcl": ROOT,
    "prod/app/terragrunt.hcl": APP,
}


def layout(paths: Iterable[str] = (), **files: str) -> Layout:
    return Layout({**FILES, **{name.replace("__", "/"): text for name, text in files.items()}}, list(paths))


def test_a_unit_is_read_with_what_it_includes() -> None:
    unit = layout().unit("prod/app")
    assert (unit.source, unit.backend, unit.version, unit.engine) == ("modules/app", "s3", ">= 1.0", "terraform")
    assert unit.dependencies == {"vpc": "prod/vpc", "db": "prod/db", "far": None}
    assert unit.producers == {
        "prod/vpc": {"vpc:id": "id", "vpc:zones": "zones"}, "prod/queue": {}, "prod/db": {"db:address": "address"},
    }  # fmt: skip
    assert unit.includes == ("root.hcl", "_env/app.hcl")


def test_a_unit_is_planned_with_its_files_and_with_no_others() -> None:
    watched = layout().watched("prod/app")
    assert watched == {
        "root.hcl", "_env/app.hcl", "prod/account.hcl", "modules/app", "prod/vpc", "prod/db", "prod/queue",
    }  # fmt: skip
    assert layout().watched("prod/vpc") == {"root.hcl", "prod/account.hcl"}


def test_units_of_stacks_are_found_where_they_are_generated() -> None:
    stack = (
        'unit "vpc" {\n  source = "../units/vpc"\n  path   = "vpc"\n}\n'
        'unit "app" {\n  source = "../units/app"\n  path   = "app"\n  values = {\n    vpc = "../vpc"\n  }\n}\n'
        'unit "plain" {\n  source = "../units/vpc"\n  path = "plain"\n  no_dot_terragrunt_stack = true\n}\n'
        'stack "inner" {\n  source = "../stacks/inner"\n  path = "inner"\n}\n'
    )
    inner = 'unit "dns" {\n  source = "git::https://example.com/dns.git"\n  path = "dns"\n}\n'
    app = 'dependency "vpc" {\n  config_path = values.vpc\n}\ninputs = { id = dependency.vpc.outputs.id }\n'
    found = layout(
        live__terragrunt_stack="", units__vpc="",
        **{"live__terragrunt.stack.hcl": stack, "stacks__inner__terragrunt.stack.hcl": inner,
           "units__app__terragrunt.hcl": app, "units__vpc__terragrunt.hcl": ROOT},
    )  # fmt: skip
    generated = {each for each in found.units() if each.startswith(("live", "units", "stacks"))}
    base = "live/.terragrunt-stack"
    assert generated == {
        f"{base}/app", f"{base}/vpc", "live/plain", f"{base}/inner/.terragrunt-stack/dns",
        "stacks/inner/.terragrunt-stack/dns",
    }  # fmt: skip
    assert found.unit(f"{base}/app").producers == {f"{base}/vpc": {"vpc:id": "id"}}
    assert found.watched(f"{base}/app") == {"live/terragrunt.stack.hcl", "units/app", "units/vpc"}


def test_files_that_units_include_are_no_units() -> None:
    legacy = layout(
        **{"old__terragrunt.hcl": "", "old__a__terragrunt.hcl": "include {\n path = find_in_parent_folders()\n}\n"}
    )
    assert [each for each in legacy.units() if each.startswith("old")] == ["old/a"]


def test_invented_outputs_are_taken_out_and_nothing_else() -> None:
    text = without_mocks(APP)
    assert "mock" not in text
    assert "skip_outputs" not in text
    assert without_mocks(text) == text
    (vpc,) = [each for each in attributes(text) if each.block == ("dependency", "vpc")]
    assert (vpc.name, vpc.value.split()[0]) == ("config_path", "local.base")
    assert text.count("\n") >= APP.count("\n") - 3
    assert Layout({**FILES, "prod/app/terragrunt.hcl": text}, []).unit("prod/app") == layout().unit("prod/app")


@pytest.mark.parametrize(
    ("path", "folder"), [("../../../other", "../other"), ("../../..", ".."), ("../vpc", "prod/vpc"), ("../..", "")]
)
def test_a_folder_outside_of_the_repository_is_known_as_such(path: str, folder: str) -> None:
    unit = layout(**{"prod__x__terragrunt.hcl": f'dependencies {{\n  paths = ["{path}"]\n}}\n'}).unit("prod/x")
    assert unit.order == ((folder,) if folder else ())
    assert is_outside(folder) == folder.startswith("..")


@pytest.mark.parametrize(
    ("name", "text", "runs"),
    [
        ("a/terragrunt.hcl", 'locals {\n  a = run_cmd("sh", "-c", "id")\n}\n', True),
        ("a/terragrunt.hcl", 'locals {\n  a = run_cmd /* */ (\n"sh", "-c", "id")\n}\n', True),
        ("a/terragrunt.hcl", 'terraform {\n  before_hook "a" {\n    commands = ["plan"]\n  }\n}\n', True),
        ("a/terragrunt.hcl", '# run_cmd("id")\nlocals {\n  a = "before"\n}\n', False),
        # All of these are read where another file includes them.
        ("a/terragrunt.hcl.json", '{"terraform": {"after_hook": {"a": {"commands": ["plan"]}}}}', True),
        ("root.txt", 'locals {\n  a = run_cmd("id")\n}\n', True),
        ("node_modules/root.hcl", 'locals {\n  a = run_cmd("id")\n}\n', True),
    ],
)
def test_files_that_run_commands_are_known(tmp_path: Path, name: str, text: str, runs: bool) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    (tmp_path / "link").symlink_to("nowhere")
    assert runs_commands(tmp_path) is runs


@pytest.mark.parametrize(
    "text", ['locals {\n  a = local.b\n  b = local.a\n}\ndependency "x" {\n  config_path = local.a\n}\n',
             'dependency "x" {\n  config_path = "${', "include {", 'stack "s" {\n  source = "."\n  path = "s"\n}\n', "}}}"],
)  # fmt: skip
def test_text_that_leads_nowhere_is_read_to_its_end(text: str) -> None:
    for name in ("a/terragrunt.hcl", "a/terragrunt.stack.hcl"):
        found = Layout({name: text}, [])
        assert [found.unit(each).producers for each in found.units()] in ([], [{}])


LOCALS = "".join(f'  a{n} = "{"".join(f"${{local.a{n + 1}}}" for _ in range(20))}"\n' for n in range(9))
STACKS = "".join(f'stack "s{n}" {{\n  source = "./"\n  path = "p{n}"\n}}\n' for n in range(10))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("terragrunt.hcl", f'locals {{\n{LOCALS}  a9 = "x"\n}}\nterraform {{\n  source = local.a0\n}}\n'),
        ("terragrunt.hcl", "file(" * 10_000),
        ("terragrunt.hcl", 'terraform {\n  source = "' + '${"' * 10_000),
        ("terragrunt.stack.hcl", STACKS),
    ],
)
def test_small_files_that_would_take_for_ever_are_given_up(name: str, text: str) -> None:
    began = time.process_time()
    found = Layout({f"a/{name}": text}, [])
    assert [found.watched(each) for each in found.units()] in ([], [set()])
    assert time.process_time() - began < 30
