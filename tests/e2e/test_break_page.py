"""“Break something” in a browser: in the demo the steps and the zeros appear; elsewhere there is no button, and a reason."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from cli.launcher.demo.prepare import DEMO_EMAIL
from tests.e2e.product import Person, Product
from tests.e2e.test_accessibility import findings_in_both, sideways
from tests.e2e.test_work_pages import open_as
from tests.support.stack import RunningStack

__all__ = ["open_as"]
pytestmark = pytest.mark.timeout(900)
# A fault, a restart, a person's decision and a second apply.
DRILL = 400_000
PAGE = "/dashboard/break-something"


@pytest.fixture(scope="module")
def demo_product(demo: RunningStack) -> Product:
    return Product(demo)


def open_demo(demo: Product, chromium: Browser, **options: Any) -> Page:
    """Sign in as the account that `make up` names."""
    owner = Person(DEMO_EMAIL, demo.stack.secrets.demo_password, "", "", "")
    context = chromium.new_context(base_url=demo.url, **options)
    name, _, value = demo.cookie(owner).partition("=")
    context.add_cookies([{"name": name, "value": value, "url": demo.url}])
    return context.new_page()


def test_a_runner_killed_in_its_apply_is_told_step_by_step_and_the_ledger_stays_zero(
    demo_product: Product, chromium: Browser
) -> None:
    page = open_demo(demo_product, chromium)
    page.goto("/dashboard/runners")
    page.get_by_role("link", name="Break something").click()
    page.get_by_test_id("break-apply").click()
    expect(page.get_by_test_id("break-apply")).to_be_disabled()
    steps = page.get_by_test_id("fault-steps")
    expect(steps).to_contain_text("Killed build-host-01", timeout=DRILL)
    expect(steps).to_contain_text("never run again by itself", timeout=DRILL)
    expect(page.get_by_test_id("fault-ended")).to_have_attribute("data-ended", "recovered", timeout=DRILL)
    counts = page.locator('[data-testid^="count-"]')
    expect(counts).to_have_count(11)
    expect(page.locator('[data-testid^="count-"][data-count="0"]')).to_have_count(11)
    expect(page.get_by_test_id("count-double_applied")).to_contain_text("applies")
    expect(page.get_by_test_id("break-apply")).to_be_enabled()
    page.context.close()


def test_the_buttons_and_the_ledger_have_no_serious_finding_and_fit_a_phone(
    demo_product: Product, chromium: Browser
) -> None:
    page = open_demo(demo_product, chromium, reduced_motion="reduce")
    page.goto(PAGE)
    expect(page.get_by_test_id("count-double_applied")).to_be_visible()
    assert findings_in_both(page) == []
    page.set_viewport_size({"width": 390, "height": 800})
    assert sideways(page) == []
    page.context.close()


def test_another_organisation_of_the_same_stack_has_no_button(demo_product: Product, chromium: Browser) -> None:
    person = demo_product.person("other")
    context = chromium.new_context(base_url=demo_product.url)
    name, _, value = demo_product.cookie(person).partition("=")
    context.add_cookies([{"name": name, "value": value, "url": demo_product.url}])
    page = context.new_page()
    page.goto(PAGE)
    expect(page.get_by_test_id("no-faults")).to_be_visible()
    expect(page.get_by_test_id("break-apply")).to_have_count(0)
    context.close()


def test_without_a_demo_there_is_no_button_and_the_page_says_why(
    product: Product, open_as: Callable[[Person], Page]
) -> None:
    page = open_as(product.person("hosted"))
    page.goto("/dashboard/runners")
    expect(page.get_by_role("heading", name="Runners", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Break something")).to_have_count(0)
    page.goto(PAGE)
    expect(page.get_by_test_id("no-faults")).to_contain_text("are somebody's")
