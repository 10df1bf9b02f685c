"""The modules page in a real browser: links, locks, badges, and organisations with many modules."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_work_pages import enqueue, make_module, owner, runner

__all__ = ["owner", "runner"]
pytestmark = pytest.mark.timeout(900)
MANY = """
  insert into public.modules (org_id, group_id, group_path, name, path)
  select org_id, group_id, group_path, 'm' || to_char(n, 'FM0000'), group_path || '/m' || to_char(n, 'FM0000')
  from public.modules, generate_series(1, 1005) as n where id = %s
"""


def test_back_returns_to_the_module_that_was_chosen_before(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    for name in ("one", "two"):
        make_module(product, owner, f"steps/{name}")
    page = open_as(owner)
    page.goto("/dashboard/modules?path=steps/one")
    shown = page.get_by_role("navigation", name="Breadcrumb")
    expect(shown).to_contain_text("steps / one")
    page.locator("[data-module='steps/two']").filter(visible=True).click()
    expect(shown).to_contain_text("steps / two")
    expect(page).to_have_url(re.compile("path=steps/two$"))
    page.go_back()
    expect(page).to_have_url(re.compile("path=steps/one$"))
    expect(shown).to_contain_text("steps / one")


def test_a_link_to_a_missing_module_names_near_ones_and_shows_no_other(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    make_module(product, owner, "links/gateway")
    page = open_as(owner)
    page.goto("/dashboard/modules?path=links/gatewy")
    missing = page.get_by_test_id("no-such-module")
    expect(missing).to_contain_text("No module at links/gatewy")
    expect(page.get_by_role("button", name="Apply")).to_have_count(0)
    missing.get_by_role("link", name="links/gateway").click()
    expect(page.get_by_role("heading", name="gateway", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Apply")).to_be_enabled()


def test_a_created_module_has_its_own_address_and_its_pin(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    """The form offers this organisation's runners, and none of another organisation of the same person."""
    pinned = product.runner(owner, "pin-here", allow_multiple_instances=True)["id"]
    slug = f"second-{owner.org_id[:8]}"
    second = product.rpc(owner.token, "create_organization", {"p_name": "Second", "p_slug": slug})
    product.runner(replace(owner, org_id=str(second["id"])), "of-the-second")
    page = open_as(owner)
    page.goto("/dashboard/modules?new=1")
    page.get_by_label("Group", exact=True).fill("links")
    page.get_by_label("Name", exact=True).fill("fresh")
    page.get_by_role("radio", name="Inline").click()
    page.get_by_role("combobox", name="Runner").click()
    expect(page.get_by_role("option", name="Any eligible runner")).to_be_visible()
    expect(page.get_by_role("option", name="of-the-second")).to_have_count(0)
    page.get_by_role("option", name="pin-here").click()
    page.get_by_label("Instance", exact=True).fill("rack-7")
    page.get_by_role("button", name="Create module").click()
    page.wait_for_url(re.compile(r"\?path=links/fresh$"))
    page.reload()
    expect(page.get_by_role("heading", name="fresh", exact=True)).to_be_visible()
    saved = (
        "select pinned_worker_id::text, runner_instance_name from modules where org_id = %s and path = 'links/fresh'"
    )
    assert product.sql(saved, owner.org_id) == [(pinned, "rack-7")]


def test_a_locked_module_cannot_be_applied_and_shows_the_reason(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "locks/frozen")
    product.rpc(owner.token, "lock_module", {"p_module": module, "p_reason": "freeze for audit"})
    page = open_as(owner)
    page.goto(f"/dashboard/modules?module={module}")
    expect(page.get_by_test_id("module-lock")).to_contain_text("freeze for audit")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    expect(page.get_by_role("button", name="Plan", exact=True)).to_be_enabled()
    page.goto("/dashboard/jobs")
    page.get_by_role("button", name="New job").first.click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_role("combobox", name="Module").click()
    page.get_by_role("option", name="locks/frozen").click()
    dialog.get_by_role("combobox", name="Operation").click()
    page.get_by_role("option", name="Apply").click()
    expect(dialog.get_by_test_id("run-locked")).to_contain_text("freeze for audit")
    expect(dialog.get_by_test_id("run")).to_be_disabled()


