"""The settings that a runner needs to start, and how each place names the image and the project."""

from dataclasses import dataclass
from urllib.parse import urlsplit

# The image's own user: nobody else, root aside, may read the token's file.
IMAGE_USER = 10001
LOCAL_IMAGE = "runyard-worker"
# An address of this machine is another machine's own, and a container's own, there.
LOOPBACK = ("127.0.0.1", "localhost", "::1")
CONTAINER_HOST = "host.docker.internal"
# The audience of a workload's identity token.
AUDIENCE = "runyard"


@dataclass(frozen=True)
class Launch:
    """The settings that a runner needs; `image` is the installation's own repository, if it has one.

    `proof` is "token", or how its service account signs in: "secret" or "identity".
    """

    url: str
    worker_id: str
    token: str
    name: str
    version: str
    image: str = ""
    client_id: str = ""
    proof: str = "token"


def build(image: str) -> str:
    """Build the image, in a clone."""
    return f"docker build --file deploy/Dockerfile --tag {image} .\n"


def build_note(image: str) -> str:
    """Build the image where it is missing: no public registry has it."""
    return f"# In a clone of Runyard: no registry has the image.\ndocker image inspect {image} >/dev/null 2>&1 ||\n  {build(image)}"


def image_here(launch: Launch) -> tuple[str, str]:
    """Name the image for this machine, and what must be done before."""
    if launch.image:
        return f"{launch.image}:{launch.version}", ""
    image = f"{LOCAL_IMAGE}:{launch.version}"
    return image, build_note(image)


def in_container(url: str) -> tuple[str, bool]:
    """Describe how a container reaches the project, and whether it needs the name of its machine."""
    parts = urlsplit(url)
    if parts.hostname not in LOOPBACK:
        return url, False
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{CONTAINER_HOST}{port}", True
