"""A real Kubernetes API server that trusts the issuer of jobs' identities, with an etcd and no nodes.

API servers accept issuers by https only, so a file server publishes the exported documents, as `runyard issuer export` is meant for.
"""

import base64
import json
import os
import shlex
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import jwt
import pytest

from tests.conftest import _open_folder
from tests.integration.test_kubernetes_identity import certificate
from tests.integration.worker_bench import Bench, open_bench
from tests.support.must import unavailable
from tests.support.ports import free_ports
from tests.support.stack import RunningStack, start_stack
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

SERVER_VARIABLE = "RUNYARD_TEST_KUBE_APISERVER"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@dataclass(frozen=True)
class Place:
    """The addresses at which the issuer is published and the API server listens; one certificate serves both."""

    folder: Path
    issuer_port: int
    server_port: int

    @property
    def issuer(self) -> str:
        return f"https://127.0.0.1:{self.issuer_port}"

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.server_port}"

    @property
    def authority(self) -> Path:
        return self.folder / "mirror.crt"

    def review(self, token: str) -> httpx.Response:
        """Ask the API server whose token it is."""
        address = f"{self.server}/apis/authentication.k8s.io/v1/selfsubjectreviews"
        trusted = ssl.create_default_context(cafile=str(self.authority))
        return httpx.post(address, json=REVIEW, headers={"authorization": f"Bearer {token}"}, verify=trusted)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextmanager
def published(folder: Path, place: Place) -> Iterator[None]:
    """Serve a folder by https."""
    with ThreadingHTTPServer(("127.0.0.1", place.issuer_port), partial(Quiet, directory=str(folder))) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(place.folder / "mirror.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@contextmanager
def api_server(place: Place, command: list[str]) -> Iterator[None]:
    """Start etcd and the API server; people and jobs are known by the issuer's tokens alone."""
    client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    keys = place.folder / "mirror.pem"
    etcd = [
        "etcd",
        "--data-dir",
        str(place.folder / "etcd"),
        "--listen-client-urls",
        client,
        "--advertise-client-urls",
        client,
    ]
    etcd += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
    options = {
        "etcd-servers": client, "bind-address": "127.0.0.1", "secure-port": place.server_port, "authorization-mode": "RBAC",
        "tls-cert-file": place.authority, "tls-private-key-file": keys, "service-account-issuer": "https://cluster.test",
        "service-account-key-file": place.authority, "service-account-signing-key-file": keys, "cert-dir": place.folder / "certs",
        "service-cluster-ip-range": "10.97.0.0/24", "oidc-issuer-url": place.issuer, "oidc-client-id": place.server,
        "oidc-ca-file": place.authority, "oidc-username-claim": "sub", "oidc-username-prefix": "runyard:",
    }  # fmt: skip
    log = place.folder / "api.log"
    with log.open("wb") as output, ExitStack() as running:
        for each in (etcd, [*command, *(f"--{name}={value}" for name, value in options.items())]):
            process = running.enter_context(subprocess.Popen(each, stdout=output, stderr=output))
            running.callback(process.terminate)
        yield


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = _open_folder(tmp_path_factory.mktemp("trust"))
    certificate(folder, "127.0.0.1")
    return Place(folder, *free_ports(2))


@pytest.fixture
def stack(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    folder = _open_folder(tmp_path_factory.mktemp("stack"))
    with start_stack(folder, "--no-dashboard", "--no-demo", RUNYARD_IDENTITY_ISSUER=place.issuer) as started:
        yield started


@pytest.fixture
def command() -> list[str]:
    """The API server's program."""
    found = shlex.split(os.environ.get(SERVER_VARIABLE, "kube-apiserver"))
    if missing := [each for each in (found[0], "etcd", "openssl") if shutil.which(each) is None]:
        unavailable("kube-apiserver", f"{', '.join(missing)} not found; {SERVER_VARIABLE} names another API server")
    return found


def signed(stack: RunningStack, place: Place, expires_in: int) -> str:
    """A token as the issuer signs it, for any life."""
    [key, *_] = json.loads(stack.settings.identity_keys_file.read_text())["keys"]
    now = int(time.time())
    claims = {"iss": place.issuer, "aud": place.server, "sub": "somebody", "iat": now - 900, "exp": now + expires_in}
    return jwt.encode(claims, jwt.PyJWK(key, algorithm="RS256").key, algorithm="RS256", headers={"kid": key["kid"]})


@pytest.mark.slow
def test_the_api_server_accepts_a_job_by_its_token_alone(
    command: list[str], place: Place, stack: RunningStack, tmp_path: Path
) -> None:
    with ExitStack() as running:
        bench: Bench = running.enter_context(open_bench(stack, _open_folder(tmp_path)))
        terminal = Terminal(tmp_path / "config", {**stack.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token})
        documents = tmp_path / "www"
        assert terminal.run("issuer", "export", "--folder", str(documents)).returncode == 0
        running.enter_context(published(documents, place))
        running.enter_context(api_server(place, command))
        wait_until(lambda: is_accepted(place, signed(stack, place, 600)), every_seconds=1)
        assert place.review(signed(stack, place, -60)).status_code == 401

        module = bench.module()
        path = bench.rows("modules", id=module)[0]["path"]
        authority = base64.b64encode(place.authority.read_bytes()).decode()
        settings = ("--set", f"server={place.server}", "--set", f"certificate_authority={authority}")
        assert terminal.run("identities", "attach", "apps", "kubernetes", *settings).returncode == 0
        bench.runner()
        tested = terminal.run("identities", "test", path, "--exchange")
        name = f"runyard:organization:{bench.org}:module:{path}:phase:plan"
        assert f"Kubernetes takes it for {name}" in tested.stdout, tested.stdout + tested.stderr
        attached = terminal.run("identities", "attach", "apps", "kubernetes", *settings, "--audience", "elsewhere")
        assert attached.returncode == 0, attached.stderr
        refused = bench.wait_job(bench.enqueue("OUTPUT", module, test_identities=True))
        assert refused["error"]["message"] == "Kubernetes answered 401: Unauthorized"


def is_accepted(place: Place, token: str) -> bool:
    try:
        return place.review(token).is_success
    except httpx.HTTPError:
        return False
