"""A pod's projected token signs a runner in, on a real cluster.

The issuer is the API server, whose name is known inside of the cluster alone: a mirror has its documents, as one would publish them.
"""

import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from stack.settings import PROJECT
from tests.conftest import _open_folder
from tests.integration.worker_bench import Bench, open_bench
from tests.support.forwarding import forwarded
from tests.support.real_docker import is_readable_by_others
from tests.support.real_kubernetes import CODE, MOUNTS, RealKubernetes, real_kubernetes
from tests.support.stack import start_stack
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

__all__ = ["real_kubernetes"]
DISCOVERY = "/.well-known/openid-configuration"
TOKEN_FOLDER = "/var/run/secrets/runyard"


class Mirror(BaseHTTPRequestHandler):
    """An HTTPS proxy that answers in place of every server, and serves the cluster's public documents."""

    protocol_version = "HTTP/1.1"
    context: ssl.SSLContext
    documents: dict[str, str]

    def do_CONNECT(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.connection = self.context.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", buffering=0)

    def do_GET(self) -> None:
        body = self.documents.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextmanager
def mirrored(documents: dict[str, str], authority: Path) -> Iterator[str]:
    """Serve the documents under the certificate's names; yields the proxy's address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    handler = type("Handler", (Mirror,), {"context": context, "documents": documents})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def certificate(folder: Path, *hosts: str) -> Path:
    """A certificate for these names, with its key in the same file."""
    file = folder / "mirror.pem"
    names = ",".join(f"IP:{host}" if host.replace(".", "").isdigit() else f"DNS:{host}" for host in hosts)
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=mirror"]
    rest = [
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-addext",
        f"subjectAltName={names}",
        "-keyout",
        str(file),
        "-out",
        str(folder / "mirror.crt"),
    ]
    subprocess.run([*command, *rest], check=True, capture_output=True)
    file.write_text(file.read_text() + (folder / "mirror.crt").read_text())
    return file


@pytest.fixture
def issuer(real_kubernetes: RealKubernetes) -> dict[str, str]:
    """The cluster's own description of itself as an issuer."""
    return dict(json.loads(real_kubernetes("get", "--raw", DISCOVERY)))


@pytest.fixture
def bench(
    real_kubernetes: RealKubernetes, issuer: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """A stack that reaches the cluster's documents, which only the cluster's own network knows by their names."""
    if shutil.which("openssl") is None or not is_readable_by_others(PROJECT):
        pytest.skip("needs openssl, and a checkout that the image's user can read")
    folder = _open_folder(tmp_path_factory.mktemp("stack"))
    hosts = [str(urlsplit(issuer[name]).hostname) for name in ("issuer", "jwks_uri")]
    keys = urlsplit(issuer["jwks_uri"]).path
    documents = {path: real_kubernetes("get", "--raw", path) for path in (DISCOVERY, keys)}
    with mirrored(documents, certificate(folder, *hosts)) as proxy:
        variables = {
            "RUNYARD_FUNCTIONS_ALLOW_NET": ",".join(hosts), "DENO_CERT": str(folder / "mirror.crt"),
            "HTTPS_PROXY": proxy, "NO_PROXY": "127.0.0.1,localhost",
        }  # fmt: skip
        with start_stack(folder, "--no-dashboard", "--no-demo", **variables) as stack:
            made = _open_folder(tmp_path_factory.mktemp("bench"))
            with open_bench(stack, made) as opened:
                yield opened


def pod(real_kubernetes: RealKubernetes, variables: dict[str, str]) -> dict[str, Any]:
    """A runner with nothing but the token that the cluster makes for its account."""
    projected = {"serviceAccountToken": {"audience": "runyard", "expirationSeconds": 600, "path": "token"}}
    mounts = [*MOUNTS, {"name": "identity", "mountPath": TOKEN_FOLDER, "readOnly": True}]
    container = {
        "name": "runner", "image": real_kubernetes.image, "imagePullPolicy": "IfNotPresent", "volumeMounts": mounts,
        "env": [{"name": name, "value": value} for name, value in variables.items()],
    }  # fmt: skip
    volumes = [*CODE, {"name": "identity", "projected": {"sources": [projected]}}]
    spec = {"serviceAccountName": "runner", "restartPolicy": "Never", "containers": [container], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runner"}, "spec": spec}


def test_a_pod_s_own_token_signs_its_runner_in(
    bench: Bench, real_kubernetes: RealKubernetes, issuer: dict[str, str], tmp_path: Path
) -> None:
    place = {"SUPABASE_URL": bench.project.url, "SUPABASE_PUBLISHABLE_KEY": bench.project.publishable_key}
    admin = Terminal(tmp_path / "config", place | {"RUNYARD_ACCESS_TOKEN": bench.token})
    claim = f"sub=system:serviceaccount:{real_kubernetes.namespace}:runner"
    trust = ("--issuer", issuer["issuer"], "--audience", "runyard", "--claim", claim)
    account = admin.json("accounts", "create", "pods", *trust)
    register = ("runners", "register", "inside", "--all-modules", "--no-token", "--service-account", "pods")
    worker = (str(admin.json(*register)["id"]), "")
    with forwarded(real_kubernetes.gateway, ("127.0.0.1", urlsplit(bench.project.url).port or 80)) as port:
        variables = {
            "WORKER_ID": worker[0], "WORKER_CLIENT_ID": account["client_id"],
            "WORKER_IDENTITY_TOKEN_FILE": f"{TOKEN_FOLDER}/token",
            "SUPABASE_URL": f"http://{real_kubernetes.gateway}:{port}",
        }  # fmt: skip
        real_kubernetes.apply(pod(real_kubernetes, variables))
        try:
            bench.online(worker, seconds=120)
        except AssertionError as error:
            raise AssertionError(real_kubernetes("logs", "runner", is_checked=False)) from error
        bench.finished("PLAN", bench.module())
        real_kubernetes("delete", "pod", "runner", "--wait=false")
        wait_until(lambda: real_kubernetes("get", "pods", "--output", "name") == "", timeout_seconds=180)
