"""Inputs that are outputs of other modules: read when the job runs, and kept nowhere."""

import asyncio

from wire.hcl_blocks import declared_variables
from worker.api.replies import BoundValues
from worker.attempt.workspace import Workspace
from worker.engines.driver import driver_for
from worker.enums import EngineName, JobType
from worker.errors import JobFailed, Rejected
from worker.files.safe_writer import SafeWriter
from worker.logs.texts import texts_of

MOST_EXTRA_BYTES = 16 * 1024 * 1024
MOST_EXTRA_FILES = 200

# An import gives them as variables: a producer without outputs must not keep anybody from moving resources.
_WITHOUT_INPUTS = frozenset({JobType.OUTPUT, JobType.STATE})


async def read_bound(space: Workspace) -> BoundValues:
    """Read the values of the module's bound inputs; a sensitive one is masked in the log from now on.

    Only an enforced variable is given beside a binding, and wins.
    """
    bindings = space.spec.module.bindings
    # A saved plan has its values already, and the engine refuses others beside it. Terragrunt reads its files each time.
    has_values = space.job.plan_job_id is not None or space.job.type in _WITHOUT_INPUTS
    if not bindings or (has_values and space.spec.module.engine is not EngineName.TERRAGRUNT):
        return BoundValues()
    await _check_declared(space)
    try:
        found = await space.context.server.bound_values(space.ref)
    except Rejected as error:
        raise JobFailed(error.message, code="bound_input_missing", hint=error.hint) from error
    given = {*space.variables.inputs, *space.variables.expressions}
    found = BoundValues(
        values={name: value for name, value in found.values.items() if name not in given}, sensitive=found.sensitive
    )
    if space.spec.options.preview:
        space.say("Preview: some inputs are outputs that are planned and not applied. This plan is never applied.")
    space.log.redactor.add(*(text for name in found.sensitive for text in texts_of(found.values.get(name))))
    for name in sorted(found.values):
        secret = ", sensitive" if name in found.sensitive else ""
        space.say(f"Input {name} is the output {bindings.get(name, name)} of another module{secret}")
    return found


async def _check_declared(space: Workspace) -> None:
    """Refuse a bound input that the code does not declare: the engine would only warn, and continue without it."""
    module = space.spec.module
    if module.engine in (EngineName.PULUMI, EngineName.TERRAGRUNT):
        return
    declared = await asyncio.to_thread(declared_variables, space.work, is_tofu=module.engine is EngineName.TOFU)
    for name in sorted(set(module.bindings) - declared):
        raise JobFailed(
            f'The code of {module.path} declares no variable "{name}", which is bound to the output {module.bindings[name]}.',
            code="bound_input_unknown",
            hint=f"Declare the variable, or remove the binding: runyard dependencies list {module.path}.",
        )


async def write_inputs(space: Workspace) -> None:
    """Write extra files and variables that are files, then the inputs in the engine's own form."""
    with SafeWriter(space.work, most_bytes=MOST_EXTRA_BYTES, most_files=MOST_EXTRA_FILES) as writer:
        for file in space.spec.module.extra_files:
            size = writer.write(file.path, file.content.encode(), mode=file.mode_bits)
            space.say(f"Extra file {file.path}, {size:,} bytes")
        for path, content in sorted(space.variables.files.items()):
            size = writer.write(path, content.encode(), mode=0o644)
            space.say(f"File {path}, {size:,} bytes")
    space.bound = await read_bound(space)
    await driver_for(space).write_inputs(space)
