"""One product for all end-to-end tests of a process, and a browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.conftest import _open_folder
from tests.e2e.product import Product
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
