"""Files that variables come from: .tfvars, .tfvars.json and the JSON of HCP Terraform."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.errors import CommandError, Missing, Usage
from cli.variables.files import given_inputs, read_variables

TFVARS = """
# a comment with = and "quotes
region = "eu-west-1" // the usual one
/* several
   lines = 1 */
size    = 3
is_big=true
nothing = null
zones = ["a", "b"]
trailing = [
  "a", # first
  "b",
]
tags = {
  owner = "infra" # not a ] bracket
  note  = "a } brace and \\"quotes\\""
}
greeting = "hello ${upper("x}")}"
escaped  = "costs $${5}"
path = "C:\\\\temp"
script = <<-END
  echo "unclosed { [
  END
"quoted" = 1
last = "no newline"
""".rstrip()


def by_name(variables: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["name"]: (each["value"], each.get("is_hcl", False)) for each in variables}


def test_plain_values_are_read_and_expressions_stay_hcl(tmp_path: Path) -> None:
    file = tmp_path / "prod.tfvars"
    file.write_text(TFVARS)
    found = by_name(read_variables(file))
    plain = {"region": "eu-west-1", "size": 3, "is_big": True, "nothing": None, "zones": ["a", "b"], "quoted": 1}
    plain |= {"path": "C:\\temp", "last": "no newline"}
    assert {name: value for name, (value, is_hcl) in found.items() if not is_hcl} == plain
    assert found["greeting"] == ('"hello ${upper("x}")}"', True)
    assert found["escaped"] == ('"costs $${5}"', True)
    assert found["script"] == ('<<-END\n  echo "unclosed { [\n  END', True)
    assert found["tags"][0].startswith("{\n")
    assert found["tags"][0].endswith("\n}")
    assert found["trailing"][0].endswith('"b",\n]')


def test_a_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.tfvars"
    file.write_text('a = 1\n\nresource "x" "y" {}\n')
    with pytest.raises(CommandError, match=r"wrong.tfvars, line 3"):
        read_variables(file)


def test_json_of_terraform_of_hcp_and_of_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.tfvars.json"
    file.write_text('{"size": 3, "zones": ["a"]}')
    assert by_name(read_variables(file)) == {"size": (3, False), "zones": (["a"], False)}

    facts = [
        {"key": "region", "value": "eu", "category": "terraform", "hcl": False, "sensitive": False},
        {"key": "zones", "value": '["a"]', "category": "terraform", "hcl": True, "sensitive": False},
        {"key": "TF_LOG", "value": "info", "category": "env", "hcl": False, "sensitive": False},
        {"key": "token", "value": None, "category": "env", "hcl": False, "sensitive": True},
    ]
    file.write_text(json.dumps({"data": [{"id": "var-1", "type": "vars", "attributes": each} for each in facts]}))
    assert read_variables(file) == [
        {"kind": "input", "name": "region", "value": "eu"},
        {"kind": "input", "name": "zones", "value": '["a"]', "is_hcl": True},
        {"kind": "env", "name": "TF_LOG", "value": "info"},
    ]
    assert "token" in capsys.readouterr().err

    own = [{"kind": "file", "name": "ca.pem", "value": "x", "is_hcl": False, "is_enforced": True, "id": 7}]
    file.write_text(json.dumps(own))
    assert read_variables(file) == [{name: value for name, value in own[0].items() if name != "id"}]


@pytest.mark.parametrize("text", ["{", '"x"', "[1]"])
def test_json_without_variables_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(CommandError):
        read_variables(file)
    with pytest.raises(Missing):
        read_variables(tmp_path / "none.tfvars")


def test_inputs_of_the_command_line_are_parsed_as_json_or_text() -> None:
    assert given_inputs(["a=1", "b=x=y", 'c=["z"]', "d="]) == {"a": "1", "b": "x=y", "c": ["z"], "d": ""}
    for wrong in ("a", "=1", "a={"):
        with pytest.raises(Usage):
            given_inputs([wrong])
