"""Executors as Docker containers."""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from aiodocker import Docker
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError
from aiohttp import ClientError

from worker.clock import Clock
from worker.dispatch.base import COMMAND, ENGINES_LABEL, LOST, Order, whole_environment
from worker.errors import RunnerUnfit
from worker.runtime_log import get_logger
from worker.settings.dispatcher import parse_bytes
from worker.settings.model import Settings

PULL_SECONDS = 600
POLL_SECONDS = 2.0
AWAY = (DockerError, ClientError, OSError, TimeoutError)
DOCKER_HUB = "docker.io/library"
# The library's own status for a Docker that cannot be reached.
NOT_REACHED = 900


class DockerExecution:
    """One container."""

    def __init__(self, container: DockerContainer, clock: Clock, left: list["DockerExecution"]) -> None:
        """Keep the container; one that cannot be removed is noted in `left`."""
        self.clock = clock
        self.container = container
        self.left = left
        self.why = ""

    async def wait(self) -> int:
        """Return the container's exit code; an outage of Docker itself is not an end."""
        is_noted = False
        while True:
            try:
                result = await self.container.wait(timeout=None)
                self.why = await self._reason(int(result["StatusCode"]))
                return int(result["StatusCode"])
            except DockerError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    self.why = str(error.message)
                    return LOST
                problem: Exception = error
            except (ClientError, OSError) as error:
                problem = error
            if not is_noted:
                is_noted = True
                get_logger("worker.dispatch").warning(
                    "Docker does not answer; waiting for the executor", id="docker_silent", why=str(problem)
                )
            await self.clock.sleep(POLL_SECONDS)

    async def stop(self) -> None:
        """Send one SIGTERM."""
        await self._signal("SIGTERM")

    async def kill(self) -> None:
        """Send SIGKILL."""
        await self._signal("SIGKILL")

    async def restart(self) -> bool:
        """Start the same container again: its files are still in it."""
        try:
            await self.container.start()
        except AWAY as error:
            self.why = f"{self.why}; it could not be started again: {getattr(error, 'message', error)}"
            return False
        return True

    async def remove(self) -> None:
        """Remove the container and what it wrote; later, where Docker does not answer now."""
        try:
            await self.container.delete(force=True, v=True)
        except AWAY as error:
            if getattr(error, "status", None) != HTTPStatus.NOT_FOUND:
                self.left.append(self)

    async def _signal(self, name: str) -> None:
        """Send a signal; a container that has ended already needs none."""
        with suppress(*AWAY):
            await self.container.kill(signal=name)

    async def _reason(self, code: int) -> str:
        """Describe how it ended, and whether for lack of memory."""
        words = f"the container ended with exit code {code}"
        with suppress(*AWAY):
            state = (await self.container.show())["State"]
            if state.get("OOMKilled"):
                words += ", out of memory: raise the dispatcher's MemoryLimit"
            elif state.get("Error"):
                words += f": {state['Error']}"
        return words


