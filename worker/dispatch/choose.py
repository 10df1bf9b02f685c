"""Chooses the dispatcher that the settings name."""

from typing import assert_never

from worker.dispatch.base import Dispatcher
from worker.settings.dispatcher import DispatcherType
from worker.settings.model import Settings


def dispatcher_for(settings: Settings) -> Dispatcher | None:
    """Return the dispatcher, or none for `local`: the runner executes its jobs itself.

    Each one's library is imported only where it is used, so that the others need not be installed.
    """
    kind = settings.dispatcher.type
    match kind:
        case DispatcherType.LOCAL:
            return None
        case DispatcherType.DOCKER:
            from worker.dispatch.docker import DockerDispatcher

            return DockerDispatcher(settings)
        case DispatcherType.KUBERNETES:
            from worker.dispatch.kubernetes import KubernetesDispatcher

            return KubernetesDispatcher(settings)
        case DispatcherType.ECS:
            from worker.dispatch.ecs import EcsDispatcher

            return EcsDispatcher(settings)
        case _:
            assert_never(kind)
