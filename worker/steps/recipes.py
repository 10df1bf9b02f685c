"""The steps of each type of job, in their order."""

import asyncio
from collections.abc import Iterator
from typing import assert_never

from wire.hcl_blocks import declared_variables
from worker.api.replies import BoundValues
from worker.attempt.spec import Hook, JobSpec
from worker.attempt.workspace import Act, Step, Workspace
from worker.engines.hcl import HclDriver
from worker.engines.pulumi import PulumiDriver
from worker.engines.terragrunt import TerragruntDriver
from worker.enums import EngineName, JobPhase, JobType
from worker.errors import JobFailed, Rejected
from worker.files.safe_writer import SafeWriter
from worker.logs.texts import texts_of
from worker.steps.engine import respect_code
from worker.steps.fetch import fetch
from worker.steps.hooks import run_hook
from worker.steps.identity import exchange_tokens
from worker.steps.policies import check_policies
from worker.steps.policy_test import keep_redacted, run_policy_test
from worker.steps.prepare import make_folders, prepare
from worker.steps.resolve import resolve


def driver_for(space: Workspace) -> HclDriver | PulumiDriver:
    """Return the driver of the module's engine; `prepare` has chosen its version."""
    found = space.engine or space.context.finder.found[space.spec.module.engine]
    match found.name:
        case EngineName.TOFU | EngineName.TERRAFORM:
            return HclDriver(found)
        case EngineName.PULUMI:
            return PulumiDriver(found)
        case EngineName.TERRAGRUNT:
            return TerragruntDriver(found, space)
        case _ as never:
            assert_never(never)


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


async def _init(space: Workspace) -> None:
    await respect_code(space)
    await driver_for(space).init(space)


async def _plan(space: Workspace) -> None:
    options, kind = space.spec.options, space.job.type
    is_destroy = kind is JobType.DESTROY or options.destroy
    is_refresh_only = kind is JobType.DRIFT or options.refresh_only
    await driver_for(space).plan(space, is_destroy=is_destroy, is_refresh_only=is_refresh_only)
    if not is_refresh_only:
        await keep_redacted(space)


async def _apply(space: Workspace, *, is_destroy: bool) -> None:
    driver = driver_for(space)
    try:
        await driver.apply(space, is_destroy=is_destroy)
    finally:
        await driver.rescue(space)


async def _change_state(space: Workspace) -> None:
    driver = driver_for(space)
    try:
        await driver.change_state(space)
    finally:
        await driver.rescue(space)


_PREPARE = Step("prepare", "Prepare", JobPhase.PREPARE, prepare)
_FOLDERS = Step("prepare", "Prepare", JobPhase.PREPARE, make_folders)
_RESOLVE = Step("resolve", "Read repository", JobPhase.FETCH, resolve)
_EXCHANGE = Step("exchange", "Exchange tokens", JobPhase.OUTPUT, exchange_tokens)
_FETCH = Step("fetch", "Fetch source", JobPhase.FETCH, fetch)
_INPUTS = Step("inputs", "Write inputs and extra files", JobPhase.INPUTS, write_inputs)
_SAVE_PLAN = Step("save-plan", "Save plan", JobPhase.PLAN, lambda space: driver_for(space).save_plan(space))
_CHECK = Step("check", "Check policies", JobPhase.PLAN, check_policies)
_TEST = Step("test-policies", "Test policies", JobPhase.PLAN, run_policy_test)
_LOAD_PLAN = Step("load-plan", "Download plan", JobPhase.PLAN, lambda space: driver_for(space).load_plan(space))

_CHANGE_STATE = Step("change-state", "Change state", JobPhase.APPLY, _change_state)

_TASKS: dict[str, Step] = {
    "init": Step("init", "Init", JobPhase.INIT, _init),
    "plan": Step("plan", "Plan", JobPhase.PLAN, _plan),
    "apply": Step("apply", "Apply", JobPhase.APPLY, lambda space: _apply(space, is_destroy=space.spec.options.destroy)),
    "destroy": Step("destroy", "Destroy", JobPhase.DESTROY, lambda space: _apply(space, is_destroy=True)),
    "output": Step("output", "Output", JobPhase.OUTPUT, lambda space: driver_for(space).output(space)),
}


def recipe(kind: JobType, spec: JobSpec, *, has_saved_plan: bool) -> list[Step]:
    """List the steps of a job."""
    if kind is JobType.RESOLVE:
        return [_FOLDERS, _RESOLVE]
    if kind is JobType.POLICY_TEST:
        return [_FOLDERS, _TEST]
    if spec.options.test_identities:
        return [_FOLDERS, _EXCHANGE]
    return [_PREPARE, _FETCH, _INPUTS, *_with_hooks("init", spec), *_work(kind, spec, has_saved_plan=has_saved_plan)]


def _work(kind: JobType, spec: JobSpec, *, has_saved_plan: bool) -> Iterator[Step]:
    checked = [*_with_hooks("plan", spec), *([_CHECK] if spec.policies else [])]
    planned = [_LOAD_PLAN] if has_saved_plan else checked
    match kind:
        case JobType.PLAN:
            yield from (*checked, _SAVE_PLAN)
        case JobType.DRIFT:
            yield from _with_hooks("plan", spec)
        case JobType.APPLY:
            yield from (*planned, *_with_hooks("apply", spec), *_with_hooks("output", spec))
        case JobType.DESTROY:
            yield from (*planned, *_with_hooks("destroy", spec))
        case JobType.STATE:
            yield _CHANGE_STATE
        case JobType.OUTPUT:
            yield from _with_hooks("output", spec)
        case (
            JobType.DEPLOY_WORKER | JobType.UPDATE_WORKER | JobType.REMOVE_WORKER | JobType.VERIFY_IDENTITY
            | JobType.RESOLVE | JobType.POLICY_TEST
        ):  # fmt: skip
            raise JobFailed(f"{kind} is not a job on a module.", code="bad_payload")
        case _ as never:
            assert_never(never)


def _with_hooks(task: str, spec: JobSpec) -> Iterator[Step]:
    step = _TASKS[task]
    for moment in ("before", "after"):
        if moment == "after":
            yield step
        name = f"{moment}_{task}"
        if hook := spec.hook(name):
            yield Step(name.replace("_", "-"), f"Hook {moment} {task}", step.phase, _hook(name, hook))


def _hook(name: str, hook: Hook) -> Act:
    return lambda space: run_hook(space, name, hook)
