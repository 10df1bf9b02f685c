"""Signing in with the company's account, in a browser: there, back, refused, and on a phone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import _open_folder
from tests.support.company import OWNER, PASSWORD, Company, start_company
from tests.support.npm_tools import ToolUnavailable

PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    try:
        with start_company(_open_folder(tmp_path_factory.mktemp("company")), "--no-demo") as company:
            yield company
    except ToolUnavailable as error:
        pytest.skip(f"oidc-provider cannot be installed: {error}")


def open_page(company: Company, chromium: Browser, **options: object) -> Page:
    return chromium.new_page(base_url=company.stack.settings.dashboard_url, **options)  # type: ignore[arg-type]


def type_address(page: Page, email: str) -> None:
    page.goto("/login")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Email").press("Tab")


def is_narrow(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_an_address_of_the_company_leads_to_its_provider_and_back_on_a_phone(
    company: Company, chromium: Browser
) -> None:
    company.provider.sign_in("ann", groups=["infra-sre"])
    page = open_page(company, chromium, viewport=PHONE)
    type_address(page, "ann@example.org")
    button = page.get_by_role("button", name="Continue with Example ID")
    expect(button).to_be_visible()
    assert is_narrow(page)
    button.click()
    page.wait_for_url(re.compile("/dashboard/runners"))
    assert is_narrow(page)


def test_other_addresses_are_asked_for_a_password(company: Company, chromium: Browser) -> None:
    page = open_page(company, chromium)
    type_address(page, "ann@example.org")
    button = page.get_by_role("button", name="Continue with Example ID")
    expect(button).to_be_visible()
    page.get_by_label("Email").fill("ann@elsewhere.org")
    page.get_by_label("Email").press("Tab")
    expect(button).to_be_hidden()
    expect(page.get_by_label("Password")).to_be_visible()


def test_a_refusal_of_the_provider_is_on_the_sign_in_page_once(company: Company, chromium: Browser) -> None:
    company.provider.sign_in()
    page = open_page(company, chromium)
    type_address(page, "ann@example.org")
    page.get_by_role("button", name="Continue with Example ID").click()
    expect(page.get_by_role("alert")).to_contain_text("The provider refused: access_denied.")
    page.reload()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_an_owner_joins_sees_their_claims_and_lets_only_the_provider_in(company: Company, chromium: Browser) -> None:
    company.provider.sign_in("owner", groups=["infra-sre"])
    page = open_page(company, chromium)
    page.goto("/login")
    page.get_by_label("Email").fill(OWNER)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(re.compile("/dashboard/runners"))
    page.goto("/dashboard/settings/sign-in")
    expect(page.get_by_text("_runyard.example.org")).to_be_visible()
    expect(page.get_by_text("You have not signed in there yet")).to_be_visible()
    page.get_by_role("button", name="Sign in there").click()
    page.wait_for_url(re.compile("/dashboard/runners"))
    page.goto("/dashboard/settings/sign-in")
    panel = page.get_by_role("region", name="Test sign-in")
    expect(panel.get_by_text("['infra-sre']")).to_be_visible()
    expect(panel.get_by_text("sre", exact=True)).to_be_visible()
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert is_narrow(page)
