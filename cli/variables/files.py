"""Files that variables come from: .tfvars, .tfvars.json, HCP Terraform's JSON, and the list that `export` writes."""

import json
from pathlib import Path
from typing import Any

from cli.command import read_text
from cli.errors import CommandError, Usage
from cli.output import say
from cli.variables.tfvars import read_tfvars

Variable = dict[str, Any]
FIELDS = ("kind", "name", "value", "is_hcl", "is_enforced", "is_reference")


def read_variables(file: Path) -> list[Variable]:
    """The variables of a file, by its name and its shape."""
    text = read_text(file)
    if not file.name.endswith(".json"):
        return read_tfvars(text, file.name)
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CommandError(f"{file} is not valid JSON: {error}") from error
    if isinstance(document, list):
        return [_known(each) for each in document]
    if isinstance(document, dict) and isinstance(document.get("data"), list):
        return _from_hcp(document["data"])
    if isinstance(document, dict):
        return [{"kind": "input", "name": name, "value": value} for name, value in document.items()]
    raise CommandError(f"{file} has no variables.", "It should be an object of names and values.")


def given_inputs(texts: list[str]) -> dict[str, Any]:
    """NAME=VALUE as typed; a value that begins like a list or an object is JSON."""
    found: dict[str, Any] = {}
    for name, value in given_pairs(texts).items():
        try:
            found[name] = json.loads(value) if value[:1] in ("[", "{") else value
        except ValueError as error:
            raise Usage(f"The value of {name} is not JSON: {error}", """Write 'zones=["a", "b"]'.""") from error
    return found


def given_pairs(texts: list[str]) -> dict[str, str]:
    """NAME=VALUE as typed."""
    pairs = [text.partition("=") for text in texts]
    if wrong := [text for text, (name, is_pair, _) in zip(texts, pairs, strict=True) if not is_pair or not name]:
        raise Usage(f'"{wrong[0]}" is not name=value.', "Write region=eu-west-1.")
    return {name: value for name, _, value in pairs}


def _known(each: Any) -> Variable:
    if not isinstance(each, dict):
        raise CommandError("A variable in the list is not an object.", "`runyard variables export` writes such a list.")
    return {name: each[name] for name in FIELDS if name in each}


def _from_hcp(items: list[Any]) -> list[Variable]:
    """The answer of HCP's `/workspaces/…/vars` or `/varsets/…/relationships/vars`; it never has sensitive values."""
    facts = [
        each["attributes"] for each in items if isinstance(each, dict) and isinstance(each.get("attributes"), dict)
    ]
    if kept := sorted(str(each["key"]) for each in facts if each.get("sensitive")):
        say(f"Left out, since HCP does not show sensitive values: {', '.join(kept)}")
    return [_hcp_variable(each) for each in facts if not each.get("sensitive")]


def _hcp_variable(facts: dict[str, Any]) -> Variable:
    kind = "env" if facts.get("category") == "env" else "input"
    made: Variable = {"kind": kind, "name": str(facts["key"]), "value": str(facts.get("value") or "")}
    return {**made, "is_hcl": True} if facts.get("hcl") and kind == "input" else made
