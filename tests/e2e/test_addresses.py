"""Every address names its organisation; those of before lead on, and a new sign-in leads where a person was last."""

import re
import uuid
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.support.browser import Tabs


@pytest.fixture(scope="module")
def person(product: Product) -> Person:
    """Somebody with a second organisation, whose first module has the same path."""
    return product.person("places")


@pytest.fixture(scope="module")
def second(product: Product, person: Person) -> dict[str, Any]:
    """The other organisation; its name sorts before the first one's."""
    unique = uuid.uuid4().hex[:8]
    made: dict[str, Any] = product.rpc(
        person.token, "create_organization", {"p_name": f"Another {unique}", "p_slug": f"another-{unique}"}
    )
    for org, runner in ((person.org_id, "of-the-first"), (made["id"], "of-the-second")):
        spec = {"p_org": org, "p_name": runner, "p_token_hash": "$2b$10$" + "a" * 53, "p_token_hint": "abcd"}
        product.rpc(person.token, "register_worker", {**spec, "p_options": {}})
    return made


def has_runner(page: Page, name: str) -> None:
    """Wait for the runner's row."""
    expect(page.get_by_role("link", name=name)).to_be_visible()


def first_of(product: Product, person: Person) -> str:
    """The short name of a person's first organisation."""
    [(slug,)] = product.sql("select slug from organizations where id = %s", person.org_id)
    return str(slug)


def test_each_tab_keeps_the_organisation_of_its_address(
    product: Product, person: Person, second: dict[str, Any], tabs: Tabs
) -> None:
    first, cookie = first_of(product, person), product.cookie(person)
    here = tabs.open(cookie)
    here.goto(f"/o/{first}/runners")
    has_runner(here, "of-the-first")
    there = here.context.new_page()
    there.goto(f"/dashboard/runners?org={second['slug']}&health=offline")
    there.wait_for_url(re.compile(rf"/o/{second['slug']}/runners\?health=offline$"))
    has_runner(there, "of-the-second")
    # The first tab is loaded again, led on by the menu, and asks for a file: all of it is of its own organisation.
    here.reload()
    has_runner(here, "of-the-first")
    here.locator("a.ry-nav", has_text="Jobs").click()
    here.wait_for_url(re.compile(f"/o/{first}/jobs"))
    there.reload()
    has_runner(there, "of-the-second")
    asked = "async () => (await fetch('/api/audit.jsonl')).text()"
    assert "of-the-first" in here.evaluate(asked)
    assert "of-the-first" not in there.evaluate(asked)
    assert "of-the-second" in there.evaluate(asked)
    tabs.clear()


def test_an_old_address_leads_on_and_leaves_no_step_behind(
    product: Product, person: Person, second: dict[str, Any], tabs: Tabs
) -> None:
    page = tabs.open(product.cookie(person))
    page.goto(f"/o/{first_of(product, person)}/jobs")
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    page.goto("/dashboard/modules?path=nowhere#line")
    page.wait_for_url(re.compile(r"/o/[^/]+/modules/?\?path=nowhere#line$"))
    expect(page.get_by_test_id("no-modules")).to_be_visible()
    page.go_back()
    page.wait_for_url(re.compile(r"/o/[^/]+/jobs/?$"))
    # The menu's entry "Another organisation" is a load of its own, and a new sign-in remembers it.
    page.goto(f"/o/{second['id']}/runners")
    has_runner(page, "of-the-second")
    fresh = tabs.open(product.cookie(person))
    fresh.goto("/dashboard")
    fresh.wait_for_url(re.compile(f"/o/{second['slug']}/runners"))
    has_runner(fresh, "of-the-second")
    tabs.clear()


def test_an_organisation_of_others_is_not_shown(product: Product, person: Person, tabs: Tabs) -> None:
    stranger = product.person("stranger")
    product.runner(stranger, "hidden")
    page = tabs.open(product.cookie(person))
    page.goto(f"/o/{first_of(product, stranger)}/runners")
    expect(page.get_by_text("You are not a member of the organisation that this link names.")).to_be_visible()
    expect(page.get_by_text("hidden")).to_have_count(0)
    answer = page.evaluate("async () => (await fetch('/api/jobs.csv')).status")
    assert answer == 404
    tabs.clear()
