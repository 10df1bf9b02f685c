"""Variables in the engine's own form: files that are read last, and those that an engine cannot read."""

import json
from pathlib import Path

import pytest

from tests.unit.worker.workspaces import log_of, open_workspace
from worker.api.replies import GivenVariable
from worker.attempt.variables import JobVariables
from worker.engines.hcl import EXPRESSIONS_FILE, INPUTS_FILE, HclDriver
from worker.engines.pulumi import PulumiDriver
from worker.enums import EngineName, VariableKind
from worker.errors import JobFailed
from worker.finder import FoundEngine
from worker.steps.recipes import write_inputs

pytestmark = pytest.mark.anyio
GIVEN = JobVariables.of([
    GivenVariable(kind=VariableKind.INPUT, name="size", value=3),
    GivenVariable(kind=VariableKind.INPUT, name="zones", value='[upper("a")]', is_hcl=True),
    GivenVariable(kind=VariableKind.INPUT, name="api_token", value={"of": ["first-part", 1]}),
    GivenVariable(kind=VariableKind.ENV, name="size", value="large"),
    GivenVariable(kind=VariableKind.FILE, name="certs/ca.pem", value="trusted"),
])  # fmt: skip


def found(name: EngineName) -> FoundEngine:
    return FoundEngine(name, Path("/bin/false"), "1.10.0")


async def test_inputs_and_expressions_are_read_after_every_file_of_the_source(tmp_path: Path) -> None:
    space = open_workspace(tmp_path)
    space.work, space.variables = space.source, GIVEN
    await HclDriver(found(EngineName.TOFU)).write_inputs(space)
    assert json.loads((space.work / INPUTS_FILE).read_text()) == {"size": 3, "api_token": {"of": ["first-part", 1]}}
    assert (space.work / EXPRESSIONS_FILE).read_text() == 'zones = [upper("a")]\n'
    assert sorted(["zzz.auto.tfvars", INPUTS_FILE, "Z.auto.tfvars", EXPRESSIONS_FILE])[-2:] == [
        EXPRESSIONS_FILE,
        INPUTS_FILE,
    ]
    assert "Inputs: api_token, size, zones" in log_of(space), "names, without values"


async def test_a_file_is_written_below_the_modules_folder(tmp_path: Path) -> None:
    space = open_workspace(tmp_path, module={"engine": "pulumi"})
    space.work, space.variables = space.source, JobVariables(files=GIVEN.files)
    with pytest.raises(KeyError):  # Files come first, then the engine, which this runner lacks.
        await write_inputs(space)
    assert (space.work / "certs" / "ca.pem").read_text() == "trusted"


async def test_pulumi_refuses_an_expression_and_names_it(tmp_path: Path) -> None:
    space = open_workspace(tmp_path, module={"engine": "pulumi"})
    space.variables = GIVEN
    with pytest.raises(JobFailed, match="Pulumi has no HCL expressions: zones") as caught:
        await PulumiDriver(found(EngineName.PULUMI)).write_inputs(space)
    assert caught.value.code == "bad_variable"


def test_values_with_a_secrets_name_are_masked() -> None:
    assert GIVEN.secrets() == ["first-part"]
    quoted = GivenVariable(kind=VariableKind.INPUT, name="db_password", value='"open sesame"', is_hcl=True)
    assert "open sesame" in JobVariables.of([quoted]).secrets()
