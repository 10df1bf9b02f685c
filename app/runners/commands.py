"""Ready-to-paste commands that start a runner, for each way people start things."""

from dataclasses import dataclass

# The image's own user: nobody else, root aside, may read the token's file.
IMAGE_USER = 10001
WAYS = ("Shell", "Docker", "Compose", "systemd", "Kubernetes")


@dataclass(frozen=True)
class Launch:
    """What a runner must be told."""

    url: str
    worker_id: str
    token: str
    name: str
    version: str


def shell(launch: Launch) -> str:
    """Start it in a terminal."""
    return (
        f"export SUPABASE_URL={launch.url}\n"
        f"export WORKER_ID={launch.worker_id}\n"
        f"export WORKER_TOKEN={launch.token}\n"
        "runyard-worker run --instance $(hostname)\n"
    )


def docker(launch: Launch) -> str:
    """Start it as a container; the token goes in through a file, not through the process list."""
    return (
        f"printf %s {launch.token} | sudo install -m 0400 -o {IMAGE_USER} /dev/stdin runyard.token\n"
        "docker run -d --name runyard-worker --restart on-failure \\\n"
        f"  -e SUPABASE_URL={launch.url} \\\n"
        f"  -e WORKER_ID={launch.worker_id} \\\n"
        "  -v ./runyard.token:/run/secrets/WORKER_TOKEN:ro \\\n"
        "  -v runyard:/home/runner/.runyard \\\n"
        f"  runyard-worker:{launch.version}\n"
    )


def compose(launch: Launch) -> str:
    """Describe it for docker compose."""
    return (
        f"# first: printf %s {launch.token} | sudo install -m 0400 -o {IMAGE_USER} /dev/stdin runyard.token\n"
        "services:\n"
        "  runner:\n"
        f"    image: runyard-worker:{launch.version}\n"
        "    restart: on-failure\n"
        "    stop_grace_period: 1h\n"
        "    environment:\n"
        f"      SUPABASE_URL: {launch.url}\n"
        f"      WORKER_ID: {launch.worker_id}\n"
        "    secrets: [{source: token, target: WORKER_TOKEN}]\n"
        "    volumes: [runner:/home/runner/.runyard]\n"
        "secrets:\n"
        "  token: {file: ./runyard.token}\n"
        "volumes:\n"
        "  runner: {}\n"
    )


def systemd(launch: Launch) -> str:
    """Install it as a service of the machine."""
    return (
        "sudo install -d -m 0750 /etc/runyard\n"
        f"printf %s {launch.token} | sudo install -m 0600 /dev/stdin /etc/runyard/token\n"
        "sudo tee /etc/runyard/worker.env <<EOF\n"
        f"SUPABASE_URL={launch.url}\n"
        f"WORKER_ID={launch.worker_id}\n"
        "EOF\n"
        "sudo systemctl enable --now runyard-worker\n"
    )


def kubernetes(launch: Launch) -> str:
    """Install it with the Helm chart."""
    return (
        "kubectl create secret generic runyard-worker \\\n"
        f"  --from-literal=WORKER_TOKEN={launch.token}\n"
        "helm install runyard-worker deploy/helm/runyard-worker \\\n"
        f"  --set image.tag={launch.version} \\\n"
        f"  --set worker.url={launch.url} \\\n"
        f"  --set worker.id={launch.worker_id} \\\n"
        "  --set worker.existingSecret=runyard-worker\n"
    )


def update(version: str) -> str:
    """Update a runner on its own machine; it drains on the first signal, so nothing is interrupted."""
    return (
        "# Python\n"
        f"pip install --upgrade runyard-worker=={version}\n"
        "# systemd: let it finish its job, then start the new version\n"
        "sudo systemctl restart runyard-worker\n"
        "# Docker Compose: with the new version in compose.yaml\n"
        f"# image: runyard-worker:{version}\n"
        "docker compose up -d\n"
        "# Kubernetes\n"
        f"helm upgrade runyard-worker deploy/helm/runyard-worker --reuse-values --set image.tag={version}\n"
    )


def commands(launch: Launch) -> dict[str, str]:
    """Write every way's command."""
    makers = (shell, docker, compose, systemd, kubernetes)
    return {way: make(launch) for way, make in zip(WAYS, makers, strict=True)}
