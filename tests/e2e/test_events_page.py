"""The fleet's events in a browser: found from Runners, searched and filtered by the database, kept in the address, as a file."""

import json
import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_work_pages import enqueue, make_module

pytestmark = pytest.mark.timeout(600)


def test_events_are_searched_filtered_and_exported(product: Product, open_as: Callable[[Person], Page]) -> None:
    person = product.person("recorder")
    runner = ScriptedRunner(product, person, "build-host-01")
    number = enqueue(product, person, make_module(product, person, "pay/ledger"), "PLAN")
    page = open_as(person)
    page.goto("/dashboard/figures")
    page.get_by_role("link", name="Events").click()
    expect(page.locator("tr[data-event=enqueued]")).to_contain_text(f"#{number} pay/ledger")

    runner.finish(runner.claim(number), "SUCCEEDED")
    expect(page.locator("tr[data-event=succeeded]")).to_be_visible()

    page.get_by_label("Search events").fill("build-host")
    expect(page.locator("tr[data-event=enqueued]")).to_have_count(0)
    expect(page.locator("tr[data-event=claimed]")).to_be_visible()
    page.get_by_role("radio", name="Jobs", exact=True).click()
    expect(page.locator("tr[data-event=connected]")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"kind=job.*search=build-host"))

    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=re.compile("JSON")).click()
    lines = [json.loads(line) for line in download.value.path().read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"job"}
    assert {line["event"] for line in lines} >= {"claimed", "succeeded"}
    assert httpx.get(f"{product.url}/api/events.csv", timeout=60).status_code == 401

    page.get_by_label("Search events").fill("nobody said this")
    expect(page.get_by_test_id("no-events-match")).to_be_visible()