def test_a_badge_shows_the_last_apply_and_no_later_plan(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "badges/db")
    for kind, end in (("APPLY", "FAILED"), ("PLAN", "SUCCEEDED")):
        job = runner.claim(enqueue(product, owner, module, kind))
        runner.finish(job, end)
    page = open_as(owner)
    page.goto(f"/dashboard/modules?module={module}")
    expect(page.locator(".ry-history tr[data-status]").first).to_have_attribute("data-status", "SUCCEEDED")
    expect(page.locator(".ry-head [data-status]")).to_have_attribute("data-status", "FAILED")
    for _ in range(5):
        runner.finish(runner.claim(enqueue(product, owner, module, "PLAN")), "SUCCEEDED")
    newest = page.get_by_role("table", name="History").get_by_role("row")
    expect(newest).to_have_count(6)
    page.get_by_role("navigation", name="Parts of the page").get_by_role("link", name="Jobs").click()
    expect(newest).to_have_count(8)
    expect(page.get_by_role("treeitem", name="db").get_by_role("img", name="Last apply failed")).to_be_visible()


def test_every_module_of_a_large_organisation_can_be_applied(
    product: Product, open_as: Callable[[Person], Page]
) -> None:
    large = product.person("large")
    first = make_module(product, large, "all/m0000")
    product.sql(MANY, first)
    page = open_as(large)
    page.goto("/dashboard/modules?path=all/m1005")
    page.get_by_role("button", name="Apply").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("all/m1005")
    expect(dialog.get_by_test_id("run")).to_be_enabled()
    page.goto("/dashboard/runners?add=all/m1005")
    expect(page.get_by_role("dialog", name="Add runner").get_by_label("Assign to")).to_have_value("all/m1005")
    page.goto("/dashboard/jobs")
    page.get_by_role("button", name="New job").first.click()
    dialog.get_by_label("Filter modules").fill("m1004")
    expect(dialog.get_by_role("combobox", name="Module")).to_contain_text("all/m1004")
    dialog.get_by_test_id("run").click()
    page.wait_for_url(re.compile(r"/jobs/\d+"))
    expect(page.get_by_text("all/m1004").first).to_be_visible()


def test_the_palette_runs_commands_and_needs_a_confirmation_to_change_infrastructure(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    make_module(product, owner, "commands/db")
    page = open_as(owner)
    page.goto("/dashboard/runners")
    palette = page.get_by_test_id("palette")

    def run(text: str, name: str) -> None:
        expect(page.locator("[data-link=live]").first).to_be_visible()
        page.keyboard.press("Control+k")
        palette.get_by_role("combobox").fill(text)
        palette.get_by_role("option", name=name).click()

    run("apply commands/db", "Apply commands/db…")
    expect(page.get_by_role("alertdialog")).to_contain_text("Apply commands/db?")
    page.get_by_role("alertdialog").get_by_role("button", name="Cancel").click()
    run("lock commands", "Lock commands/db…")
    expect(page.get_by_role("alertdialog")).to_be_visible()
    page.keyboard.press("Escape")
    run("audit", "Settings › Audit log")
    expect(page.get_by_role("heading", name="Audit log")).to_be_visible()
    is_dark = page.locator("html.dark").count()
    run("dark", "Switch theme: light or dark")
    expect(page.locator("html.dark")).to_have_count(1 - is_dark)
    run("plan commands/db", "Plan commands/db")
    page.wait_for_url(re.compile(r"/jobs/\d+"))


def test_a_temporary_module_prefills_nothing_and_ticks_no_first_step(
    product: Product, open_as: Callable[[Person], Page]
) -> None:
    fresh = product.person("fresh")
    module = make_module(product, fresh, "runyard/runner-test", is_temporary=True)
    page = open_as(fresh)
    page.goto("/dashboard/runners")
    expect(page.get_by_role("link", name="Create module")).to_be_visible()
    page.goto(f"/dashboard/modules?module={module}")
    expect(page.get_by_role("heading", name="runner-test", exact=True)).to_be_visible()
    page.goto("/dashboard/modules?new=1")
    expect(page.get_by_label("Group", exact=True)).to_have_value("")


def test_an_error_disappears_when_its_field_changes(owner: Person, open_as: Callable[[Person], Page]) -> None:
    page = open_as(owner)
    page.goto("/dashboard/modules?new=1")
    page.get_by_role("button", name="Create module").click()
    error = page.get_by_test_id("error-name")
    expect(error).to_be_visible()
    expect(page.locator(".ry-f:has(> .err) input").first).to_be_focused()
    page.get_by_label("Name", exact=True).fill("two")
    expect(error).to_be_hidden()
