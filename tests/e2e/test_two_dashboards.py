"""Two dashboards that each built their page, behind one address: a load balancer sends every request to either."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from stack.settings import PROJECT
from tests.e2e.product import Person, Product
from tests.integration.test_tls_proxy import WHOLE
from tests.support.ports import free_ports
from tests.support.redis import needs_redis, start_redis
from tests.support.stack import RunningStack, clean_environment
from tests.support.waiting import wait_until

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    needs_redis,
    pytest.mark.skipif(NGINX is None, reason="there is no nginx"),
]
LOADS = 10
SITE = """
log_format served '$upstream_addr $status $request_uri';
map $http_upgrade $upgraded {{ default upgrade; '' ''; }}
upstream dashboards {{ random; server 127.0.0.1:{first}; server 127.0.0.1:{second}; }}
server {{
    listen 127.0.0.1:{port};
    access_log {folder}/served served;
    location / {{
        proxy_pass http://dashboards;
        proxy_http_version 1.1;
        proxy_set_header Host $http_host;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $upgraded;
    }}
}}
"""


@dataclass(frozen=True)
class Pair:
    """Two dashboards at one address."""

    product: Product
    served: Path

    def servers(self, part: str) -> set[str]:
        """The dashboards that answered requests with this in their address."""
        lines = [line.split(" ", 2) for line in self.served.read_text().splitlines()]
        return {server for server, _, address in lines if part in address}

    def failures(self) -> list[str]:
        """The requests that failed, of all browsers."""
        return [line for line in self.served.read_text().splitlines() if int(line.split()[1]) >= 400]


@contextmanager
def dashboard(stack: RunningStack, folder: Path, port: int, **variables: str) -> Iterator[Callable[[], None]]:
    """Start a dashboard as another machine does, with folders of its own, and give a way to wait for it."""
    home = folder / str(port)
    home.mkdir()
    own = {"RUNYARD_HOME": str(home), "RUNYARD_DASHBOARD_BASE": str(port), "RUNYARD_PORT_OFFSET": "0"}
    own |= {"RUNYARD_CACHE": str(home / "cache"), **stack.client_environment, **variables}
    command, log = [sys.executable, "-m", "cli", "dashboard"], home / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=PROJECT, env=clean_environment() | own, stdout=output, stderr=output)
    try:
        yield lambda: wait_built(process, port, log)
    finally:
        process.terminate()
        process.wait(60)


def wait_built(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    wait_until(lambda: process.poll() is not None or answers(port), timeout_seconds=800)
    assert process.poll() is None, log.read_text()
    assert "building the page" in log.read_text()


@contextmanager
def balancer(folder: Path, port: int, first: int, second: int) -> Iterator[None]:
    """Run nginx, which sends each request to either."""
    file = folder / "nginx.conf"
    site = SITE.format(folder=folder, port=port, first=first, second=second)
    file.write_text(WHOLE.format(folder=folder, file=site))
    process = subprocess.Popen([str(NGINX), "-e", "stderr", "-c", str(file)], stderr=(folder / "nginx.log").open("wb"))
    try:
        wait_until(lambda: process.poll() is not None or answers(port))
        assert process.poll() is None, (folder / "nginx.log").read_text()
        yield
    finally:
        process.terminate()
        process.wait(60)


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/").status_code < 400
    except httpx.HTTPError:
        return False


@pytest.fixture
def pair(running_stack: RunningStack, shared_tmp_path: Path) -> Iterator[Pair]:
    port, *ports = free_ports(3)
    url = f"http://127.0.0.1:{port}"
    stack = replace(running_stack, settings=running_stack.settings.model_copy(update={"dashboard_address": url}))
    with ExitStack() as parts:
        shared = {"RUNYARD_DASHBOARD_URL": url, "REFLEX_REDIS_URL": parts.enter_context(start_redis(shared_tmp_path))}
        for wait in [parts.enter_context(dashboard(stack, shared_tmp_path, each, **shared)) for each in ports]:
            wait()
        parts.enter_context(balancer(shared_tmp_path, port, *ports))
        yield Pair(Product(stack), shared_tmp_path / "served")


def load(pair: Pair, chromium: Browser, person: Person, cookie: str, runner: str) -> list[str]:
    """Open the page with an empty cache and see a change arrive; the errors of its scripts."""
    context, failures = chromium.new_context(base_url=pair.product.url), list[str]()
    name, value = cookie.split("=", 1)
    context.add_cookies([{"name": name, "value": value, "url": pair.product.url}])
    page = context.new_page()
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.goto("/dashboard/runners")
    expect(page.get_by_text(person.org_name).first).to_be_visible()
    pair.product.runner(person, runner)
    expect(page.get_by_text(runner).first).to_be_visible()
    context.close()
    return failures


def test_every_load_is_whole_and_live(pair: Pair, chromium: Browser) -> None:
    person = pair.product.person()
    cookie = pair.product.cookie(person)
    turns = 0
    while turns < LOADS or len(pair.servers("/_event")) < 2:
        assert turns < 5 * LOADS, "one dashboard serves every websocket"
        assert load(pair, chromium, person, cookie, f"seen-{turns}") == []
        turns += 1
    assert pair.failures() == []
    assert len(pair.servers(".js")) == 2
