"""Signing in with the company's account, in a browser: there, back, refused, tested, and with the password of the one owner."""

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import _open_folder
from tests.support.browser import LATER
from tests.support.company import OWNER, PASSWORD, Company, start_company
from tests.support.npm_tools import ToolUnavailable

pytestmark = pytest.mark.timeout(900)
PHONE = {"width": 390, "height": 844}
FLEET = re.compile("/runners")


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
    page.get_by_label("Email").press("Enter")


def enter_at_provider(page: Page, email: str) -> None:
    type_address(page, email)
    page.get_by_role("button", name="Continue with Example ID").click()
    page.wait_for_url(FLEET)


def enter_by_password(page: Page) -> None:
    type_address(page, OWNER)
    page.get_by_role("button", name="Use a password instead").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(FLEET)


def is_narrow(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_an_address_of_the_company_leads_to_its_provider_and_back_on_a_phone(
    company: Company, chromium: Browser
) -> None:
    company.provider.sign_in("ann", groups=["infra-sre"])
    page = open_page(company, chromium, viewport=PHONE)
    page.goto("/login")
    expect(page.get_by_label("Password")).to_be_hidden()
    type_address(page, "ann@example.org")
    button = page.get_by_role("button", name="Continue with Example ID")
    expect(button).to_be_focused()
    expect(page.get_by_label("Password")).to_be_hidden()
    assert is_narrow(page)
    button.click()
    page.wait_for_url(FLEET)
    assert is_narrow(page)
    page.close()


def test_other_addresses_are_asked_for_a_password(company: Company, chromium: Browser) -> None:
    page = open_page(company, chromium)
    type_address(page, "ann@example.org")
    button = page.get_by_role("button", name="Continue with Example ID")
    expect(button).to_be_visible()
    type_address(page, "ann@elsewhere.org")
    expect(page.get_by_label("Password")).to_be_focused()
    expect(button).to_be_hidden()
    page.get_by_label("Email").fill("ann@example.org")
    expect(page.get_by_label("Password")).to_be_hidden()
    page.close()


def test_a_refusal_of_the_provider_is_on_the_sign_in_page_once(company: Company, chromium: Browser) -> None:
    company.provider.sign_in()
    page = open_page(company, chromium)
    type_address(page, "ann@example.org")
    page.get_by_role("button", name="Continue with Example ID").click()
    expect(page.get_by_role("alert")).to_contain_text("The provider refused: access_denied.")
    page.reload()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_hidden()
    page.close()


def test_who_left_the_group_loses_the_open_page(company: Company, chromium: Browser) -> None:
    company.provider.sign_in("cyd", groups=["infra-sre"])
    page = open_page(company, chromium)
    enter_at_provider(page, "cyd@example.org")
    expect(page.locator(".ry-org")).to_contain_text("Example")
    company.provider.sign_in("cyd")
    # An access token's life later; nobody touches the page.
    company.one("update auth.runyard_provider_sessions set read_at = now() - interval '1 hour' returning 1")
    page.wait_for_function("() => !document.querySelector('.ry-org')?.textContent.includes('Example')", timeout=LATER)
    page.close()


def test_an_owner_tests_joins_and_comes_in_alone_with_a_password(company: Company, chromium: Browser) -> None:
    page = open_page(company, chromium)
    enter_by_password(page)
    page.goto("/dashboard/settings/sign-in")
    provider = page.get_by_role("region", name="Provider")
    expect(provider.get_by_text(company.provider.issuer)).to_be_visible()
    assert provider.get_by_role("textbox").count() == 0
    provider.get_by_role("button", name="Edit").click()
    sheet = page.get_by_role("dialog", name="Provider")
    expect(sheet.get_by_label("Issuer")).not_to_be_editable()
    sheet.get_by_label("Name").fill("")
    sheet.get_by_role("button", name="Save").click()
    expect(sheet.get_by_text("This is needed.")).to_be_visible()
    sheet.get_by_label("Name").fill("Example ID")
    sheet.get_by_role("button", name="Save").click()
    expect(sheet).to_be_hidden()
    provider.get_by_role("button", name="Remove").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Cancel").click()
    expect(provider.get_by_text(company.provider.issuer)).to_be_visible()
    panel = page.get_by_role("region", name="Test sign-in")
    company.provider.sign_in()
    panel.get_by_role("button", name="Test").click()
    expect(panel.get_by_role("alert")).to_contain_text("The provider refused: access_denied.")
    company.provider.sign_in("owner", groups=["infra-sre"])
    panel.get_by_role("button", name="Test").click()
    expect(panel.get_by_text("only tested: nothing was changed")).to_be_visible()
    expect(panel.get_by_text("['infra-sre']")).to_be_visible()
    assert company.one("select count(*) from auth.identities where provider like 'custom:%%' and user_id ="
                       " (select id from auth.users where email = %s)", OWNER) == 0  # fmt: skip
    panel.get_by_role("button", name="Join your account").click()
    page.wait_for_url(FLEET)
    page.goto("/dashboard/settings/sign-in")
    expect(panel.get_by_text(re.compile("^confirmed "))).to_be_visible()
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    expect(page.get_by_text("_runyard.example.org")).to_be_visible()
    assert is_narrow(page)
    page.close()
    session = company.sign_in("owner", groups=["infra-sre"])
    company.owner = session["access_token"]
    headers = {"apikey": company.stack.publishable_key, "authorization": f"Bearer {company.owner}"}
    url = f"{company.stack.url}/auth/v1/user"
    assert httpx.put(url, json={"password": PASSWORD}, headers=headers, timeout=60).is_success
    company.rpc(
        "set_sign_in_rules", p_org=company.org, p_default_role=None, p_is_only=True, p_break_glass=session["user"]["id"]
    )
    phone = open_page(company, chromium, viewport=PHONE)
    enter_by_password(phone)
    expect(phone.get_by_text("You came in without Example ID")).to_be_visible()
    assert is_narrow(phone)
    phone.close()
    acts = company.one("select count(*) from public.audit_events where action = 'member.entered_without_provider'")
    assert acts == 1
