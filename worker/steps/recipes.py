"""The steps of each type of job, in their order."""

from collections.abc import Iterator
from typing import assert_never

from worker.attempt.spec import Hook, JobSpec
from worker.attempt.workspace import Act, Step, Workspace
from worker.engines.driver import driver_for
from worker.enums import JobPhase, JobType
from worker.errors import JobFailed
from worker.steps.bound_inputs import write_inputs
from worker.steps.engine import respect_code
from worker.steps.fetch import fetch
from worker.steps.hooks import run_hook
from worker.steps.identity import exchange_tokens
from worker.steps.policies import check_policies
from worker.steps.policy_test import keep_redacted, run_policy_test
from worker.steps.prepare import make_folders, prepare
from worker.steps.resolve import resolve


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
