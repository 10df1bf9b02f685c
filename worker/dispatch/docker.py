"""Executors as Docker containers."""

from contextlib import suppress
from http import HTTPStatus
from typing import Any

from aiodocker import Docker
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError
from aiohttp import ClientError

from worker.clock import Clock, SystemClock
from worker.dispatch.base import LOST
from worker.dispatch.order import COMMAND, Order, whole_environment
from worker.errors import RunnerUnfit
from worker.settings import Settings
from worker.settings.sizes import parse_bytes

PULL_SECONDS = 600
POLL_SECONDS = 2.0
AWAY = (DockerError, ClientError, OSError)


class DockerExecution:
    """One container."""

    def __init__(self, container: DockerContainer, clock: Clock) -> None:
        """Keep the container."""
        self.clock = clock
        self.container = container
        self.why = ""

    async def wait(self) -> int:
        """Return the container's exit code; Docker itself being away for a while is no end."""
        while True:
            try:
                result = await self.container.wait(timeout=None)
            except DockerError as error:
                self.why = str(error.message)
                return LOST
            except (ClientError, OSError):
                await self.clock.sleep(POLL_SECONDS)
            else:
                self.why = f"the container ended with exit code {result['StatusCode']}"
                return int(result["StatusCode"])

    async def stop(self) -> None:
        """Send one SIGTERM."""
        await self._signal("SIGTERM")

    async def kill(self) -> None:
        """Send SIGKILL."""
        await self._signal("SIGKILL")

    async def remove(self) -> None:
        """Remove the container and what it wrote."""
        with suppress(*AWAY):
            await self.container.delete(force=True, v=True)

    async def _signal(self, name: str) -> None:
        """Send a signal; a container that has ended already needs none."""
        with suppress(*AWAY):
            await self.container.kill(signal=name)


class DockerDispatcher:
    """Starts containers on one Docker host."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        """Keep the settings; the connection is made with the first job."""
        self.settings = settings
        self.data = settings.dispatcher.data
        self.clock = clock or SystemClock()
        self._client: Docker | None = None

    @property
    def client(self) -> Docker:
        """The connection to Docker's host."""
        self._client = self._client or Docker(url=self.data.host)
        return self._client

    async def start(self, order: Order) -> DockerExecution:
        """Pull the image if it is not local, create the container, start it."""
        try:
            if not self.data.local_image:
                await self._pull()
            container = await self._create(order)
            await container.start()
        except AWAY as error:
            raise _unfit(error) from error
        return DockerExecution(container, self.clock)

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.close()

    async def _pull(self) -> None:
        auth: dict[str, Any] | None = None
        if self.data.registry_username and self.data.registry_password:
            auth = {
                "username": self.data.registry_username,
                "password": self.data.registry_password.get_secret_value(),
            }
        await self.client.images.pull(str(self.data.image), auth=auth, timeout=PULL_SECONDS)

    async def _create(self, order: Order) -> DockerContainer:
        """Create the container, or take the one that an interrupted start left."""
        try:
            return await self.client.containers.create(self.config(order), name=order.name)
        except DockerError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            return await self.client.containers.get(order.name)

    def config(self, order: Order) -> dict[str, Any]:
        """Return the container as Docker's API describes it."""
        host: dict[str, Any] = {"Init": True, "SecurityOpt": ["no-new-privileges"], "ExtraHosts": self.data.extra_hosts}
        if self.data.memory_limit:
            host["Memory"] = parse_bytes(self.data.memory_limit)
        if self.data.bind_path:
            host["Binds"] = [self.data.bind_path]
        environment = whole_environment(order, self.settings)
        return {
            "Image": self.data.image,
            "Cmd": list(COMMAND),
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Labels": order.labels,
            "StopSignal": "SIGTERM",
            "HostConfig": host,
        }


def _unfit(error: Exception) -> RunnerUnfit:
    """No job's fault: Docker does not answer, or has no such image."""
    is_image = isinstance(error, DockerError) and error.status == HTTPStatus.NOT_FOUND
    return RunnerUnfit(
        f"Docker could not start the executor: {getattr(error, 'message', error)}",
        code="image" if is_image else "dispatcher",
        hint="Check the dispatcher's host, image and registry credentials on the runner.",
    )
