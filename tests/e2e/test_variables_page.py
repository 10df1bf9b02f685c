"""Variables in a real browser: what a module is given, where it comes from, and setting one."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.test_work_pages import enqueue, make_module, open_as, owner

__all__ = ["open_as", "owner"]
pytestmark = pytest.mark.timeout(900)


def put(product: Product, owner: Person, path: str, name: str, value: Any, **more: Any) -> None:
    variables = [{"kind": "input", "name": name, "value": value, **more}]
    product.rpc(owner.token, "set_variables", {"p_org": owner.org_id, "p_path": path, "p_variables": variables})


def test_a_module_shows_its_variables_and_a_new_value_hides_the_inherited_one(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "given/one", inputs={"size": 3})
    put(product, owner, "given", "region", "eu-west-1")
    page = open_as(owner)
    page.goto(f"/dashboard/modules?module={module}")
    panel = page.get_by_role("region", name="Variables")
    expect(panel).to_contain_text("size")
    expect(panel).to_contain_text('"eu-west-1" from given')
    panel.get_by_role("link", name="Open").click()
    page.wait_for_url(re.compile(r"/settings/variables\?path=given/one$"))
    inherited = page.locator("tr[data-row=region]")
    expect(inherited).to_contain_text("given")
    expect(inherited.get_by_role("button")).to_have_count(0)

    page.get_by_role("button", name="Set variable").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("region")
    dialog.get_by_label("Value").fill("us-east-1")
    dialog.get_by_role("button", name="Add").click()
    expect(inherited).to_contain_text('"us-east-1"')
    expect(inherited).to_contain_text('hides given "eu-west-1"')

    job = enqueue(product, owner, module, "PLAN")
    page.goto(f"/dashboard/jobs/{job}")
    given = page.get_by_role("region", name="Variables")
    expect(given).to_contain_text("given/one, version 1")
    expect(given).not_to_contain_text("us-east-1")
    page.goto("/dashboard/settings/variables?path=given/one")

    page.get_by_role("button", name="More actions for region").click()
    page.get_by_role("menuitem", name="Remove").click()
    page.get_by_role("button", name="Remove variable").click()
    expect(inherited).to_contain_text('"eu-west-1"')


def test_a_value_is_edited_live_and_a_token_is_warned_about(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    make_module(product, owner, "given/two", inputs={"size": 3})
    page = open_as(owner)
    page.goto("/dashboard/settings/variables?path=given/two")
    size = page.locator("tr[data-row=size]")
    expect(size).to_contain_text("3")
    put(product, owner, "given/two", "size", 4)
    expect(size).to_contain_text("4")
    page.get_by_role("button", name="More actions for size").click()
    page.get_by_role("menuitem", name="Edit").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Value")).to_have_value("4")
    dialog.get_by_label("Value").fill("AKIA" + "ABCDEFGHIJKLMNOP")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The value looks like a key or token.")).to_be_visible()
    page.get_by_label("Module or group").fill("given")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url(re.compile(r"\?path=given$"))
    expect(size).to_have_count(0)
