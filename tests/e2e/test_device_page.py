"""Signing a program in by a code, in a real browser."""

import re

import httpx
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.test_runners_page import Open, person, sign_in
from tests.support.browser import kept_back

__all__ = ["person", "sign_in"]

GRANT = "urn:ietf:params:oauth:grant-type:device_code"


def start(product: Product) -> dict[str, str]:
    answer = httpx.post(
        f"{product.stack.url}/functions/v1/device-login", json={"program": "runyard on laptop"}, timeout=60
    )
    return dict(answer.raise_for_status().json())


def poll(product: Product, device_code: str) -> httpx.Response:
    body = {"grant_type": GRANT, "device_code": device_code}
    return httpx.post(f"{product.stack.url}/functions/v1/device-login", json=body, timeout=60)


def open_code(page: Page, code: str) -> None:
    page.goto(f"/device?code={code}")


def test_a_code_is_confirmed_by_the_person_who_is_signed_in(product: Product, person: Person, sign_in: Open) -> None:
    asked = start(product)
    page = sign_in(person)
    open_code(page, asked["user_code"])
    expect(page.get_by_text("runyard on laptop")).to_be_visible()
    assert poll(product, asked["device_code"]).json()["error"] == "authorization_pending"
    page.get_by_role("button", name="Confirm").click()
    expect(page.locator("[data-decided=confirmed]")).to_be_visible()
    assert poll(product, asked["device_code"]).json()["user"]["email"] == person.email


def test_a_code_is_declined_and_a_wrong_one_is_reported(product: Product, person: Person, sign_in: Open) -> None:
    asked = start(product)
    page = sign_in(person)
    open_code(page, "BBBB-BBBB")
    expect(page.locator(".ry-problem")).to_be_visible()
    page.get_by_label("Code").fill(asked["user_code"].lower())
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Decline").click()
    expect(page.locator("[data-decided=declined]")).to_be_visible()
    assert poll(product, asked["device_code"]).json()["error"] == "access_denied"


def test_the_code_field_is_disabled_until_the_page_listens(person: Person, sign_in: Open) -> None:
    """Text that is typed earlier would be lost at that moment."""
    page = sign_in(person)
    field = page.get_by_label("Code")
    with kept_back(page, re.compile(r"/assets/.*\.js")):
        page.goto("/device", wait_until="commit")
        expect(field).to_be_disabled()
    expect(field).to_be_enabled()
