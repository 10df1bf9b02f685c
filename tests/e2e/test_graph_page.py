"""Dependencies in a real browser: a module's card, the graph by steps, a group that is applied in order; and under axe."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_accessibility import findings_in_both, sideways
from tests.e2e.test_work_pages import enqueue, make_module

pytestmark = pytest.mark.timeout(900)
GRAPH = "/dashboard/modules/graph"


@pytest.fixture(scope="module")
def person(product: Product) -> Person:
    return product.person("graph")


@pytest.fixture
def page(person: Person, open_as: Callable[..., Page]) -> Page:
    return open_as(person, reduced_motion="reduce")


def depend(product: Product, person: Person, consumer: str, producer: str, **options: Any) -> None:
    ends = {"p_consumer": consumer, "p_producer": producer}
    product.rpc(person.token, "set_dependency", {**ends, "p_options": options})


def push_state(product: Product, person: Person, module: str, **outputs: str) -> None:
    body = {"version": 4, "serial": 1, "lineage": module, "resources": []}
    body["outputs"] = {name: {"value": value, "type": "string"} for name, value in outputs.items()}
    product.rpc(person.token, "push_state", {"p_module": module, "p_body": json.dumps(body)})


def test_dependency_is_added_and_removed_on_the_module_s_page(product: Product, person: Person, page: Page) -> None:
    network, site = make_module(product, person, "card/network"), make_module(product, person, "card/site")
    push_state(product, person, network, vpc="vpc-1")
    push_state(product, person, site)
    page.goto(f"/dashboard/modules?tab=order&module={site}")
    card = page.get_by_test_id("dependencies")
    expect(card).to_contain_text("It depends on no other module, and none depends on it.")
    card.get_by_label("Module to depend on").fill("card/site")
    card.get_by_role("button", name="Add dependency").click()
    expect(page.locator("[data-sonner-toast][data-type=error]")).to_contain_text('"card/site" cannot depend on itself.')
    card.get_by_label("Module to depend on").fill("netw")
    expect(page.locator("#offered option")).to_have_count(1)
    card.get_by_label("Module to depend on").fill("card/network")
    card.get_by_label("Bindings, as input=output").fill("vpc_id=vpc")
    card.get_by_label("Bindings, as input=output").press("Enter")
    expect(card.get_by_role("link", name="card/network")).to_be_visible()
    expect(card).to_contain_text("vpc_id ← vpc")
    expect(page.get_by_test_id("inputs-changed")).to_contain_text("Inputs changed: vpc_id.")
    assert (findings_in_both(page), sideways(page)) == ([], [])
    propose = (
        "insert into private.dependency_proposals (consumer_id, producer_id) values (%s, %s) returning producer_id"
    )
    product.sql(propose, site, make_module(product, person, "card/dns"))
    page.reload()
    card.get_by_role("button", name="Depend on card/dns").click()
    card.get_by_role("button", name="Stop depending on card/dns").press("Enter")
    expect(card.get_by_role("button", name="Depend on card/dns")).to_be_visible()
    card.get_by_role("button", name="Stop depending on card/network").press("Enter")
    expect(card.get_by_role("link", name="card/network")).to_have_count(0)
    expect(page.get_by_test_id("inputs-changed")).to_have_count(0)


def test_the_graph_shows_steps_and_edges_and_a_table_shows_the_same(
    product: Product, person: Person, page: Page
) -> None:
    make_module(product, person, "alone/module")
    page.goto(f"{GRAPH}?path=alone")
    expect(page.get_by_test_id("no-dependencies")).to_be_visible()
    assert findings_in_both(page) == []
    paths = ("draw/root", "draw/left", "draw/right", "draw/leaf")
    root, left, right, leaf = (make_module(product, person, path) for path in paths)
    for before, after in ((root, left), (root, right), (left, leaf)):
        depend(product, person, after, before)
    page.goto(f"{GRAPH}?path=draw")
    drawing, table = page.get_by_test_id("graph"), page.get_by_role("table", name="Modules in order")
    expect(page.get_by_text("4 modules in 3 steps.")).to_be_visible()
    expect(drawing.locator("[data-step='2'] > b")).to_have_text(["draw/left", "draw/right"])
    expect(table.get_by_role("row").last).to_contain_text("draw/left")
    expect(drawing.locator("svg.e g")).to_have_count(3)
    job = enqueue(product, person, root, "APPLY")
    runner = ScriptedRunner(product, person, "draws")
    claimed = runner.claim()
    expect(drawing.locator("[data-step='1']")).to_contain_text(f"Apply: claimed#{job}")
    runner.finish(claimed, "SUCCEEDED")
    expect(drawing.locator("[data-step='1']")).to_contain_text(f"Last apply succeeded#{job}")
    expect(page.get_by_role("button", name="Plan all")).to_be_enabled()
    depend(product, person, leaf, right)
    expect(table.get_by_role("row").last).to_contain_text("draw/left; draw/right")
    assert (findings_in_both(page), sideways(page)) == ([], [])
    page.set_viewport_size({"width": 390, "height": 800})
    expect(drawing).to_be_hidden()
    expect(table.get_by_role("link", name="draw/leaf")).to_be_visible()
    assert (findings_in_both(page), sideways(page)) == ([], [])
    table.get_by_role("link", name="draw/leaf").click()
    expect(page.get_by_role("heading", name="leaf")).to_be_visible()


def test_a_group_is_applied_in_order_and_shows_the_modules_that_were_left_out(
    product: Product, person: Person, page: Page
) -> None:
    first, second = make_module(product, person, "chain/first"), make_module(product, person, "chain/second")
    depend(product, person, second, first)
    runner = ScriptedRunner(product, person, "chains")
    page.goto("/dashboard/modules?path=chain")
    page.get_by_role("button", name="Apply all in order").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("Apply all modules below chain?")
    dialog.get_by_role("button", name="Apply all").click()
    expect(page.get_by_test_id("set-progress")).to_have_text("0 of 2 done")
    job = runner.claim()
    assert job["module_path"] == "chain/first"
    runner.finish(job, "FAILED")
    expect(page.get_by_text("1 left out because of what failed")).to_be_visible()
    waits = page.get_by_test_id("set-waits")
    waits.get_by_text("Why modules wait or were left out").press("Enter")
    expect(waits.get_by_role("listitem")).to_have_text(f"chain/second is left out. Because of #{job['number']}.")
    page.get_by_role("button", name="Retry failed").click()
    expect(page.get_by_test_id("set-progress")).to_have_text("0 of 2 done")
    runner.finish(runner.claim(), "SUCCEEDED")
    again = runner.claim()
    assert again["module_path"] == "chain/second"
    runner.finish(again, "SUCCEEDED")
    expect(page.get_by_test_id("set-progress")).to_have_text("2 of 2 done")


def test_group_is_planned_reviewed_applied_in_part_and_destroyed(product: Product, person: Person, page: Page) -> None:
    paths = ("whole/first", "whole/second", "whole/third")
    first, second, third = (make_module(product, person, path) for path in paths)
    depend(product, person, second, first)
    depend(product, person, third, second, bindings={"url": "url"})
    runner = ScriptedRunner(product, person, "wholes")
    page.goto("/dashboard/modules?path=whole")
    page.get_by_role("button", name="Plan all").click()
    page.get_by_test_id("set-review").click()
    rows = page.get_by_test_id("review-row")
    expect(rows.nth(1)).to_contain_text("Waits for the steps before it")
    summary = {"create": 2, "update": 1, "has_changes": True, "outputs": []}
    runner.finish(runner.claim(), "SUCCEEDED", summary=summary)
    unknown = [{"name": "url", "action": "create", "is_known": False}]
    runner.finish(runner.claim(), "SUCCEEDED", summary={**summary, "outputs": unknown})
    expect(rows.nth(0)).to_contain_text("+2\u2002~1")
    expect(rows.nth(2)).to_contain_text("Waits for whole/second: `url` is known after apply.")
    assert (findings_in_both(page), sideways(page)) == ([], [])
    # Plans that ended after the page was opened are not selected automatically.
    act = page.get_by_role("button", name="Apply chosen plans")
    expect(act).to_be_disabled()
    page.get_by_role("button", name="All of Step 2").click()
    page.get_by_role("checkbox", name="Choose whole/first").click()
    expect(act).to_have_text("Apply chosen plans (2)")
    page.get_by_role("button", name="None of Step 2").click()
    act.click()
    page.get_by_role("alertdialog").get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("1 applied in order, 0 approved")).to_be_visible()
    applied = runner.claim()
    assert (applied["module_path"], applied["type"]) == ("whole/first", "APPLY")
    runner.finish(applied, "SUCCEEDED")
    expect(rows.nth(0).locator("[data-status='SUCCEEDED']")).to_be_visible()
    expect(rows.nth(1)).to_contain_text("Can be applied")

    page.goto("/dashboard/modules?path=whole")
    page.get_by_role("button", name="Group actions").click()
    page.get_by_role("menuitem", name="Destroy all").click()
    dialog = page.get_by_role("alertdialog")
    act = dialog.get_by_role("button", name="Destroy all")
    expect(act).to_be_disabled()
    dialog.get_by_label("Type whole to confirm").fill("whole")
    act.click()
    expect(page.get_by_test_id("set-progress").first).to_have_text("0 of 3 done")
    gone = []
    for _ in paths:
        job = runner.claim()
        gone.append((job["type"], job["module_path"]))
        runner.finish(job, "SUCCEEDED")
    assert gone == [("DESTROY", path) for path in reversed(paths)]


@pytest.mark.slow
def test_graph_of_five_hundred_modules_is_drawn(product: Product, person: Person, page: Page) -> None:
    product.rpc(person.token, "upsert_group", {"p_org": person.org_id, "p_path": "large"})
    made = """insert into public.modules (org_id, group_id, group_path, name, path)
      select g.org_id, g.id, g.path, 'm' || n, g.path || '/m' || n from public.groups as g, generate_series(0, 499) as n
      where g.org_id = %s and g.path = 'large' returning id"""
    product.sql(made, person.org_id)
    edges = [{"consumer": f"large/m{n}", "producer": f"large/m{n - 42}"} for n in range(42, 500)]
    sent = {"p_org": person.org_id, "p_path": "large", "p_dependencies": edges}
    product.rpc(person.token, "replace_dependencies", sent)
    page.goto(f"{GRAPH}?path=large")
    expect(page.get_by_text("500 modules in 12 steps.")).to_be_visible()
    expect(page.get_by_test_id("graph").locator("a")).to_have_count(500)
    page.get_by_role("table", name="Modules in order").get_by_role("link", name="large/m499").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="m499")).to_be_visible()
