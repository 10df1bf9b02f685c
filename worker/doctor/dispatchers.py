"""Checks of the dispatcher: the daemon or API answers, the runner has the rights that it needs, the image exists."""

from collections.abc import Awaitable, Callable

from worker.doctor.check import Check, fail, ok
from worker.errors import RunnerUnfit
from worker.settings.dispatcher import DispatcherType
from worker.settings.model import Settings

NAME = "Dispatcher"
DispatcherCheck = Callable[[Settings], Awaitable[list[Check]]]


async def dispatcher_checks(settings: Settings) -> list[Check]:
    """Try what the first job would need; a runner that executes jobs itself needs nothing of it."""
    if not settings.dispatcher.is_remote:
        return []
    try:
        check = _checks_of(settings.dispatcher.type)
    except ImportError as error:
        kind = settings.dispatcher.type.value
        extra = "aws" if settings.dispatcher.type is DispatcherType.ECS else kind
        hint = f"Install the runner's wheel once more, with [{extra}] after its name."
        return [fail(NAME, f"{kind}: {error.name} is not installed", hint)]
    try:
        return await check(settings)
    except RunnerUnfit as unfit:
        return [fail(NAME, unfit.message, unfit.hint)]


def engine_check(settings: Settings) -> Check:
    """With a dispatcher the image's engines count, not this machine's."""
    where = settings.dispatcher.data.image or settings.dispatcher.data.task_definition
    return ok("Engines", f"those of the executors count ({where})")


def _checks_of(kind: DispatcherType) -> DispatcherCheck:
    """Each one's library is imported only where it is used."""
    if kind is DispatcherType.DOCKER:
        from worker.doctor.docker import check_docker

        return check_docker
    if kind is DispatcherType.KUBERNETES:
        from worker.doctor.kubernetes import check_kubernetes

        return check_kubernetes
    from worker.doctor.ecs import check_ecs

    return check_ecs
