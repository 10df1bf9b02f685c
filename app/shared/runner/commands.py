"""Ready-to-paste commands that start a runner, for each way people start things."""

from functools import cache
from pathlib import Path

from app.shared.runner import account_commands
from app.shared.runner.files import BINARY, BUILD, RunnerFile
from app.shared.runner.launch import (
    CONTAINER_HOST,
    IMAGE_USER,
    LOCAL_IMAGE,
    Launch,
    build_note,
    image_here,
    in_container,
)

__all__ = ["WAYS", "Launch", "commands", "update"]

WAYS = ("Shell", "Docker", "Compose", "systemd", "Kubernetes")
# A cluster pulls: without a setting, the reader puts the name of a registry here.
SOME_REGISTRY = "registry.example/runyard-worker"
UNIT_FILE = Path(__file__).parents[3] / "deploy" / "systemd" / "runyard-worker.service"


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
    image, first = image_here(launch)
    url, is_here = in_container(launch.url)
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
    image, first = image_here(launch)
    url, is_here = in_container(launch.url)
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
    _, is_here = in_container(launch.url)
    warning = (
        f"# {launch.url} is this machine's own: put an address there that the cluster reaches.\n" if is_here else ""
    )
    push = f"# and push it where the cluster can pull it:\n# docker push {image}\n"
    return (
        f"{warning}{'' if launch.image else build_note(image) + push}"
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
    first = "" if image else build_note(tag)
    return {
        "systemd": f"{fetched or built}# It finishes its job, then the new version starts\nsudo systemctl restart runyard-worker\n",
        "Compose": f"{first}# With image: {tag} in compose.yaml\ndocker compose up -d\n",
        "Kubernetes": (
            f"{first}helm upgrade runyard-worker deploy/helm/runyard-worker \\\n"
            f"  --reuse-values --set image.tag={version}\n"
        ),
    }


def commands(launch: Launch) -> dict[str, str]:
    """Write every way's command; with a service account no command contains a secret."""
    if launch.client_id:
        return {
            "Shell": account_commands.shell(launch),
            "Docker": account_commands.docker(launch),
            "Compose": account_commands.compose(launch),
            "systemd": account_commands.systemd(launch, _unit()),
            "Kubernetes": account_commands.kubernetes(launch, launch.image or SOME_REGISTRY),
        }
    makers = (shell, docker, compose, systemd, kubernetes)
    return {way: make(launch) for way, make in zip(WAYS, makers, strict=True)}
