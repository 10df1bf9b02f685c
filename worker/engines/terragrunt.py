"""Terragrunt, around OpenTofu or Terraform: one unit is one module, and its dependencies' outputs are the module's bound inputs."""

import asyncio
import json
import os
import shlex
from pathlib import Path
from typing import Any

from wire.hcl_blocks import read_facts
from wire.terragrunt import MOCKS, STACK, UNIT, Layout, Unit, input_name, read_layout, runs_commands, without_mocks
from worker.attempt.workspace import Workspace
from worker.engines.hcl import LOCK_FILE, HclDriver
from worker.engines.module_backend import BACKEND_FILE, has_own
from worker.enums import EngineName
from worker.errors import JobFailed
from worker.finder import HOW_TO_GET_ONE, FoundEngine, choose_version

OUTPUTS_FILE = ".runyard-outputs.json"
# Errors begin as the engine's do, so that a failed job shows the first.
_QUIET = ("--non-interactive", "--no-tips", "--log-custom-format", "%level(case=capitalize): %msg(path=relative)")
_OPTIONS = (*_QUIET, "--no-auto-init", "--no-auto-provider-cache-dir", "--tf-forward-stdout")
# Terragrunt reads a dependency's outputs with a backend of its own, and runs nothing else for a unit that has one.
_KNOWN_UNIT = 'remote_state {\n  backend = "local"\n  config  = {}\n}\n'
# Without an output Terragrunt takes a unit for one that was never applied.
_NO_OUTPUT = {"runyard_none": ""}
_NOT_PREPARED = (
    "Correct the unit's files, or see that the runner reaches the unit's source. The job's log has the rest."
)
_SHIM = """#!/bin/sh
# Terragrunt calls this in place of the engine. A dependency's outputs are known, so no other command runs for it.
known="${{PWD%%/.terragrunt-cache/*}}/{outputs}"
if [ -f "$known" ] && [ "$1" != "-version" ]; then
  [ "$1" != output ] || cat "$known"
  exit
fi
if [ "$1 $2" = "workspace show" ]; then
  pwd -P > {place}
  exit
fi
# Settings of a backend that is not used are none of the backend that is.
if [ -f {backend} ]; then
  for each; do
    shift
    case "$each" in -backend-config=*) ;; *) set -- "$@" "$each" ;; esac
  done
fi
exec {engine} "$@"
"""


class TerragruntDriver(HclDriver):
    """The commands of one unit; what only reads a state or a plan goes to the engine itself, in Terragrunt's folder."""

    def __init__(self, terragrunt: FoundEngine, space: Workspace) -> None:
        """Wrap the engine that the unit names, or the one that this runner has."""
        super().__init__(space.wrapped or _wrapped(space, ""))
        self._terragrunt = terragrunt
        self._unit = space.unit or space.work
        self._shim = space.root / "terragrunt-engine"

    def _command(self, *arguments: str) -> list[str]:
        place = ("--working-dir", str(self._unit), "--tf-path", str(self._shim))
        return [str(self._terragrunt.binary), "run", *_OPTIONS, *place, "--", *arguments]

    def _shown(self, *arguments: str) -> str:
        return " ".join([self._terragrunt.name, *arguments])

    async def write_inputs(self, space: Workspace) -> None:
        """Write inputs beside the unit, which Terragrunt copies to the code, and each dependency's outputs into its folder."""
        space.unit = space.work
        layout = await asyncio.to_thread(read_layout, space.source)
        folder = space.work.relative_to(space.source.resolve()).as_posix()
        unit = layout.unit("" if folder == "." else folder)
        producers = {each: {} if has_own(space) else bound for each, bound in unit.producers.items()}
        space.result["reads"] = [{"folder": each, "bindings": bound} for each, bound in producers.items()]
        if space.context.settings.hooks_preapproval.enabled and await asyncio.to_thread(runs_commands, space.source):
            raise JobFailed(
                "The repository has files with Terragrunt's hooks or run_cmd, and this runner runs approved hooks only.",
                code="hook_not_approved",
                hint="Write these steps as hooks of the module, or run the module on a runner without Hooks.Preapproval.",
            )
        _refuse(space, layout, unit)
        await asyncio.to_thread(_forget_mocks, space, layout)
        await asyncio.to_thread(_write_outputs, space, unit)
        own = {name: value for name, value in space.bound.values.items() if ":" not in name}
        space.bound = space.bound.model_copy(update={"values": own})
        space.unit_engine = unit.engine
        await super().write_inputs(space)

    async def init(self, space: Workspace) -> None:
        """Let Terragrunt fetch the source and generate its files, then continue in its folder as with any code."""
        await asyncio.to_thread(self._write_shim, space)
        try:
            await space.run(self._command("workspace", "show"), what=self._shown("prepares", self._unit.name))
        except JobFailed as error:
            error.hint = _NOT_PREPARED if error.code == "engine_failed" else error.hint
            raise
        work = Path((space.read(_place(space)) or b"").decode().strip() or "/").resolve()
        if not work.is_relative_to(space.root.resolve()):
            raise JobFailed("Terragrunt has not prepared the unit.", code="terragrunt", hint="See the job's log.")
        space.work = work
        facts = await asyncio.to_thread(read_facts, work, is_tofu=self._engine.name is EngineName.TOFU)
        space.wrapped = self._engine = _wrapped(space, facts.required_version)
        space.say(f"Around {self._engine.name} {self._engine.version}")
        await asyncio.to_thread(self._write_shim, space)
        await super().init(space)

    async def _restore_versions(self, space: Workspace) -> None:
        """Write them beside the unit, too: Terragrunt copies its files to the code again."""
        await super()._restore_versions(space)
        if lock := space.read(space.work / LOCK_FILE):
            space.write(self._unit / LOCK_FILE, lock)

    def _write_shim(self, space: Workspace) -> None:
        names = {"outputs": OUTPUTS_FILE, "backend": BACKEND_FILE}
        paths = {"place": shlex.quote(str(_place(space))), "engine": shlex.quote(self._binary)}
        space.write(self._shim, _SHIM.format(**names, **paths).encode())
        os.chmod(self._shim, 0o700)  # noqa: PTH101