class DockerDispatcher:
    """Starts containers on one Docker host."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.data = settings.dispatcher.data
        self.clock = clock or Clock()
        self._client: Docker | None = None
        self._left: list[DockerExecution] = []

    @property
    def client(self) -> Docker:
        """The connection to Docker's host."""
        try:
            self._client = self._client or Docker(url=self.data.host)
        except (AssertionError, ValueError) as error:
            # The library's message for a missing socket, such as before Docker has started, or for a wrong address.
            raise ConnectionError(str(error) or "No socket of Docker was found.") from error
        return self._client

    async def start(self, order: Order) -> DockerExecution:
        """Pull the image if it is not local, create the container, start it."""
        try:
            await self._remove_left()
            await self._have_image()
            container = await self._create(order)
        except (*AWAY, ValueError) as error:
            raise self.unfit(error) from error
        execution = DockerExecution(container, self.clock, self._left)
        try:
            await container.start()
        except AWAY as error:
            await execution.remove()
            raise self.unfit(error) from error
        return execution

    async def find(self, name: str) -> DockerExecution | None:
        """Find a container by its name, whether it runs or has ended."""
        try:
            return DockerExecution(await self.client.containers.get(name), self.clock, self._left)
        except DockerError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise self.unfit(error) from error
        except (ClientError, OSError) as error:
            raise self.unfit(error) from error

    async def probe(self) -> None:
        """Ask for the image: where it is not local, by pulling it."""
        try:
            await self._remove_left()
            await self._have_image()
            await self.client.images.inspect(str(self.data.image))
        except AWAY as error:
            raise self.unfit(error) from error

    async def engines(self) -> dict[str, str] | None:
        """Read them off the image's label; none while the image is not there."""
        try:
            image = await self.client.images.inspect(str(self.data.image))
            label = image["Config"]["Labels"][ENGINES_LABEL]
        except (*AWAY, LookupError, TypeError):
            return None
        return {name: version for name, _, version in (part.partition("=") for part in label.split(",")) if version}

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.close()

    async def _remove_left(self) -> None:
        """Remove what could not be removed while Docker was away, such as a container that was made and never started."""
        left = self._left.copy()
        self._left.clear()
        for each in left:
            await each.remove()

    async def _have_image(self) -> None:
        """Pull the image unless it is local; whatever a registry says to that is about the image."""
        if self.data.local_image:
            return
        auth: dict[str, Any] | None = None
        image = str(self.data.image)
        if self.data.registry_username and self.data.registry_password:
            auth = {
                "username": self.data.registry_username,
                "password": self.data.registry_password.get_secret_value(),
            }
            # The library wants to know whose password it is; a bare name is Docker Hub's.
            image = image if "/" in image else f"{DOCKER_HUB}/{image}"
        try:
            async with asyncio.timeout(PULL_SECONDS):
                await self.client.images.pull(image, auth=auth)
        except DockerError as error:
            raise self.unfit(error, is_pull=True) from error

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
        host: dict[str, Any] = {
            # The executor's first process is its own: Docker's would keep the job's token where the job can read it.
            "Init": False,
            "SecurityOpt": ["no-new-privileges"],
            "ExtraHosts": self.data.extra_hosts,
            "Binds": self.data.bind_path,
        }
        if self.data.memory_limit:
            # As much memory and not a byte of swap: a job over its limit ends with that reason.
            host["Memory"] = host["MemorySwap"] = parse_bytes(self.data.memory_limit)
        environment = whole_environment(order, self.settings)
        return {
            "Image": self.data.image,
            "Cmd": list(COMMAND),
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Labels": order.labels,
            "StopSignal": "SIGTERM",
            # A daemon that leaves stops its containers: the engine needs its time there, too.
            "StopTimeout": int(self.settings.engine.stop_grace_seconds),
            "HostConfig": host,
        }

    def unfit(self, error: Exception, *, is_pull: bool = False) -> RunnerUnfit:
        """No job's fault: Docker does not answer, has no such image, or does not accept the settings."""
        words = getattr(error, "message", None) or str(error) or type(error).__name__
        is_image = _has_answered(error) and (is_pull or _is_about_image(error))
        return RunnerUnfit(
            f"Docker could not start the executor: {words}",
            code="image" if is_image else "dispatcher",
            hint=self._remedy(error, is_image=is_image),
        )

    def _remedy(self, error: Exception, *, is_image: bool) -> str:
        if not _has_answered(error):
            return f"See that Docker runs at {self.data.host or 'its default socket'} and that the runner may use it."
        if is_image and self.data.local_image:
            return f"Load {self.data.image} on that Docker host, or let it be pulled: LocalImage=false."
        if is_image:
            return f"Check that {self.data.image} exists, and the registry's user and password."
        return "Check the dispatcher's binds, hosts, memory limit, image and registry credentials on the runner."


def _has_answered(error: Exception) -> bool:
    """Whether it is Docker's own answer; the library has a status for a Docker that is not there, too."""
    return isinstance(error, DockerError) and error.status != NOT_REACHED


def _is_about_image(error: Exception) -> bool:
    about: Any = error
    return about.status == HTTPStatus.NOT_FOUND or "image" in str(about.message).lower()
