"""Commands that start a runner with a service account: none of them contains a secret."""

from app.shared.runner.launch import CONTAINER_HOST, IMAGE_USER, Launch, build_note, image_here, in_container
from app.shared.runner.trusts import AUDIENCE

# Where each way finds the issuer's token: Kubernetes projects one, elsewhere a file is mounted.
PROJECTED = "/var/run/secrets/runyard/token"
HERE = "/path/to/identity-token"
PASTE = "# paste the account's secret, then Ctrl-D"


def _is_secret(launch: Launch) -> bool:
    return launch.proof == "secret"


def shell(launch: Launch) -> str:
    """Start it in a terminal."""
    proof = (
        f"install -m 0600 /dev/stdin runyard.secret   {PASTE}\nexport WORKER_CLIENT_SECRET_FILE=./runyard.secret\n"
        if _is_secret(launch)
        else f"export WORKER_IDENTITY_TOKEN_FILE={HERE}   # read at each sign-in\n"
    )
    return (
        f"export SUPABASE_URL={launch.url}\n"
        f"export WORKER_ID={launch.worker_id}\n"
        f"export WORKER_CLIENT_ID={launch.client_id}\n"
        f"{proof}"
        "runyard-worker run\n"
    )


def docker(launch: Launch) -> str:
    """Start it as a container; what proves the account is a file that is mounted."""
    image, first = image_here(launch)
    url, is_here = in_container(launch.url)
    add_host = f"  --add-host {CONTAINER_HOST}:host-gateway \\\n" if is_here else ""
    made, mounted = _mounted(launch)
    return (
        f"{first}{made}"
        "docker run -d --name runyard-worker --restart on-failure --stop-timeout 3600 \\\n"
        f"{add_host}"
        f"  -e SUPABASE_URL={url} \\\n"
        f"  -e WORKER_ID={launch.worker_id} \\\n"
        f"  -e WORKER_CLIENT_ID={launch.client_id} \\\n"
        f"{''.join(f'  {option} {value} {chr(92)}{chr(10)}' for option, value in mounted)}"
        "  -v runyard:/home/runner/.runyard \\\n"
        f"  {image}\n"
    )


def _mounted(launch: Launch) -> tuple[str, list[tuple[str, str]]]:
    if _is_secret(launch):
        made = f"sudo install -m 0400 -o {IMAGE_USER} /dev/stdin runyard.secret   {PASTE}\n"
        return made, [("-v", "./runyard.secret:/run/secrets/WORKER_CLIENT_SECRET:ro")]
    return "", [("-e", f"WORKER_IDENTITY_TOKEN_FILE={PROJECTED}"), ("-v", f"{HERE}:{PROJECTED}:ro")]


def compose(launch: Launch) -> str:
    """Describe it for docker compose."""
    image, first = image_here(launch)
    url, is_here = in_container(launch.url)
    extra_hosts = f'    extra_hosts: ["{CONTAINER_HOST}:host-gateway"]\n' if is_here else ""
    if _is_secret(launch):
        first += f"# first: sudo install -m 0400 -o {IMAGE_USER} /dev/stdin runyard.secret   {PASTE}\n"
        proof = "    secrets: [{source: secret, target: WORKER_CLIENT_SECRET}]\n"
        volumes, below = "[runner:/home/runner/.runyard]", "secrets:\n  secret: {file: ./runyard.secret}\n"
    else:
        proof = f"      WORKER_IDENTITY_TOKEN_FILE: {PROJECTED}\n"
        volumes, below = f'[runner:/home/runner/.runyard, "{HERE}:{PROJECTED}:ro"]', ""
    return (
        f"{first}"
        "services:\n"
        "  runner:\n"
        f"    image: {image}\n"
        "    restart: on-failure\n"
        "    stop_grace_period: 1h\n"
        f"{extra_hosts}"
        "    environment:\n"
        f"      SUPABASE_URL: {url}\n"
        f"      WORKER_ID: {launch.worker_id}\n"
        f"      WORKER_CLIENT_ID: {launch.client_id}\n"
        f"{proof}"
        f"    volumes: {volumes}\n"
        f"{below}"
        "volumes:\n"
        "  runner: {}\n"
    )


def systemd(launch: Launch, unit: str) -> str:
    """Install it as a service of the machine: its user, its files, its unit."""
    if _is_secret(launch):
        made = f"sudo install -m 0600 /dev/stdin /etc/runyard/secret   {PASTE}\n"
        loads, line = "LoadCredential=WORKER_CLIENT_SECRET:/etc/runyard/secret", ""
    else:
        made, loads = "", "# No credential: the token below is read at each sign-in."
        line = f"WORKER_IDENTITY_TOKEN_FILE={HERE}\n"
    return (
        "id -u runyard >/dev/null 2>&1 ||\n"
        "  sudo useradd --system --home-dir /var/lib/runyard --shell /usr/sbin/nologin runyard\n"
        "sudo install -d -m 0755 /etc/runyard\n"
        f"{made}"
        "sudo tee /etc/runyard/worker.env >/dev/null <<'EOF'\n"
        f"SUPABASE_URL={launch.url}\n"
        f"WORKER_ID={launch.worker_id}\n"
        f"WORKER_CLIENT_ID={launch.client_id}\n"
        f"{line}"
        "EOF\n"
        "sudo tee /etc/systemd/system/runyard-worker.service >/dev/null <<'EOF'\n"
        f"{unit.replace('LoadCredential=WORKER_TOKEN:/etc/runyard/token', loads)}"
        "EOF\n"
        "sudo systemctl daemon-reload\n"
        "sudo systemctl enable --now runyard-worker\n"
    )


def kubernetes(launch: Launch, repository: str) -> str:
    """Install it with the Helm chart; with an issuer the cluster itself gives the pod its token."""
    image = f"{repository}:{launch.version}"
    first = "" if launch.image else build_note(image)
    if _is_secret(launch):
        made = (
            "kubectl create secret generic runyard-worker --from-file=WORKER_CLIENT_SECRET=/dev/stdin   " + PASTE + "\n"
        )
        proof = "worker.existingSecret=runyard-worker"
    else:
        made, proof = "", f"worker.identityToken.audience={AUDIENCE}"
    return (
        f"{first}"
        "# In a clone of Runyard, which has the chart:\n"
        f"{made}"
        "helm install runyard-worker deploy/helm/runyard-worker \\\n"
        f"  --set image.repository={repository} --set image.tag={launch.version} \\\n"
        f"  --set worker.url={launch.url} \\\n"
        f"  --set worker.id={launch.worker_id} \\\n"
        f"  --set worker.clientId={launch.client_id} \\\n"
        f"  --set {proof}\n"
    )
