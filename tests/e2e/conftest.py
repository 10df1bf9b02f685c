"""One product for all end-to-end tests of a process, and a browser."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Page

from tests.conftest import _open_folder
from tests.e2e.product import Person, Product
from tests.support.browser import Tabs, start_chromium
from tests.support.stack import start_stack


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The whole product without the demo; the page is built first, which takes a while."""
    home = _open_folder(tmp_path_factory.mktemp("product"))
    with start_stack(home, "--no-demo") as stack:
        yield Product(stack)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's own chromium; for one module only, because its event loop would stand in the way of later tests."""
    with start_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def tabs(product: Product, chromium: Browser) -> Tabs:
    """The tabs of a file's tests."""
    return Tabs(chromium, product.url)


@pytest.fixture
def open_as(product: Product, tabs: Tabs) -> Iterator[Callable[..., Page]]:
    """Open a page as somebody; errors in its scripts fail the test."""
    pages: list[Page] = []
    failures: list[str] = []

    def note(error: Error) -> None:
        failures.append(str(error))

    def opened(person: Person, **options: Any) -> Page:
        page = tabs.open(product.cookie(person), viewport={"width": 1440, "height": 1000}, **options)
        page.on("pageerror", note)
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.remove_listener("pageerror", note)
    tabs.clear()
    assert failures == []
