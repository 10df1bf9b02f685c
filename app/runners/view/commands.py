"""Commands that install and start a runner by one paste, for each way people start things.

A runner proves who it is by its own token, or by its service account: with a secret that is pasted, or with the token of an
issuer. The ways differ in where they keep that, and in nothing else; with an account no command contains a secret.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import indent
from urllib.parse import urlsplit

from app.frame.releases.files import BUILD, RunnerFile

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


WAYS = ("Shell", "Docker", "Compose", "systemd", "Kubernetes")
# These start the runner's own file, the others an image. Where nothing can be downloaded: the clone's runner, or a file
# that outlives the clone.
FROM_CLONE = {"Shell": "make setup\nPATH=$PWD/.venv/bin:$PATH\n", "systemd": BUILD}
# A cluster pulls: without a setting, the reader puts the name of a registry here.
SOME_REGISTRY = "registry.example/runyard-worker"
UNIT_FILE = Path(__file__).parents[3] / "deploy" / "systemd" / "runyard-worker.service"
# Where an issuer's token is found: Kubernetes projects one into a pod, elsewhere a file is mounted there.
PROJECTED = "/var/run/secrets/runyard/token"
HERE = "/path/to/identity-token"
IDENTITY = "WORKER_IDENTITY_TOKEN_FILE"


@dataclass(frozen=True)
class Secret:
    """A secret that a runner keeps in a file to prove its identity, under the name of its variable."""

    name: str
    variable: str
    # The token is piped in, so that no list of processes shows it; the person who has an account's secret pastes it.
    piped: str = ""
    pasted: str = ""

    @property
    def file(self) -> str:
        """Its file beside a container."""
        return f"runyard.{self.name}"

    def read_by(self, command: str) -> str:
        """The line that hands it to a command's standard input."""
        return f"{self.piped}{command}{self.pasted}\n"

    def into_file(self) -> str:
        """The line that makes the file which a container reads."""
        return self.read_by(f"sudo install -m 0400 -o {IMAGE_USER} /dev/stdin {self.file}")


def _secret(launch: Launch) -> Secret | None:
    """The secret that is kept in a file; an issuer's token is not, as it is read again at each sign-in."""
    if launch.proof == "token":
        return Secret("token", "WORKER_TOKEN", piped=f"printf %s {launch.token} | ")
    if launch.proof == "secret":
        return Secret("secret", "WORKER_CLIENT_SECRET", pasted="   # paste the account's secret, then Ctrl-D")
    return None


def _variables(launch: Launch, url: str, identity: str) -> dict[str, str]:
    """The runner's open settings; `identity` is where it finds an issuer's token."""
    account = {"WORKER_CLIENT_ID": launch.client_id} if launch.client_id else {}
    proof = {} if _secret(launch) else {IDENTITY: identity}
    return {"SUPABASE_URL": url, "WORKER_ID": launch.worker_id, **account, **proof}


def paste(way: str, command: str, install: str) -> str:
    """One block that installs the runner where it is missing and starts it.

    A shell reads a block to its end before it runs it: no line of it becomes the input of a command that asks for a
    password or a secret.
    """
    if way in FROM_CLONE:
        install = install or f"# No downloads yet. In a clone of Runyard:\n{FROM_CLONE[way]}"
        command = f"command -v runyard-worker >/dev/null || {{\n{indent(install, '  ')}}}\n{command}"
    return f"{{\n{command}}}\n"


def shell(launch: Launch) -> str:
    known = "".join(f"export {name}={value}\n" for name, value in _variables(launch, launch.url, HERE).items())
    secret = _secret(launch)
    if launch.proof == "token":
        known += f"export WORKER_TOKEN={launch.token}\n"
    elif secret:
        made = secret.read_by(f"install -m 0600 /dev/stdin {secret.file}")
        known += f"{made}export {secret.variable}_FILE=./{secret.file}\n"
    return f"{known}runyard-worker run\n"


def docker(launch: Launch) -> str:
    """Start it as a container; what proves it is a file that is mounted."""
    image, first = image_here(launch)
    url, is_here = in_container(launch.url)
    secret = _secret(launch)
    options = [f"--add-host {CONTAINER_HOST}:host-gateway"] if is_here else []
    options += [f"-e {name}={value}" for name, value in _variables(launch, url, PROJECTED).items()]
    options.append(f"-v ./{secret.file}:/run/secrets/{secret.variable}:ro" if secret else f"-v {HERE}:{PROJECTED}:ro")
    lines = "".join(f"  {option} \\\n" for option in [*options, "-v runyard:/home/runner/.runyard"])
    return (
        f"{first}{secret.into_file() if secret else ''}"
        "docker run -d --name runyard-worker --restart on-failure --stop-timeout 3600 \\\n"
        f"{lines}"
        f"  {image}\n"
    )


