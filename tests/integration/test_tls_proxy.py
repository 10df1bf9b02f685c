"""The files for nginx and Caddy that the docs offer, before a stack that really runs."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from websockets.sync.client import connect

from stack.settings import PROJECT
from tests.support.certificates import self_signed
from tests.support.ports import free_ports
from tests.support.stack import RunningStack
from tests.support.waiting import wait_until

NAME = "api.runyard.example.com"
WHOLE = """
daemon off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {file}
}}
"""


@dataclass(frozen=True)
class Proxy:
    """A proxy with a certificate for the API's name."""

    port: int
    trust: ssl.SSLContext

    def request(self, method: str, path: str, key: str, **options: object) -> httpx.Response:
        """Send a request as a client that knows the proxy by its name."""
        headers = {"host": NAME, "apikey": key}
        with httpx.Client(verify=self.trust, timeout=60, trust_env=False) as client:
            request = client.build_request(
                method,
                f"https://127.0.0.1:{self.port}{path}",
                headers=headers,
                extensions={"sni_hostname": NAME},
                **options,  # type: ignore[arg-type]
            )
            return client.send(request)


def nginx(folder: Path, port: int, pair: tuple[Path, Path]) -> tuple[str, list[str]]:
    """The docs' file for nginx, at this port with this certificate, and the arguments that start it."""
    place = "/etc/letsencrypt/live/runyard.example.com"
    changes = {
        "listen 443": f"listen 127.0.0.1:{port}",
        f"{place}/fullchain.pem": str(pair[0]),
        f"{place}/privkey.pem": str(pair[1]),
    }
    text = WHOLE.format(folder=folder, file=replaced("nginx.conf", changes))
    return text, ["-e", "stderr", "-c"]


def caddy(folder: Path, port: int, pair: tuple[Path, Path]) -> tuple[str, list[str]]:
    """The docs' file for Caddy, with this certificate in place of one that it would request on its own."""
    site, given = f"{NAME} {{", f"tls {pair[0]} {pair[1]}"
    (ours,) = free_ports(1)
    changes = {
        "\nrunyard.example.com {": f"\nhttp://127.0.0.1:{ours} {{",
        site: f"https://{NAME}:{port} {{\n\tbind 127.0.0.1\n\t{given}",
    }
    return "{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + replaced("Caddyfile", changes), [
        "run", "--adapter", "caddyfile", "--config",
    ]  # fmt: skip


def replaced(name: str, changes: dict[str, str]) -> str:
    """The file with these places changed, all of which it must have."""
    text = (PROJECT / "deploy" / "proxy" / name).read_text()
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    return text


@pytest.fixture(params=[nginx, caddy], ids=["nginx", "caddy"])
def proxy(request: pytest.FixtureRequest, running_stack: RunningStack, shared_tmp_path: Path) -> Iterator[Proxy]:
    program = shutil.which(request.param.__name__, path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        pytest.skip(f"there is no {request.param.__name__}")
    folder = shared_tmp_path
    certificate, key = self_signed(folder, x509.DNSName(NAME))
    (port,) = free_ports(1)
    text, arguments = request.param(folder, port, (certificate, key))
    file = folder / "proxy.conf"
    assert "127.0.0.1:54321" in text
    file.write_text(text.replace("127.0.0.1:54321", f"127.0.0.1:{running_stack.settings.gateway_port}"))
    environ = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    process = subprocess.Popen([program, *arguments, str(file)], stderr=(folder / "log").open("wb"), env=environ)
    found = Proxy(port, ssl.create_default_context(cafile=str(certificate)))
    try:
        wait_until(lambda: process.poll() is not None or is_up(found, running_stack))
        assert process.poll() is None, (folder / "log").read_text()
        yield found
    finally:
        process.terminate()
        process.wait(60)


def is_up(proxy: Proxy, stack: RunningStack) -> bool:
    try:
        return proxy.request("GET", "/health", stack.publishable_key).status_code == 200
    except httpx.HTTPError:
        return False


def test_the_api_answers_by_tls_with_large_bodies_and_websockets(proxy: Proxy, running_stack: RunningStack) -> None:
    key = running_stack.publishable_key
    account = {"email": f"{uuid.uuid4().hex[:12]}@example.com", "password": uuid.uuid4().hex}
    assert proxy.request("POST", "/auth/v1/signup", key, json=account).status_code == 200
    path, large = "/rest/v1/rpc/my_organizations", b" " * 3_000_000 + b"{}"
    behind = httpx.post(running_stack.url + path, content=large, headers={"apikey": key}, timeout=60)
    before = proxy.request("POST", path, key, content=large)
    assert (before.status_code, before.json()) == (behind.status_code, behind.json())
    wait_until(lambda: is_answered(proxy, key))


def is_answered(proxy: Proxy, key: str) -> bool:
    """Send a heartbeat to Realtime through the proxy; clients connect again when a handshake is not answered in time."""
    address = f"wss://{NAME}:{proxy.port}/realtime/v1/websocket?apikey={key}&vsn=1.0.0"
    line = socket.create_connection(("127.0.0.1", proxy.port), timeout=60)
    try:
        with connect(address, sock=line, ssl=proxy.trust, server_hostname=NAME, open_timeout=15) as websocket:
            websocket.send(json.dumps({"topic": "phoenix", "event": "heartbeat", "payload": {}, "ref": "1"}))
            return bool(json.loads(websocket.recv(15))["payload"]["status"] == "ok")
    except TimeoutError:
        return False
