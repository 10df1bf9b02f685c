"""One product for all end-to-end tests of a process, and a browser."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.conftest import _open_folder
from tests.e2e.product import Person, Product
from tests.support.browser import start_chromium
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


@pytest.fixture
def open_as(product: Product, chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page as somebody; errors in its scripts fail the test."""
    contexts = []
    failures: list[str] = []

    def opened(person: Person, **options: Any) -> Page:
        context = chromium.new_context(viewport={"width": 1440, "height": 1000}, base_url=product.url, **options)
        contexts.append(context)
        name, value = product.cookie(person).split("=", 1)
        context.add_cookies([{"name": name, "value": value, "url": product.url}])
        page = context.new_page()
        page.on("pageerror", lambda error: failures.append(str(error)))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert failures == []
