"""Ready-to-paste commands that start a runner, for each way people start things."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from app.shared.runner.files import BINARY, BUILD, RunnerFile

# The image's own user: nobody else, root aside, may read the token's file.
IMAGE_USER = 10001
WAYS = ("Shell", "Docker", "Compose", "systemd", "Kubernetes")
LOCAL_IMAGE = "runyard-worker"
# An address of this machine is another machine's own, and a container's own, there.
LOOPBACK = ("127.0.0.1", "localhost", "::1")
CONTAINER_HOST = "host.docker.internal"
# A cluster pulls: without a setting, the reader puts the name of a registry here.
SOME_REGISTRY = "registry.example/runyard-worker"
UNIT_FILE = Path(__file__).parents[3] / "deploy" / "systemd" / "runyard-worker.service"


@dataclass(frozen=True)
class Launch:
    """What a runner must be told; `image` is the installation's own repository, if it has one."""

    url: str
    worker_id: str
    token: str
    name: str
    version: str
    image: str = ""


def _build(image: str) -> str:
    """Say how the image comes to be: no public registry has it."""
    return f"# Build the image first, in a clone of Runyard:\n# docker build --file deploy/Dockerfile --tag {image} .\n"


def _local(launch: Launch) -> tuple[str, str]:
    """Name the image for this machine, and what must be done before."""
    if launch.image:
        return f"{launch.image}:{launch.version}", ""
    image = f"{LOCAL_IMAGE}:{launch.version}"
    return image, _build(image)


def _in_container(url: str) -> tuple[str, bool]:
    """Say how a container reaches the project, and whether it must be told which machine it is on."""
    parts = urlsplit(url)
    if parts.hostname not in LOOPBACK:
        return url, False
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{CONTAINER_HOST}{port}", True


def shell(launch: Launch) -> str:
    """Start it in a terminal."""
    return (
        f"export SUPABASE_URL={launch.url}\n"
        f"export WORKER_ID={launch.worker_id}\n"
        f"export WORKER_TOKEN={launch.token}\n"
        "runyard-worker run\n"
    )


def docker(launch: Launch) -> str:
    """Start it as a container; the token goes in through a file, not through the process list."""
    image, first = _local(launch)
    url, is_here = _in_container(launch.url)
    add_host = f"  --add-host {CONTAINER_HOST}:host-gateway \\\n" if is_here else ""
    return (
        f"{first}"
        f"printf %s {launch.token} | sudo install -m 0400 -o {IMAGE_USER} /dev/stdin runyard.token\n"
        "docker run -d --name runyard-worker --restart on-failure --stop-timeout 3600 \\\n"
        f"{add_host}"
        f"  -e SUPABASE_URL={url} \\\n"
        f"  -e WORKER_ID={launch.worker_id} \\\n"
        "  -v ./runyard.token:/run/secrets/WORKER_TOKEN:ro \\\n"
        "  -v runyard:/home/runner/.runyard \\\n"
        f"  {image}\n"
    )


def compose(launch: Launch) -> str:
    """Describe it for docker compose."""
    image, first = _local(launch)
    url, is_here = _in_container(launch.url)
    extra_hosts = f'    extra_hosts: ["{CONTAINER_HOST}:host-gateway"]\n' if is_here else ""
    return (
        f"{first}"
        f"# first: printf %s {launch.token} | sudo install -m 0400 -o {IMAGE_USER} /dev/stdin runyard.token\n"
        "services:\n"
        "  runner:\n"
        f"    image: {image}\n"
        "    restart: on-failure\n"
        "    stop_grace_period: 1h\n"
        f"{extra_hosts}"
        "    environment:\n"
        f"      SUPABASE_URL: {url}\n"
        f"      WORKER_ID: {launch.worker_id}\n"
        "    secrets: [{source: token, target: WORKER_TOKEN}]\n"
        "    volumes: [runner:/home/runner/.runyard]\n"
        "secrets:\n"
        "  token: {file: ./runyard.token}\n"
        "volumes:\n"
        "  runner: {}\n"
    )


@cache
def _unit() -> str:
    return UNIT_FILE.read_text(encoding="utf-8")


def systemd(launch: Launch) -> str:
    """Install it as a service of the machine: its user, its files, its unit."""
    return (
        f"# {BINARY} must be there: see Get the runner.\n"
        "id -u runyard >/dev/null 2>&1 ||\n"
        "  sudo useradd --system --home-dir /var/lib/runyard --shell /usr/sbin/nologin runyard\n"
        "sudo install -d -m 0755 /etc/runyard\n"
        f"printf %s {launch.token} | sudo install -m 0600 /dev/stdin /etc/runyard/token\n"
        "sudo tee /etc/runyard/worker.env >/dev/null <<'EOF'\n"
        f"SUPABASE_URL={launch.url}\n"
        f"WORKER_ID={launch.worker_id}\n"
        "EOF\n"
        "sudo tee /etc/systemd/system/runyard-worker.service >/dev/null <<'EOF'\n"
        f"{_unit()}"
        "EOF\n"
        "sudo systemctl daemon-reload\n"
        "sudo systemctl enable --now runyard-worker\n"
    )


def kubernetes(launch: Launch) -> str:
    """Install it with the Helm chart."""
    repository = launch.image or SOME_REGISTRY
    image = f"{repository}:{launch.version}"
    _, is_here = _in_container(launch.url)
    warning = (
        f"# {launch.url} is this machine's own: put an address there that the cluster reaches.\n" if is_here else ""
    )
    push = f"# and push it where the cluster can pull it:\n# docker push {image}\n"
    return (
        f"{warning}{'' if launch.image else _build(image) + push}"
        "# In a clone of Runyard, which has the chart:\n"
        "kubectl create secret generic runyard-worker \\\n"
        f"  --from-literal=WORKER_TOKEN={launch.token}\n"
        "helm install runyard-worker deploy/helm/runyard-worker \\\n"
        f"  --set image.repository={repository} --set image.tag={launch.version} \\\n"
        f"  --set worker.url={launch.url} \\\n"
        f"  --set worker.id={launch.worker_id} \\\n"
        "  --set worker.existingSecret=runyard-worker\n"
    )


def update(version: str, files: list[RunnerFile], image: str = "") -> dict[str, str]:
    """Update a runner on its own machine, by the way that it was started; it drains on the first signal."""
    fetched = "\n".join(f"# {file['name']}\n{file['commands']}" for file in files)
    built = f"# In a clone of Runyard at v{version}: no release offers files\n{BUILD}"
    tag = f"{image or LOCAL_IMAGE}:{version}"
    first = "" if image else _build(tag)
    return {
        "systemd": f"{fetched or built}# It finishes its job, then the new version starts\nsudo systemctl restart runyard-worker\n",
        "Compose": f"{first}# With image: {tag} in compose.yaml\ndocker compose up -d\n",
        "Kubernetes": (
            f"{first}helm upgrade runyard-worker deploy/helm/runyard-worker \\\n"
            f"  --reuse-values --set image.tag={version}\n"
        ),
    }


def commands(launch: Launch) -> dict[str, str]:
    """Write every way's command."""
    makers = (shell, docker, compose, systemd, kubernetes)
    return {way: make(launch) for way, make in zip(WAYS, makers, strict=True)}
