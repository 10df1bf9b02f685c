"""The docker dispatcher's place: a daemon that answers, and the executor's image on it."""

from http import HTTPStatus

from aiodocker.exceptions import DockerError

from worker.dispatch.docker import AWAY, DockerDispatcher
from worker.doctor.check import Check, fail, ok, warn
from worker.settings.model import Settings


async def check_docker(settings: Settings) -> list[Check]:
    """Ask the daemon for its version, then for the image; nothing is pulled or started."""
    dispatcher = DockerDispatcher(settings)
    try:
        try:
            version = (await dispatcher.client.version())["Version"]
        except (*AWAY, ValueError) as error:
            unfit = dispatcher.unfit(error)
            return [
                fail("Docker", unfit.message.replace("could not start the executor", "does not answer"), unfit.hint)
            ]
        where = settings.dispatcher.data.host or "its default socket"
        return [ok("Docker", f"{version} answers at {where}"), await _image(dispatcher)]
    finally:
        await dispatcher.close()


async def _image(dispatcher: DockerDispatcher) -> Check:
    data = dispatcher.data
    try:
        found = await dispatcher.client.images.inspect(str(data.image))
    except DockerError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            return fail("Image", str(error.message), "See that the runner may use that Docker.")
        if data.local_image:
            return fail("Image", f"{data.image} is not there", dispatcher.unfit(error).hint)
        remedy = "Each job pulls it: `docker pull` it there once to see that it can be had."
        return warn("Image", f"{data.image} is not there yet", remedy)
    return ok("Image", f"{data.image} exists ({str(found['Id'])[:19]})")
