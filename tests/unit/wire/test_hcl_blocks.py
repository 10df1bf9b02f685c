"""Facts of a folder of code: blocks, and text that only looks like one."""

import json
from pathlib import Path

import pytest

from wire.hcl_blocks import Facts, declared_variables, read_facts, remote_states

ROOT = Path(__file__).parents[4]
NO_BLOCK = r"""
# terraform { backend "comment" {} }
// terraform { backend "comment" {} }
/* terraform {
  backend "comment" {}
} */
locals {
  text     = "terraform {\n backend \"text\" {} ${join("}", ["{", "\"}"])} }"
  escaped  = "$${ not a template"
  document = <<-END
    terraform {
      backend "document" {}
    }
  END
  object   = { terraform = { backend = "object" } }
  list     = [for each in local.x : { backend = "list" } if each != "}"]
  either   = true ? { a = "b" } : { c = "d" }
}
resource "x" "terraform" {
  backend "resource" {}
}
"""
ALL = """
terraform {
  required_version = ">= 1.5" # a comment
  required_providers {
    aws = { source = "hashicorp/aws", version = "~> 5" }
  }
  backend "s3" {
    key  = "x"
    tags = { backend = "no" }
  }
}
provider "aws" {}
module "near" {
  count  = 2
  source = "../near"
}
module "far" {
  for_each = merge({ a = "b" }, {
    source = "no"
  })
  source = "example/far/aws"
}
"""


def facts(folder: Path, *, is_tofu: bool = True, **files: str) -> Facts:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return read_facts(folder, is_tofu=is_tofu)


def test_all_facts_are_found(tmp_path: Path) -> None:
    found = facts(tmp_path, empty__tf=NO_BLOCK, main__tf=ALL)
    assert found == Facts("s3", "main.tf", ">= 1.5", False, ("../near", "example/far/aws"))


def test_text_that_looks_like_a_block_is_none(tmp_path: Path) -> None:
    assert facts(tmp_path, main__tf=NO_BLOCK).backend == ""


@pytest.mark.parametrize(
    ("name", "text", "backend"),
    [
        ("a__tf", 'terraform {\n  backend "gcs" {}\n}', "gcs"),
        ("a__tf", "terraform {\r\n  cloud {\r\n  }\r\n}\r\n", "cloud"),
        ("a__tf", 'terraform {\n  required_version = "1.0"\n}\nterraform {\n  backend "pg" {\n  }\n}', "pg"),
        ("a__tf__json", '{"terraform": {"backend": {"azurerm": {}}}}', "azurerm"),
        ("a__tf__json", '{"terraform": [{"cloud": [{}]}]}', "cloud"),
        ("a__tofu", 'terraform {\n  backend "consul" {}\n}', "consul"),
        ("a_override__tf", 'terraform {\n  backend "http" {}\n}', "http"),
        ("terraform__tfstate", "{}", "local"),
        ("broken__tf", 'terraform {\n  x = "', ""),
        ("broken__tf__json", "{", ""),
        ("terraform__tfvars", 'terraform {\n  backend "no" {}\n}', ""),
    ],
)
def test_each_form_of_a_backend_is_found(tmp_path: Path, name: str, text: str, backend: str) -> None:
    assert facts(tmp_path, **{name: text}).backend == backend


def test_each_engine_reads_its_own_files(tmp_path: Path) -> None:
    files = {"main__tf": 'terraform {\n  backend "s3" {}\n}', "main__tofu": 'terraform {\n  backend "pg" {}\n}'}
    assert facts(tmp_path, is_tofu=True, **files).backend == "pg"
    assert facts(tmp_path, is_tofu=False, **files).backend == "s3"


def test_encryption_of_the_state_is_seen(tmp_path: Path) -> None:
    assert facts(tmp_path, main__tf="terraform {\n  encryption {\n    state {}\n  }\n}").has_encryption


def test_declared_variables_are_found_in_both_languages(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text('variable "one" {}\nvariable two {\n  default = 1\n}\n# variable "comment" {}\n')
    (tmp_path / "more.tf.json").write_text('{"variable": {"three": {"type": "string"}, "four": {}}}')
    (tmp_path / "only.tofu").write_text('variable "five" {}\n')
    assert declared_variables(tmp_path, is_tofu=True) == {"one", "two", "three", "four", "five"}
    assert declared_variables(tmp_path, is_tofu=False) == {"one", "two", "three", "four"}


def test_remote_states_are_found_in_both_languages(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text("""
data "terraform_remote_state" "network" {
  backend = "remote"
  config = {
    hostname     = "example.org"
    organization = "acme"
    workspaces   = { name = "net.vpc" }
  }
}
data "terraform_remote_state" "other" {
  backend = "s3"
  config = {
    bucket = "b"
  }
}
data "http" "page" {
  url = "x"
}
""")
    config = {"organization": "acme", "workspaces": {"name": "net.dns"}}
    document = {"data": {"terraform_remote_state": {"dns": {"backend": "remote", "config": config}}}}
    (tmp_path / "more.tf.json").write_text(json.dumps(document))
    assert remote_states(tmp_path, is_tofu=True) == [("acme", "net.dns"), ("acme", "net.vpc")]
