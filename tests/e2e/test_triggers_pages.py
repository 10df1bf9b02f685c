"""Schedules, notifications, updates and a group's set in a real browser, and under axe."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_accessibility import MODES, findings
from tests.e2e.test_work_pages import enqueue, make_module

pytestmark = pytest.mark.timeout(900)
SETTINGS = "/dashboard/settings"
SCREENS = {"light": ("light", 1280), "dark": ("dark", 1280), "390": ("light", 390)}
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


@pytest.fixture
def page(person: Person, open_as: Callable[..., Page]) -> Page:
    return open_as(person, reduced_motion="reduce")


def findings_anywhere(page: Page, name: str) -> list[str]:
    """Findings of axe on a desktop in light and in dark, and on a phone."""
    found = []
    for screen, (mode, width) in SCREENS.items():
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=mode)
        expect(page.locator("html")).to_have_class(re.compile(rf"\b{mode}\b"))
        if PICTURES:
            page.screenshot(path=str(Path(PICTURES) / f"{name}-{screen}.png"), full_page=True)
        found += [f"{name} {screen}: {each}" for each in findings(page, options=MODES[mode])]
    return found


def test_the_pages_show_their_entries_and_have_no_serious_finding(page: Page, things: dict[str, Any]) -> None:
    notifications, versions = f"{SETTINGS}/notifications", "/dashboard/runners/versions"
    for address, place in ((notifications, "tr[data-row]"), (versions, "[role=radio]")):
        page.goto(address)
        expect(page.locator(place).first).to_be_attached()
        assert findings_anywhere(page, address.rpartition("/")[2]) == []
    page.goto("/dashboard/modules?path=payments")
    expect(page.get_by_test_id("set-progress")).to_have_text("2 of 6 done, 1 failed")
    assert findings_anywhere(page, "group") == []
    page.goto("/dashboard/modules?path=payments/m0")
    schedules = page.get_by_role("region", name="Schedules")
    expect(schedules).to_contain_text("Weekdays at 07:30")
    expect(schedules).to_contain_text("from payments")
    assert findings_anywhere(page, "module") == []


def test_the_sheets_have_no_serious_finding(page: Page, things: dict[str, Any]) -> None:
    page.goto("/dashboard/jobs/schedules")
    page.get_by_role("button", name="Create schedule").click()
    sheet = page.get_by_role("dialog", name="Create schedule")
    expect(sheet.locator(".ry-nextruns li")).to_have_count(5)
    assert findings_anywhere(page, "sheet-schedule") == []
    page.goto(f"{SETTINGS}/notifications")
    page.get_by_role("button", name="Create rule").first.click()
    expect(page.get_by_role("dialog", name="Create rule").get_by_label("Address")).to_be_visible()
    assert findings_anywhere(page, "sheet-rule") == []


def test_a_schedule_is_created_with_the_next_times_at_every_keystroke(page: Page, things: dict[str, Any]) -> None:
    page.goto("/dashboard/jobs/schedules")
    page.get_by_role("button", name="Create schedule").click()
    sheet = page.get_by_role("dialog", name="Create schedule")
    sheet.get_by_label("Cron").fill("61 * * * *")
    expect(sheet.get_by_test_id("error-times")).to_contain_text("The minute of")
    sheet.get_by_label("Cron").fill("0 6 * * mon")
    expect(sheet.get_by_test_id("hint-cron")).to_have_text("Mondays at 06:00")
    sheet.get_by_label("Time zone").fill("Nowhere")
    expect(sheet.get_by_test_id("error-times")).to_contain_text("There is no time zone")
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


def test_an_address_inside_the_network_is_refused_with_the_reason(page: Page, things: dict[str, Any]) -> None:
    page.goto(f"{SETTINGS}/notifications")
    page.get_by_role("button", name="Create rule").first.click()
    sheet = page.get_by_role("dialog", name="Create rule")
    sheet.get_by_label("Address").fill("https://10.0.0.1/hook")
    sheet.get_by_role("button", name="Create rule").click()
    expect(sheet.get_by_test_id("error-address")).to_contain_text("must be a public https address")


def test_the_update_policy_is_kept(page: Page, things: dict[str, Any]) -> None:
    page.goto("/dashboard/runners/versions")
    page.get_by_role("radio", name="In a window").click()
    page.get_by_label("From").fill("22:00")
    page.get_by_label("Until").fill("04:00")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_test_id("next-window")).to_be_visible()
    page.reload()
    expect(page.get_by_role("radio", name="In a window")).to_have_attribute("aria-checked", "true")


def test_the_title_counts_a_job_that_needs_an_approval(
    product: Product, person: Person, page: Page, things: dict[str, Any]
) -> None:
    page.goto("/dashboard/runners/versions")
    enqueue(product, person, make_module(product, person, "waits/one", approvals_required=1), "APPLY")
    page.wait_for_function("document.title.startsWith('(1) ')")


def test_the_rest_of_a_set_is_cancelled_on_the_groups_page(page: Page, things: dict[str, Any]) -> None:
    page.goto("/dashboard/modules?path=payments")
    expect(page.get_by_role("button", name="Plan all")).to_be_disabled()
    page.get_by_role("button", name="Cancel the rest").click()
    expect(page.get_by_test_id("set-progress")).to_have_text("5 of 6 done, 1 failed")
