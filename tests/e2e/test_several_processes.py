"""Two dashboard processes behind one port, with Redis: everybody sees a change, nobody is signed out by a death."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.conftest import _open_folder
from tests.e2e.product import Person, Product, Tab, open_tab
from tests.support.redis import start_redis
from tests.support.stack import start_stack
from tests.support.waiting import wait_until
from tests.unit.app.guard.test_events import HANDLERS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.anyio,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        shutil.which("redis-server") is None and "CI" not in os.environ, reason="there is no redis-server"
    ),
]
LOAD = next(name for name in HANDLERS if name.endswith("runners_state.load"))
TABS = 12


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Product]:
    home = _open_folder(tmp_path_factory.mktemp("pair"))
    variables = {"REFLEX_REDIS_URL": redis_url, "RUNYARD_DASHBOARD_WORKERS": "2"}
    with start_stack(home, "--no-demo", **variables) as stack:
        yield Product(stack)


def workers(product: Product) -> set[int]:
    """The processes that serve pages; beside them the dashboard has a helper that only tidies up."""
    return {child.pid for child in psutil.Process(product.stack.part_pid("dashboard")).children() if serves(child)}


def serves(child: psutil.Process) -> bool:
    try:
        return "resource_tracker" not in " ".join(child.cmdline())
    except psutil.NoSuchProcess:
        return False


def holders(product: Product) -> set[int]:
    """Those of them that somebody is connected to."""
    port = product.stack.settings.dashboard_port
    links = [link for link in psutil.net_connections("tcp") if link.laddr and link.laddr.port == port]
    return {link.pid for link in links if link.status == "ESTABLISHED" and link.pid} & workers(product)


async def open_tabs(product: Product, person: Person) -> list[Tab]:
    """Some tabs, and as many more as it takes until both processes have one: the second begins to serve when it has started."""
    cookie, tabs, end = product.cookie(person), list[Tab](), time.monotonic() + 180
    while len(tabs) < TABS or len(holders(product)) < 2:
        assert time.monotonic() < end, f"only {holders(product)} of {workers(product)} serve {len(tabs)} tabs"
        await asyncio.sleep(0 if len(tabs) < TABS else 1)
        tabs.append(await open_tab(product, cookie))
        await tabs[-1].send(LOAD, path="/dashboard/runners")
    return tabs


async def hear(tab: Tab, word: str, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await tab.answers(1.0, most=2.0)
        if any(word in frame for frame in tab.frames):
            return True
    return False


async def test_a_change_reaches_the_tabs_of_both_processes(pair: Product) -> None:
    person = pair.person()
    tabs = await open_tabs(pair, person)
    assert all(await asyncio.gather(*(hear(tab, person.org_name) for tab in tabs)))
    pair.runner(person, "heard-by-all")
    assert all(await asyncio.gather(*(hear(tab, "heard-by-all") for tab in tabs)))


async def test_a_process_that_dies_signs_nobody_out(pair: Product) -> None:
    person = pair.person()
    wait_until(lambda: len(workers(pair)) == 2)
    victim = min(workers(pair))
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in workers(pair) and len(workers(pair)) == 2)
    tabs = await open_tabs(pair, person)
    assert all(await asyncio.gather(*(hear(tab, person.org_name) for tab in tabs)))
