"""Schedules, notifications, updates and a group's set in a real browser, and under axe."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_accessibility import findings
from tests.e2e.test_work_pages import enqueue, make_module

pytestmark = pytest.mark.timeout(900)
SETTINGS = "/dashboard/settings"
# Where pictures go, if somebody wants to look at them.
PICTURES = os.environ.get("RUNYARD_PICTURES", "")


@pytest.fixture(scope="module")
def person(product: Product) -> Person:
    return product.person("triggers")


@pytest.fixture(scope="module")
def things(product: Product, person: Person) -> dict[str, Any]:
    """Schedules, a rule with a delivery, and a set of which something failed."""
    runner = ScriptedRunner(product, person, "lively")
    for number in range(6):
        make_module(product, person, f"payments/m{number}")
    org = {"p_org": person.org_id}
    for path, kind, cron in (("payments", "DRIFT", "0 2 * * *"), ("payments/m0", "PLAN", "30 7 * * 1-5")):
        spec = {"path": path, "type": kind, "cron": cron, "zone": "Europe/Lisbon"}
        product.rpc(person.token, "create_schedule", {**org, "p_spec": spec})
    sealed = {"address": "s1." + "x" * 60, "address_hint": "hooks.example.org …3f9a"}
    rule = {"channel": "webhook", "events": ["job.failed", "module.drift"], "path": "payments", **sealed}
    made = product.rpc(person.token, "create_notification_rule", {**org, "p_spec": rule})
    product.rpc(person.token, "start_set", {**org, "p_type": "PLAN", "p_path": "payments"})
    runner.finish(runner.claim(), "FAILED")
    runner.finish(runner.claim(), "SUCCEEDED")
    runner.claim()
    return {"rule": made["id"]}


@pytest.fixture(params=[("light", 1280), ("dark", 1280), ("light", 390)], ids=["light", "dark", "390"])
def context(
    request: pytest.FixtureRequest, product: Product, person: Person, chromium: Browser
) -> Iterator[BrowserContext]:
    mode, width = request.param
    made = chromium.new_context(
        base_url=product.url,
        color_scheme=mode,
        reduced_motion="reduce",
        viewport={"width": width, "height": 900},
    )
    name, value = product.cookie(person).split("=", 1)
    made.add_cookies([{"name": name, "value": value, "url": product.url}])
    yield made
    made.close()


def picture(page: Page, name: str, request: pytest.FixtureRequest) -> None:
    if PICTURES:
        page.screenshot(path=str(Path(PICTURES) / f"{name}-{request.node.callspec.id}.png"), full_page=True)


def test_the_pages_show_what_there_is_and_have_no_serious_finding(
    context: BrowserContext, things: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    page = context.new_page()
    for name, words in (
        ("schedules", "Every day at 02:00"),
        ("notifications", "hooks.example.org"),
        ("updates", "In a window"),
    ):
        page.goto(f"{SETTINGS}/{name}")
        expect(page.get_by_text(words).first).to_be_attached()
        picture(page, name, request)
        assert findings(page) == [], name
    page.goto("/dashboard/modules?path=payments")
    expect(page.get_by_text("2 of 6 done, 1 failed")).to_be_visible()
    picture(page, "group", request)
    assert findings(page) == []
    page.goto("/dashboard/modules?path=payments/m0")
    schedules = page.get_by_role("region", name="Schedules")
    expect(schedules).to_contain_text("Weekdays at 07:30")
    expect(schedules).to_contain_text("from payments")
    picture(page, "module", request)


def test_the_sheets_have_no_serious_finding(
    context: BrowserContext, things: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    page = context.new_page()
    page.goto(f"{SETTINGS}/schedules")
    page.get_by_role("button", name="Create schedule").click()
    sheet = page.get_by_role("dialog", name="Create schedule")
    expect(sheet.locator(".ry-nextruns li")).to_have_count(5)
    picture(page, "sheet-schedule", request)
    assert findings(page) == []
    page.goto(f"{SETTINGS}/notifications")
    page.get_by_role("button", name="Create rule").first.click()
    expect(page.get_by_role("dialog", name="Create rule").get_by_label("Address")).to_be_visible()
    picture(page, "sheet-rule", request)
    assert findings(page) == []


@pytest.fixture
def page(product: Product, person: Person, chromium: Browser) -> Iterator[Page]:
    made = chromium.new_context(base_url=product.url)
    name, value = product.cookie(person).split("=", 1)
    made.add_cookies([{"name": name, "value": value, "url": product.url}])
    yield made.new_page()
    made.close()


def test_a_schedule_is_created_with_the_next_times_at_every_keystroke(page: Page, things: dict[str, Any]) -> None:
    page.goto(f"{SETTINGS}/schedules")
    page.get_by_role("button", name="Create schedule").click()
    sheet = page.get_by_role("dialog", name="Create schedule")
    sheet.get_by_label("Cron").fill("61 * * * *")
    expect(sheet.get_by_text("The minute of")).to_be_visible()
    sheet.get_by_label("Cron").fill("0 6 * * mon")
    expect(sheet.get_by_text("Mondays at 06:00")).to_be_visible()
    sheet.get_by_label("Time zone").fill("Nowhere")
    expect(sheet.get_by_text("There is no time zone")).to_be_visible()
    sheet.get_by_label("Time zone").fill("Europe/Lisbon")
    sheet.get_by_label("Module or group").fill("payments/m1")
    sheet.get_by_role("button", name="Create schedule").click()
    expect(page.get_by_role("row").filter(has_text="payments/m1")).to_contain_text("Mondays at 06:00")
    page.get_by_role("switch", name="On: DRIFT payments/m1").click()
    expect(page.get_by_role("row").filter(has_text="payments/m1")).to_contain_text("off")


def test_a_mail_rule_is_created_tested_and_kept_in_the_outbox(page: Page, things: dict[str, Any]) -> None:
    page.goto(f"{SETTINGS}/notifications")
    page.get_by_role("button", name="Create rule").first.click()
    sheet = page.get_by_role("dialog", name="Create rule")
    sheet.get_by_role("combobox", name="Where").click()
    page.get_by_role("option", name="Email").click()
    sheet.get_by_label("Address").fill("oncall@example.org")
    sheet.get_by_role("button", name="Create rule").click()
    row = page.get_by_role("row").filter(has_text="oncall@example.org")
    row.get_by_role("button", name="Send test").click()
    expect(row).to_contain_text("In the outbox")


def test_an_address_inside_the_network_is_refused_in_words(page: Page, things: dict[str, Any]) -> None:
    page.goto(f"{SETTINGS}/notifications")
    page.get_by_role("button", name="Create rule").first.click()
    sheet = page.get_by_role("dialog", name="Create rule")
    sheet.get_by_label("Address").fill("https://10.0.0.1/hook")
    sheet.get_by_role("button", name="Create rule").click()
    expect(page.get_by_text("must be a public https address")).to_be_visible()


def test_the_update_policy_is_kept(page: Page, things: dict[str, Any]) -> None:
    page.goto(f"{SETTINGS}/updates")
    page.get_by_role("radio", name="In a window").click()
    page.get_by_label("From").fill("22:00")
    page.get_by_label("Until").fill("04:00")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Next window")).to_be_visible()
    page.reload()
    expect(page.get_by_role("radio", name="In a window")).to_have_attribute("aria-checked", "true")


def test_the_title_counts_what_needs_you(product: Product, person: Person, page: Page, things: dict[str, Any]) -> None:
    page.goto(f"{SETTINGS}/updates")
    enqueue(product, person, make_module(product, person, "waits/one", approvals_required=1), "APPLY")
    page.wait_for_function("document.title.startsWith('(1) ')")


def test_the_rest_of_a_set_is_cancelled_on_the_groups_page(page: Page, things: dict[str, Any]) -> None:
    page.goto("/dashboard/modules?path=payments")
    expect(page.get_by_role("button", name="Plan all")).to_be_disabled()
    page.get_by_role("button", name="Cancel the rest").click()
    expect(page.get_by_text("5 of 6 done, 1 failed")).to_be_visible()
