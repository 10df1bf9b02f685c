"""The choice of the engine's version for a job: one that is installed, or one that the operator's command provides."""

import asyncio
import os
import shlex
from collections.abc import Sequence

from wire.hcl_blocks import read_facts
from worker.attempt.workspace import Workspace
from worker.children.child import Command
from worker.enums import EngineName
from worker.errors import JobFailed
from worker.finder import HOW_TO_GET_ONE, FoundEngine, choose_version, named_version


async def check_engine(space: Workspace) -> None:
    """Fail at once when this runner cannot do the job."""
    module = space.spec.module
    there = space.context.finder.versions.get(module.engine, [])
    use_engine(space, await _choose(space, there, module.engine_version))


def use_engine(space: Workspace, engine: FoundEngine) -> None:
    """Run this version; hooks find it first on their PATH, too."""
    space.engine = engine
    space.env["PATH"] = os.pathsep.join([str(engine.binary.parent), space.context.finder.path])
    space.result["engine_version"] = engine.version
    space.say(f"{engine.name} {engine.version}")


async def respect_code(space: Workspace) -> None:
    """Choose another version where `required_version` in the code does not accept the chosen one."""
    module, chosen = space.spec.module, space.engine
    if chosen is None or module.engine in (EngineName.PULUMI, EngineName.TERRAGRUNT):
        return
    facts = await asyncio.to_thread(read_facts, space.work, is_tofu=module.engine is EngineName.TOFU)
    others = [each for each in space.context.finder.versions[module.engine] if each != chosen]
    better = await _choose(space, [chosen, *others], module.engine_version, facts.required_version)
    if better != chosen:
        use_engine(space, better)


async def _choose(space: Workspace, there: Sequence[FoundEngine], *required: str | None) -> FoundEngine:
    """Choose among the installed versions; where none fits, let the operator's command provide one first."""
    name = space.spec.module.engine
    try:
        return _installed(space, there, *required)
    except JobFailed:
        version = named_version(*required)
        if not space.context.settings.engine.fetch_command or (version is None and any(required)):
            raise
    await provide(space, f"{name}@{version}" if version else name)
    return _installed(space, space.context.finder.versions.get(name, []), *required)


def _installed(space: Workspace, there: Sequence[FoundEngine], *required: str | None) -> FoundEngine:
    if there:
        return choose_version(there, *required)
    wanted = space.spec.module.engine
    others = ", ".join(sorted(space.context.finder.found)) or "none"
    raise JobFailed(
        f"The module needs {wanted}, which this runner does not have (it has: {others}).",
        code="engine_missing",
        hint=HOW_TO_GET_ONE.replace("tofu", wanted),
    )


async def provide(space: Workspace, wanted: str) -> None:
    """Run the operator's command as the runner itself: the job's log shows how far it is, and cancelling the job ends it."""
    argv = [part.replace("{engine}", wanted) for part in shlex.split(space.context.settings.engine.fetch_command)]
    space.say(f"This runner does not have {wanted}: {shlex.join(argv)}")

    async def show(data: bytes) -> None:
        await asyncio.to_thread(space.log.write, data)

    try:
        code = await space.control.run_child(Command(tuple(argv), space.root, space.context.environ), show)
    except OSError as error:
        raise JobFailed(
            f"{argv[0]} cannot be started: {error.strerror}.", code="engine_fetch",
            hint="The runner's operator checks Engine.FetchCommand.",
        ) from error  # fmt: skip
    finally:
        await asyncio.to_thread(space.log.end_output)
    if code != 0:
        raise JobFailed(
            f"{wanted} could not be provided: {argv[0]} ended with exit code {code}.", code="engine_fetch",
            hint="The job's log shows its output. Require another version, or install this one on the runner.",
        )  # fmt: skip
    await space.context.finder.refresh()
