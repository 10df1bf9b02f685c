"""A project that stops answering: the page shows it, actions are off, and no click is kept and done later."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Product
from tests.e2e.test_trust import mark
from tests.e2e.test_work_pages import make_module
from tests.support.browser import LATER

pytestmark = pytest.mark.timeout(600)


@contextmanager
def silenced(product: Product) -> Iterator[None]:
    """The project accepts connections and answers nothing, as a machine does that stands still."""
    server = psutil.Process(product.stack.part_pid("gateway"))
    processes = [server, *server.children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


def test_a_silent_project_turns_actions_off_and_no_click_is_done_later(
    product: Product, open_as: Callable[..., Page]
) -> None:
    person = product.person("owner")
    module = make_module(product, person, "platform/vpc")
    page = open_as(person)
    page.goto(f"/dashboard/modules?module={module}")
    plan = page.get_by_role("button", name="Plan", exact=True)
    expect(plan).to_be_visible()
    expect(mark(page, "live")).to_be_visible()
    with silenced(product):
        expect(mark(page, "off")).to_be_visible(timeout=LATER)
        banner = page.get_by_test_id("connection-banner").filter(visible=True)
        expect(banner).to_contain_text("Out of contact with the database since")
        expect(banner).to_contain_text("nothing is sent")
        expect(plan).to_have_css("cursor", "not-allowed")
        expect(banner.get_by_role("button", name="Try now")).not_to_have_css("cursor", "not-allowed")
        plan.click()
        expect(page.get_by_test_id("not-sent")).to_have_text(
            "Not sent: the database does not answer. Try again when this page is live."
        )
    expect(mark(page, "live")).to_be_visible(timeout=LATER)
    expect(plan).not_to_have_css("cursor", "not-allowed")
    assert "/modules" in page.url
    [(count,)] = product.sql("select count(*) from provision_jobs where org_id = %s", person.org_id)
    assert count == 0
