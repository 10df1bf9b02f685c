"""Ready-to-paste commands that start a runner, for each way people start things."""

from dataclasses import dataclass

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
        f"(umask 077; printf %s {launch.token} > runyard.token)\n"
        "docker run -d --name runyard-worker --restart unless-stopped \\\n"
        f"  -e SUPABASE_URL={launch.url} \\\n"
        f"  -e WORKER_ID={launch.worker_id} \\\n"
        "  -e WORKER_TOKEN_FILE=/run/secrets/token \\\n"
        "  -v ./runyard.token:/run/secrets/token:ro \\\n"
        "  -v runyard-work:/work \\\n"
        f"  runyard/worker:{launch.version}\n"
    )


def compose(launch: Launch) -> str:
    """Describe it for docker compose."""
    return (
        f"# first: (umask 077; printf %s {launch.token} > runyard.token)\n"
        "services:\n"
        "  worker:\n"
        f"    image: runyard/worker:{launch.version}\n"
        "    restart: unless-stopped\n"
        "    environment:\n"
        f"      SUPABASE_URL: {launch.url}\n"
        f"      WORKER_ID: {launch.worker_id}\n"
        "      WORKER_TOKEN_FILE: /run/secrets/token\n"
        "    secrets: [token]\n"
        "    volumes: [work:/work]\n"
        "secrets:\n"
        "  token: {file: ./runyard.token}\n"
        "volumes:\n"
        "  work: {}\n"
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
        f"  --from-literal=token={launch.token}\n"
        "helm install worker runyard-worker \\\n"
        f"  --set image.tag={launch.version} \\\n"
        f"  --set supabaseUrl={launch.url} \\\n"
        f"  --set workerId={launch.worker_id} \\\n"
        "  --set tokenSecret=runyard-worker\n"
    )


def commands(launch: Launch) -> dict[str, str]:
    """Write every way's command."""
    makers = (shell, docker, compose, systemd, kubernetes)
    return {way: make(launch) for way, make in zip(WAYS, makers, strict=True)}
