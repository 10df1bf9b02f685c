"""`runyard export`, `diff` and `apply`, as somebody types them, against a real stack."""

from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from cli.errors import Refused, Usage
from tests.integration.edge.people import Person
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal

KINDS = (
    "roles",
    "teams",
    "groups",
    "modules",
    "dependencies",
    "variables",
    "identities",
    "policies",
    "schedules",
    "bindings",
)
TEXT = """\
version: 1
roles:
- name: shipper
  verbs: [job.plan]
teams:
- name: sre
  members: [{email}]
groups:
- path: net
  hooks:
    before_plan: |
      echo one
      echo two
modules:
- path: net/vpc
  labels: [gpu]
- path: net/site
dependencies:
- consumer: net/site
  producer: net/vpc
  bindings: {{vpc: id}}
variables:
- path: net
  kind: input
  name: zones
  value: [a, {{b: 1.5}}]
identities:
- path: net
  name: registry
  kind: custom
  audience: x
policies:
- path: net
  name: tags
  level: advisory
  files:
    a.rego: |
      package main
schedules:
- path: net
  type: PLAN
  cron: 0 2 * * *
bindings:
- path: net
  role: shipper
  subject: team:sre
"""


@pytest.fixture
def person(running_stack: RunningStack) -> Person:
    return Person(running_stack)


@pytest.fixture
def terminal(running_stack: RunningStack, person: Person, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": person.token})


def test_an_organisation_is_exported_reset_and_applied(terminal: Terminal, person: Person, tmp_path: Path) -> None:
    file, nothing = tmp_path / "runyard.yaml", tmp_path / "nothing.yaml"
    file.write_text(TEXT.format(email=person.credentials["email"]))
    nothing.write_text(yaml.safe_dump({"version": 1, **{kind: [] for kind in KINDS}}))
    trial = terminal.run("diff", str(file))
    assert trial.stdout.splitlines()[0] == "+ roles shipper"
    assert terminal.run("diff", str(file)).stdout == trial.stdout
    assert terminal.run("apply", str(file)).stdout == trial.stdout
    assert terminal.run("apply", str(file)).stdout == "No changes.\n"

    before = terminal.run("export").stdout
    assert "    before_plan: |\n      echo one\n      echo two\n" in before
    left = terminal.run("apply", str(nothing))
    assert (left.stdout, left.stderr) == ("No changes.\n", "11 more are not in the file; --prune would remove them.\n")
    asked = terminal.run("apply", str(nothing), "--prune")
    assert (asked.returncode, "Remove these 11? There is no terminal" in asked.stderr) == (Usage.exit_code, True)
    assert "- modules net/vpc" in asked.stderr
    assert terminal.run("apply", str(nothing), "--prune", "--yes").returncode == 0
    assert yaml.safe_load(terminal.run("export").stdout)["modules"] == []
    file.write_text(before)
    assert terminal.run("apply", str(file), "--prune", "--yes").returncode == 0
    assert terminal.run("export").stdout == before


def test_a_change_is_shown_with_its_fields(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "runyard.yaml"
    file.write_text("version: 1\ngroups:\n- path: net\n")
    terminal.run("apply", str(file))
    file.write_text("version: 1\ngroups:\n- path: net\n  description: Networks\n  time_limits: {plan: 60}\n")
    assert (
        terminal.run("diff", str(file)).stdout
        == '~ groups net: description "" → "Networks", time_limits {} → {"plan": 60}\n'
    )
    assert "description" not in terminal.run("export", "groups").stdout


def test_a_wrong_entry_is_named_and_nothing_changes(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "runyard.yaml"
    file.write_text("version: 1\ngroups:\n- path: net\nmodules:\n- path: net/a\n  approvals_required: many\n")
    done = terminal.run("apply", str(file))
    assert done.returncode == Refused.exit_code
    assert 'modules[0]: "approvals_required" is not a whole number.' in done.stderr
    assert terminal.run("export", "groups").stdout == "version: 1\ngroups: []\n"