async def generate_stack(space: Workspace, subfolder: str) -> None:
    """Let Terragrunt generate the units of the stack that a folder belongs to, where it is not there yet."""
    place = space.source
    for part in Path(subfolder).parts if not (space.source / subfolder).exists() else ():
        if (place / STACK).is_file():
            binary = str((space.engine or space.context.finder.found[EngineName.TERRAGRUNT]).binary)
            command = [binary, "stack", "generate", *_QUIET, "--working-dir", str(place)]
            await space.run(command, what="terragrunt stack generate")
            return
        place /= part


def _wrapped(space: Workspace, required: str) -> FoundEngine:
    """The engine that the unit names, or OpenTofu before Terraform, in a version that the code accepts."""
    versions = space.context.finder.versions
    named = (
        [EngineName.TERRAFORM] if space.unit_engine == EngineName.TERRAFORM else [EngineName.TOFU, EngineName.TERRAFORM]
    )
    there = next((versions[name] for name in named if versions.get(name)), None)
    if not there:
        words = " or ".join(named)
        raise JobFailed(
            f"Terragrunt needs {words}, which this runner does not have.", code="engine_missing",
            hint=HOW_TO_GET_ONE.replace("tofu", named[0]),
        )  # fmt: skip
    return choose_version(there, required)


def _place(space: Workspace) -> Path:
    return space.root / "terragrunt-folder"


def _refuse(space: Workspace, layout: Layout, unit: Unit) -> None:
    """Refuse what would have to be invented."""
    for folder in layout.missing(unit):
        raise JobFailed(f"{UNIT} depends on {folder}, which is not in the repository.", code="unit_outside",
                        hint="Depend on units of this repository, or bind an input to the other module.")  # fmt: skip
    if unit.folder in unit.producers:
        raise JobFailed(f"{UNIT} depends on its own unit.", code="terragrunt", hint="Remove that dependency.")
    for name, place in unit.dependencies.items() if not has_own(space) else ():
        missing = {input_name(name, each) for each in unit.outputs.get(name, ())} - space.bound.values.keys()
        if missing:
            raise JobFailed(
                f'The dependency "{name}" ({place or "a computed path"}) gives outputs that are not bound: '
                f"{', '.join(sorted(missing))}.", code="dependency_unbound",
                hint=f"Accept the proposed dependency: runyard dependencies proposals {space.spec.module.path} --accept.",
            )  # fmt: skip


def _forget_mocks(space: Workspace, layout: Layout) -> None:
    for path, text in layout.texts.items():
        if any(word in text for word in MOCKS) and (without := without_mocks(text)) != text:
            space.write(space.source / path, without.encode())


def _write_outputs(space: Workspace, unit: Unit) -> None:
    """Put the known outputs of each dependency into its folder, in this job's copy of the source."""
    for name, folder in unit.dependencies.items():
        own = {
            key.removeprefix(f"{name}:"): value
            for key, value in space.bound.values.items()
            if key.startswith(f"{name}:")
        }
        if folder is None or not (space.source / folder).is_dir() or (not own and has_own(space)):
            continue
        outputs = {
            key: {"sensitive": False, "type": _type(value), "value": value}
            for key, value in (own or _NO_OUTPUT).items()
        }
        space.write(space.source / folder / OUTPUTS_FILE, json.dumps(outputs).encode())
        space.write(space.source / folder / UNIT, _KNOWN_UNIT.encode())


def _type(value: Any) -> Any:
    """The type of a value as OpenTofu writes it."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return ["tuple", [_type(each) for each in value]]
        case dict():
            return ["object", {name: _type(each) for name, each in value.items()}]
    return "dynamic"
