"""Lifecycle jobs as the steps of an ordinary job: same log, same cancel checks, same report."""

from collections.abc import Awaitable, Callable
from typing import assert_never

from worker.attempt.workspace import Step, Workspace
from worker.cloud.lifecycle import DEPLOY, REMOVE, UPDATE, LifecycleStep, Progress, begin
from worker.cloud.target import Target
from worker.cloud.target_store import POLL_SECONDS, ServerTargetStore
from worker.cloud.verify import verify_recipe
from worker.enums import JobPhase, JobType
from worker.errors import JobFailed


def lifecycle_recipe(kind: JobType) -> list[Step]:
    """List the steps of a lifecycle job; each can be done again, so none of them is a changing phase."""
    if kind is JobType.VERIFY_IDENTITY:
        return verify_recipe()
    session: list[Progress] = []

    async def open_session(space: Workspace) -> None:
        scaling = space.context.settings.scaling
        target = Target.from_payload(space.job.payload, space.context.settings.server.url, scaling.image_repository)
        store = ServerTargetStore(
            space.context.server,
            space.ref,
            space.log.redactor.add,
            scaling.start_patience_seconds,
            poll_seconds=min(POLL_SECONDS, scaling.poll_seconds),
        )
        session.append(await begin(target, store, space.say))

    opening = Step("identity", "Cloud identity", JobPhase.PREPARE, open_session)
    return [opening, *(_step(part, session) for part in _parts(kind))]


def _parts(kind: JobType) -> tuple[LifecycleStep, ...]:
    match kind:
        case JobType.DEPLOY_WORKER:
            return DEPLOY
        case JobType.UPDATE_WORKER:
            return UPDATE
        case JobType.REMOVE_WORKER:
            return REMOVE
        case (
            JobType.PLAN | JobType.APPLY | JobType.DESTROY | JobType.OUTPUT | JobType.DRIFT | JobType.VERIFY_IDENTITY
            | JobType.RESOLVE | JobType.STATE | JobType.POLICY_TEST
        ):  # fmt: skip
            raise JobFailed(f"{kind} is not a job about a runner.", code="bad_payload")
        case _ as never:
            assert_never(never)


def _step(part: LifecycleStep, session: list[Progress]) -> Step:
    act: Callable[[Workspace], Awaitable[None]] = lambda _: part.act(session[0])  # noqa: E731 - closes over the part
    return Step(part.name, part.title, JobPhase.INIT, act)