def compose(launch: Launch) -> str:
    image, first = image_here(launch)
    url, is_here = in_container(launch.url)
    extra_hosts = f'    extra_hosts: ["{CONTAINER_HOST}:host-gateway"]\n' if is_here else ""
    environment = "".join(f"      {name}: {value}\n" for name, value in _variables(launch, url, PROJECTED).items())
    uses, mounted, below = "", f', "{HERE}:{PROJECTED}:ro"', ""
    if secret := _secret(launch):
        first += secret.into_file()
        uses, mounted = f"    secrets: [{{source: {secret.name}, target: {secret.variable}}}]\n", ""
        below = f"secrets:\n  {secret.name}: {{file: ./{secret.file}}}\n"
    return (
        f"{first}"
        "cat > compose.yaml <<'EOF'\n"
        "services:\n"
        "  runner:\n"
        f"    image: {image}\n"
        "    restart: on-failure\n"
        "    stop_grace_period: 1h\n"
        f"{extra_hosts}"
        "    environment:\n"
        f"{environment}{uses}"
        f"    volumes: [runner:/home/runner/.runyard{mounted}]\n"
        f"{below}"
        "volumes:\n"
        "  runner: {}\n"
        "EOF\n"
        "docker compose up -d\n"
    )


@cache
def _unit() -> str:
    return UNIT_FILE.read_text(encoding="utf-8")


def systemd(launch: Launch) -> str:
    """Install it as a service of the machine: its user, its files, its unit."""
    secret = _secret(launch)
    made, loads = "", "# No credential: the issuer's token is read at each sign-in."
    if secret:
        place = f"/etc/runyard/{secret.name}"
        made = secret.read_by(f"sudo install -m 0600 /dev/stdin {place}")
        loads = f"LoadCredential={secret.variable}:{place}"
    known = "".join(f"{name}={value}\n" for name, value in _variables(launch, launch.url, HERE).items())
    return (
        "id -u runyard >/dev/null 2>&1 ||\n"
        "  sudo useradd --system --home-dir /var/lib/runyard --shell /usr/sbin/nologin runyard\n"
        "sudo install -d -m 0755 /etc/runyard\n"
        f"{made}"
        "sudo tee /etc/runyard/worker.env >/dev/null <<'EOF'\n"
        f"{known}"
        "EOF\n"
        "sudo tee /etc/systemd/system/runyard-worker.service >/dev/null <<'EOF'\n"
        f"{_unit().replace('LoadCredential=WORKER_TOKEN:/etc/runyard/token', loads)}"
        "EOF\n"
        "sudo systemctl daemon-reload\n"
        "sudo systemctl enable --now runyard-worker\n"
    )


def _pushed(image: str) -> str:
    """Describe how to build an image and push it where the cluster can pull it."""
    first = "# No registry has the image. Build it, and push it where the cluster can pull it:\n"
    return f"{first}# {build(image)}# docker push {image}\n"


def kubernetes(launch: Launch) -> str:
    """Install it with the Helm chart; with an issuer the cluster itself gives the pod its token."""
    repository = launch.image or SOME_REGISTRY
    _, is_here = in_container(launch.url)
    first = f"# {launch.url} is this machine's own: put an address there that the cluster reaches.\n" if is_here else ""
    first += "" if launch.image else _pushed(f"{repository}:{launch.version}")
    secret = _secret(launch)
    create = "kubectl create secret generic runyard-worker"
    made = secret.read_by(f"{create} --from-file={secret.variable}=/dev/stdin") if secret else ""
    values = [f"worker.url={launch.url}", f"worker.id={launch.worker_id}"]
    values += [f"worker.clientId={launch.client_id}"] if launch.client_id else []
    values.append("worker.existingSecret=runyard-worker" if secret else f"worker.identityToken.audience={AUDIENCE}")
    return (
        f"{first}"
        "# In a clone of Runyard, which has the chart:\n"
        f"{made}"
        "helm install runyard-worker deploy/helm/runyard-worker \\\n"
        f"  --set image.repository={repository} --set image.tag={launch.version} \\\n"
        "  --set " + " \\\n  --set ".join(values) + "\n"
    )


def update(version: str, files: list[RunnerFile], image: str = "") -> dict[str, str]:
    """Update a runner on its own machine, by the way that it was started; it drains on the first signal."""
    fetched = "\n".join(f"# {file['name']}\n{file['commands']}" for file in files)
    built = f"# No downloads yet. In a clone at v{version}:\n{BUILD}"
    tag = f"{image or LOCAL_IMAGE}:{version}"
    first, pushed = ("", "") if image else (build_note(tag), _pushed(f"{SOME_REGISTRY}:{version}"))
    return {
        "systemd": f"{fetched or built}# It finishes its job, then the new version starts\nsudo systemctl restart runyard-worker\n",
        "Compose": f"{first}# With image: {tag} in compose.yaml\ndocker compose up -d\n",
        "Kubernetes": (
            f"{pushed}helm upgrade runyard-worker deploy/helm/runyard-worker \\\n"
            f"  --reuse-values --set image.tag={version}\n"
        ),
    }


def commands(launch: Launch) -> dict[str, str]:
    makers = (shell, docker, compose, systemd, kubernetes)
    return {way: make(launch) for way, make in zip(WAYS, makers, strict=True)}
