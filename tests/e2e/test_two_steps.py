"""Two-step sign-in and personal tokens in a real browser, by keyboard alone and under axe."""

import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.test_accessibility import findings
from tests.e2e.test_accounts import FLEET, browse, mailed_link, sign_in
from tests.e2e.test_keyboard import pick, press, sign_in_as, write
from tests.support.authenticator import Authenticator
from tests.support.waiting import wait_until

__all__ = ["browse"]
pytestmark = pytest.mark.timeout(600)


def turn_on(page: Page, name: str = "Phone") -> Authenticator:
    """Add a device by keyboard alone."""
    page.goto("/dashboard/account")
    press(page, page.get_by_test_id("two-steps-add"))
    expect(page.get_by_label("Device name")).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("img", name="QR code for your authenticator app")).to_be_visible()
    expect(page.get_by_label("Code")).to_be_focused()
    return Authenticator(page.get_by_test_id("two-steps-secret").inner_text())


def give_code(page: Page, code: str) -> None:
    write(page, page.get_by_label("Code"), code)
    page.keyboard.press("Enter")


def keep_codes(page: Page) -> list[str]:
    """Read the recovery codes, and close what shows them."""
    shown = page.get_by_test_id("recovery-codes").get_by_role("listitem")
    expect(shown).to_have_count(10)
    assert findings(page) == []
    codes = shown.all_inner_texts()
    press(page, page.get_by_role("button", name="Done"))
    return codes


def test_two_step_sign_in_is_turned_on_required_and_removed(product: Product, browse: Callable[[], Page]) -> None:
    person, page, elsewhere = product.person("steps"), browse(), browse()
    sign_in(page, person)
    sign_in(elsewhere, person)
    app = turn_on(page)
    assert findings(page) == []
    give_code(page, app.wrong())
    expect(page.get_by_test_id("two-steps-error")).to_contain_text("That code is wrong.")
    give_code(page, app.code())
    assert len(keep_codes(page)) == 10
    expect(page.get_by_test_id("two-steps-device")).to_contain_text("Phone")
    expect(page.get_by_role("alertdialog")).to_have_count(0)
    assert findings(page) == []
    elsewhere.goto("/dashboard/runners")
    elsewhere.wait_for_url(re.compile("/login"))

    sign_in_as(elsewhere, person.email, "Sign in")
    expect(elsewhere.get_by_label("Code")).to_be_focused()
    expect(elsewhere.locator("[data-problem]")).to_be_hidden()
    assert findings(elsewhere) == []
    give_code(elsewhere, app.wrong())
    expect(elsewhere.locator("[data-problem]")).to_contain_text("That code is wrong.")
    give_code(elsewhere, app.code())
    elsewhere.wait_for_url(FLEET)
    expect(elsewhere.get_by_role("button", name=re.compile(person.org_name))).to_be_visible()

    elsewhere.goto("/dashboard/account")
    press(elsewhere, elsewhere.get_by_role("button", name="Remove Phone"))
    expect(elsewhere.get_by_role("alertdialog")).to_contain_text("It is the last one")
    assert findings(elsewhere) == []
    give_code(elsewhere, app.wrong())
    expect(elsewhere.get_by_test_id("two-steps-error")).to_contain_text("That code is wrong.")
    give_code(elsewhere, app.code())
    expect(elsewhere.get_by_test_id("two-steps-device")).to_have_count(0)
    elsewhere.goto("/dashboard/settings/audit")
    for act in ("Added", "Removed"):
        noted = elsewhere.get_by_role("row", name=re.compile(f"{act} a device for two-step sign-in"))
        expect(noted).to_contain_text(person.email)
    third = browse()
    sign_in(third, person)


def test_a_recovery_code_signs_in_without_the_device_once(product: Product, browse: Callable[[], Page]) -> None:
    person, page, elsewhere = product.person("lost"), browse(), browse()
    sign_in(page, person)
    app = turn_on(page)
    give_code(page, app.code())
    keep_codes(page)
    press(page, page.get_by_test_id("recovery-renew"))
    code = keep_codes(page)[3]

    elsewhere.goto("/login")
    sign_in_as(elsewhere, person.email, "Sign in")
    expect(elsewhere.get_by_label("Code")).to_be_focused()
    give_code(elsewhere, "aaaaa-aaaaa")
    expect(elsewhere.locator("[data-problem]")).to_contain_text("That recovery code is wrong, or it was used.")
    give_code(elsewhere, code.upper())
    elsewhere.wait_for_url(FLEET)
    elsewhere.goto("/dashboard/account")
    expect(elsewhere.get_by_test_id("two-steps-add")).to_have_text("Turn on")
    sign_in(browse(), person)


def test_a_link_alone_sets_no_password(product: Product, browse: Callable[[], Page]) -> None:
    """Anyone who reads somebody's mail has one factor of two."""
    person, page = product.person("recover"), browse()
    sign_in(page, person)
    app = turn_on(page)
    give_code(page, app.code())
    expect(page.get_by_test_id("recovery-codes")).to_be_visible()

    other = browse()
    other.goto("/forgotten")
    other.get_by_label("Email").fill(person.email)
    other.get_by_role("button", name="Send link").click()
    other.goto(wait_until(lambda: mailed_link(product, person.email)))
    other.get_by_label("New password").fill("another-horse-battery")
    other.get_by_role("button", name="Set password").click()
    expect(other.get_by_label("Code")).to_be_focused()
    give_code(other, app.wrong())
    expect(other.locator("[data-problem]")).to_contain_text("That code is wrong.")
    give_code(other, app.code())
    other.wait_for_url(FLEET)
    changed = Person(person.email, "another-horse-battery", person.org_id, person.org_name, person.token)
    expect(other.get_by_role("button", name=re.compile(changed.org_name))).to_be_visible()


def test_a_personal_token_is_made_shown_once_used_and_revoked(product: Product, browse: Callable[[], Page]) -> None:
    person, page = product.person("tokens"), browse()
    sign_in(page, person)
    page.goto("/dashboard/account")
    press(page, page.get_by_role("button", name="Create token"))
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("token-error")).to_be_visible()
    assert findings(page) == []
    write(page, page.get_by_label("Name", exact=True), "laptop")
    pick(page, page.get_by_role("combobox", name="Expires"), "In a year")
    press(page, page.get_by_role("button", name="Create", exact=True))
    expect(page.get_by_test_id("new-token")).to_contain_text("ryp_")
    token = page.get_by_test_id("new-token").inner_text().strip()
    assert findings(page) == []
    url = f"{product.stack.url}/functions/v1/service-account-token"
    body = {"grant_type": "urn:runyard:grant-type:personal-token", "token": token}
    said = httpx.post(url, json=body, timeout=60)
    assert said.json()["email"] == person.email, said.text
    page.reload()
    row = page.get_by_test_id("personal-token")
    expect(row).to_contain_text(token[-4:])
    assert token not in page.content()
    press(page, page.get_by_role("button", name="Revoke laptop"))
    expect(page.get_by_role("alertdialog")).to_be_visible()
    assert findings(page) == []
    press(page, page.get_by_role("button", name="Revoke token"))
    expect(row).to_have_count(0)
    assert httpx.post(url, json=body, timeout=60).status_code == 401
