"""Terragrunt receives from the runner: known outputs in place of an engine's, and nothing that is invented."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.workspaces import open_workspace
from worker.api.replies import BoundValues
from worker.attempt.workspace import Workspace
from worker.engines.module_backend import BACKEND_FILE
from worker.engines.terragrunt import OUTPUTS_FILE, TerragruntDriver
from worker.enums import EngineName
from worker.errors import JobFailed
from worker.finder import FoundEngine

pytestmark = pytest.mark.anyio
APP = """
dependency "vpc" {
  config_path  = "../vpc"
  mock_outputs = { id = "mock" }
}
inputs = { id = dependency.vpc.outputs.id }
"""


def space_of(base: Path, text: str = APP, bound: dict[str, Any] | None = None, **environ: str) -> Workspace:
    """A workspace with two units; the engine says with which words it was called."""
    engine = base / "engine"
    engine.write_text('#!/bin/sh\necho "engine $*"\n')
    engine.chmod(0o755)
    space = open_workspace(base, module={"engine": "terragrunt", "path": "live/app"}, environ=environ)
    for name in ("app", "vpc"):
        (space.source / name).mkdir()
        (space.source / name / "terragrunt.hcl").write_text(text if name == "app" else "")
    space.work, space.bound = space.source / "app", BoundValues(values=bound or {})
    space.wrapped = FoundEngine(EngineName.TOFU, engine, "1.12.6")
    return space


def driver(space: Workspace) -> TerragruntDriver:
    return TerragruntDriver(FoundEngine(EngineName.TERRAGRUNT, Path("terragrunt"), "1.0.0"), space)


async def test_known_outputs_are_laid_beside_the_dependency_with_their_types(tmp_path: Path) -> None:
    bound = {"vpc:id": "vpc-1", "vpc:zones": ["a", 2], "vpc:map": {"on": True, "none": None}, "plain": 7}
    space = space_of(tmp_path, bound=bound)
    await driver(space).write_inputs(space)
    assert json.loads((space.source / "vpc" / OUTPUTS_FILE).read_text()) == {
        "id": {"sensitive": False, "type": "string", "value": "vpc-1"},
        "zones": {"sensitive": False, "type": ["tuple", ["string", "number"]], "value": ["a", 2]},
        "map": {"sensitive": False, "type": ["object", {"on": "bool", "none": "dynamic"}],
                "value": {"on": True, "none": None}},
    }  # fmt: skip
    assert "mock" not in (space.source / "app" / "terragrunt.hcl").read_text()
    assert json.loads((space.source / "app" / "~runyard-bound.auto.tfvars.json").read_text()) == {"plain": 7}
    assert space.result["reads"] == [{"folder": "vpc", "bindings": {"vpc:id": "id"}}]


@pytest.mark.parametrize(
    ("text", "environ", "code"),
    [
        (APP, {}, "dependency_unbound"),
        (APP.replace("../vpc", "../../vpc"), {}, "unit_outside"),
        ('locals { a = run_cmd("id") }', {"RUNYARD__HOOKSPREAPPROVAL__ENABLED": "true"}, "hook_not_approved"),
    ],
)
async def test_what_must_not_run_is_refused(tmp_path: Path, text: str, environ: dict[str, str], code: str) -> None:
    space = space_of(tmp_path, text, **environ)
    with pytest.raises(JobFailed) as caught:
        await driver(space).write_inputs(space)
    assert caught.value.code == code


async def test_a_runner_without_an_engine_inside_says_so(tmp_path: Path) -> None:
    space = space_of(tmp_path)
    space.wrapped = None
    with pytest.raises(JobFailed, match="Terragrunt needs tofu or terraform, which this runner does not have"):
        driver(space)


async def test_the_engine_is_called_for_the_unit_and_never_for_what_it_depends_on(tmp_path: Path) -> None:
    space = space_of(tmp_path, bound={"vpc:id": "vpc-1"})
    made = driver(space)
    await made.write_inputs(space)
    made._write_shim(space)
    own, other = (space.source / name / ".terragrunt-cache" / "x" for name in ("app", "vpc"))

    def called(folder: Path, *arguments: str) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        command = [space.root / "terragrunt-engine", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    assert called(other, "init", "-get=false") == ""
    assert json.loads(called(other, "output", "-json"))["id"]["value"] == "vpc-1"
    assert called(other, "-version") == "engine -version"
    assert (
        called(own, "init", "-backend-config=a=b c", "-input=false") == "engine init -backend-config=a=b c -input=false"
    )
    (own / BACKEND_FILE).write_text("{}")
    assert called(own, "init", "-backend-config=a=b c", "-input=false") == "engine init -input=false"
    assert called(own, "workspace", "show") == ""
    assert (space.root / "terragrunt-folder").read_text().strip() == str(own.resolve())
