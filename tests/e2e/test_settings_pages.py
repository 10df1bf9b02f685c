"""Settings in a real browser on the real product."""

import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.test_work_pages import owner

__all__ = ["owner"]
pytestmark = pytest.mark.timeout(900)


def test_secrets_are_shown_once_and_leave_no_trace_in_the_state(
    owner: Person, open_as: Callable[[Person], Page]
) -> None:
    page = open_as(owner)
    page.goto("/dashboard/settings/members")
    page.get_by_role("button", name="Invite").click()
    page.get_by_label("Email").fill("new@example.com")
    page.get_by_role("button", name="Create invite link").click()
    expect(page.get_by_text(re.compile(r"/invite#[0-9a-f-]{36}\."))).to_be_visible()
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_test_id("invited")).to_be_visible()
    expect(page.locator("[data-two-step=Off]")).not_to_have_count(0)

    page.goto("/dashboard/settings/service-accounts")
    page.get_by_role("button", name="Add account").first.click()
    page.get_by_label("Name").fill("ci")
    page.get_by_role("radio", name="Client secret").click()
    page.get_by_role("button", name="Add account", exact=True).click()
    expect(page.get_by_text(re.compile(r"^rys_\w{43}$"))).to_be_visible()
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_text(re.compile("rys_"))).to_have_count(0)
    page.reload()
    expect(page.get_by_role("row").filter(has_text="ci")).to_be_visible()
    assert "rys_" not in page.content()


def test_identities_are_checked_before_they_are_saved(owner: Person, open_as: Callable[[Person], Page]) -> None:
    page = open_as(owner)
    page.goto("/dashboard/settings/cloud-identities")
    page.get_by_role("button", name="Add identity").first.click()
    page.get_by_label("Name").fill("aws-production")
    page.get_by_label("Role ARN").fill("arn:aws:iam::1:role/x")
    page.get_by_label("Regions").fill("eu-west-1")
    page.get_by_role("button", name="Add identity", exact=True).click()
    expect(page.get_by_test_id("error-role_arn")).to_contain_text("An ARN like")
    page.get_by_label("Role ARN").fill("arn:aws:iam::123456784410:role/runyard-deploy")
    page.get_by_role("button", name="Add identity", exact=True).click()
    expect(page.get_by_test_id("trust-policy")).to_contain_text("sts:ExternalId")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="More actions for aws-production").click()
    page.get_by_role("menuitem", name="Test connection").click()
    expect(page.locator("[data-sonner-toast][data-type=info]")).to_be_visible()


def test_the_audit_log_filters_and_is_exported(product: Product, open_as: Callable[[Person], Page]) -> None:
    # Somebody who has done nothing else: the first event is on the first page.
    owner = product.person("auditor")
    page = open_as(owner)
    page.goto("/dashboard/settings/audit")
    expect(page.get_by_role("cell", name="Created an organisation")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Address")).to_be_visible()
    expect(page.get_by_role("cell", name="127.0.0.1", exact=True).first).to_be_visible()
    page.get_by_label("Search by who").fill("nobody-at-all")
    expect(page.get_by_test_id("no-events-match")).to_be_visible()
    cookies = {"Cookie": product.cookie(owner)}
    answer = httpx.get(f"{product.url}/api/audit.csv?action=organization", headers=cookies, timeout=60)
    assert answer.headers["content-type"].startswith("text/csv"), answer.text
    assert [line.split(",")[3] for line in answer.text.splitlines()] == ["action", "organization.created"]


def test_an_audited_action_fits_on_one_line(product: Product, open_as: Callable[[Person], Page]) -> None:
    person = product.person("auditor")
    action, detail = "service_account.secret_rotated", '{"reason": "The old one was in a log of the build machine"}'
    row = "(org_id, actor_kind, actor_label, address, action, target_kind, target_label, detail)"
    values = "values (%s, 'user', %s, '203.0.113.118', %s, 'service_account', 'k8s-runner-production', %s)"
    product.sql(f"insert into audit_events {row} {values}", person.org_id, person.email, action, detail)
    page = open_as(person)
    page.set_viewport_size({"width": 1280, "height": 860})
    page.goto("/dashboard/settings/audit")
    words = page.locator(f"[title='{action}']")
    expect(words).to_be_visible()
    assert words.evaluate("(el) => el.getClientRects().length") == 1
    assert page.locator(".ry-tw").evaluate("(el) => el.scrollWidth <= el.clientWidth")
