"""Rights at a path in a real browser: the panel, and the buttons that a role at a path brings."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_work_pages import enqueue, make_module, owner, runner

__all__ = ["owner", "runner"]
pytestmark = pytest.mark.timeout(900)
JOIN = """
  insert into memberships (org_id, user_id, email, role)
  select %s, id, email, %s from auth.users where email = %s returning user_id::text
"""
Opened = Callable[[Person], Page]


def viewer(product: Product, owner: Person, name: str, role: str = "viewer") -> tuple[Person, str]:
    """A member of the owner's organisation, and their id; their own organisation is out of the way."""
    person = product.person(name)
    product.sql("delete from memberships where org_id = %s", person.org_id)
    return person, product.sql(JOIN, owner.org_id, role, person.email)[0][0]


def give(product: Product, owner: Person, path: str, role: str, user: str) -> None:
    args = {"p_org": owner.org_id, "p_path": path, "p_role": role, "p_kind": "member", "p_subject": user}
    product.rpc(owner.token, "grant_role", args)


def button(page: Page | Locator, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def test_access_is_given_explained_and_taken_away(product: Product, owner: Person, open_as: Opened) -> None:
    make_module(product, owner, "access/prod/db")
    person, _ = viewer(product, owner, "dev")
    page, other = open_as(owner), open_as(owner)
    for each, path in ((page, "access/prod"), (other, "access/prod/db")):
        each.goto(f"/dashboard/modules?tab=access&path={path}")
    panel, below = page.get_by_test_id("access"), other.get_by_test_id("access")
    expect(panel.get_by_role("row").filter(has_text=person.email)).to_contain_text("Viewer")
    button(panel, "Give access").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Who").fill("nobody@example.com")
    button(dialog, "Give access").click()
    expect(page.get_by_test_id("error-who")).to_be_visible()
    dialog.get_by_label("Who").fill(person.email)
    dialog.get_by_role("combobox", name="Role").click()
    page.get_by_role("option", name=re.compile("^Operator: ")).click()
    button(dialog, "Give access").click()
    given = panel.get_by_role("row").filter(has_text="Here")
    expect(given).to_contain_text(person.email)
    expect(given).to_contain_text("Operator")
    # Another open page shows it, too.
    expect(below.get_by_role("row").filter(has_text="access/prod")).to_contain_text("Operator")

    button(below, "Why may this person …?").click()
    why = other.get_by_role("alertdialog")
    why.get_by_label("Member").fill(person.email)
    button(why, "Explain").click()
    expect(other.get_by_test_id("why")).to_contain_text("may job.apply at access/prod/db: operator at access/prod.")

    button(given, f"More actions for {person.email}").click()
    page.get_by_role("menuitem", name="Take away").click()
    expect(page.get_by_role("alertdialog")).to_contain_text(person.email)
    button(page.get_by_role("alertdialog"), "Take away").click()
    expect(given).to_have_count(0)
    expect(below.get_by_role("row").filter(has_text="access/prod")).to_have_count(0)


def test_a_role_at_a_path_brings_its_buttons_there_and_nowhere_else(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Opened
) -> None:
    for path in ("ours/app", "plans/app", "theirs/app"):
        make_module(product, owner, path)
    person, user = viewer(product, owner, "half")
    give(product, owner, "plans", "planner", user)
    page = open_as(person)
    page.goto("/dashboard/modules?tab=access&path=ours/app")
    expect(page.get_by_test_id("access")).to_be_visible()
    expect(button(page, "Plan")).to_have_count(0)
    # It counts in the open page.
    give(product, owner, "ours", "operator", user)
    expect(button(page, "Plan")).to_be_visible()
    expect(button(page, "Apply")).to_be_visible()
    expect(button(page, "Give access")).to_have_count(0)
    page.goto("/dashboard/modules?path=ours")
    expect(button(page, "Apply all in order")).to_be_visible()
    button(page, "Group actions").click()
    expect(page.get_by_role("menuitem", name="Check all for drift")).to_be_visible()
    expect(page.get_by_role("menuitem", name="Destroy all")).to_have_count(0)
    page.keyboard.press("Escape")
    page.goto("/dashboard/modules?path=plans")
    expect(button(page, "Plan all")).to_be_visible()
    expect(button(page, "Apply all in order")).to_have_count(0)
    page.get_by_role("treeitem", name="app").click()
    expect(page.get_by_role("heading", name="app", exact=True)).to_be_visible()
    expect(button(page, "Apply")).to_have_count(0)
    button(page, "Module actions").click()
    expect(page.get_by_role("menuitem")).to_have_text(
        ["Check for drift", "Read outputs", "Bring in state", "Use from your terminal"]
    )
    page.keyboard.press("Escape")
    page.goto("/dashboard/modules?tab=access&path=theirs/app")
    expect(page.get_by_test_id("access")).to_be_visible()
    expect(button(page, "Plan")).to_have_count(0)
    expect(button(page, "Module actions")).to_have_count(0)


def test_a_guest_finds_runners_and_events_of_their_groups_and_no_page_of_the_whole(
    product: Product, owner: Person, open_as: Opened
) -> None:
    """One refused question once kept a guest's list of runners empty."""
    for path in ("guests", "hosts"):
        make_module(product, owner, f"{path}/app")
        product.rpc(
            owner.token, "assign_worker", {"p_worker": product.runner(owner, f"for-{path}")["id"], "p_path": path}
        )
    person, user = viewer(product, owner, "guest", "guest")
    give(product, owner, "guests", "viewer", user)
    page = open_as(person)
    page.goto("/dashboard/runners")
    expect(page.get_by_role("link", name="for-guests")).to_be_visible()
    expect(page.get_by_text("for-hosts")).to_have_count(0)
    expect(page.get_by_role("link", name="Versions")).to_have_count(0)
    side = page.get_by_role("complementary", name="Main")
    expect(side.get_by_role("link", name="Figures")).to_have_count(0)
    side.get_by_role("link", name="Events").click()
    expect(page.get_by_role("heading", name="Events", exact=True)).to_be_visible()
    expect(page.get_by_role("navigation", name="Figures")).to_have_count(0)


def test_a_job_page_offers_what_one_may_do_at_its_path(product: Product, owner: Person, open_as: Opened) -> None:
    ours = make_module(product, owner, "queue/ours/app")
    theirs = make_module(product, owner, "queue/theirs/app")
    person, user = viewer(product, owner, "queued")
    give(product, owner, "queue/ours", "operator", user)
    page = open_as(person)
    page.goto(f"/dashboard/jobs/{enqueue(product, owner, ours, 'PLAN')}")
    expect(button(page, "Cancel")).to_be_visible()
    page.goto(f"/dashboard/jobs/{enqueue(product, owner, theirs, 'PLAN')}")
    expect(page.get_by_role("heading", name="Why is it waiting?")).to_be_visible()
    expect(button(page, "Cancel")).to_have_count(0)


def test_a_plan_that_no_apply_follows_is_discarded_by_those_who_approve(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Opened
) -> None:
    number = enqueue(product, owner, make_module(product, owner, "unused/app"), "PLAN")
    runner.finish(runner.claim(number), "SUCCEEDED", summary={"create": 1, "has_changes": True, "outputs": []})
    person, user = viewer(product, owner, "plans")
    give(product, owner, "unused", "planner", user)
    other, page = open_as(person), open_as(owner)
    other.goto(f"/dashboard/jobs/{number}")
    expect(button(other, "Open module")).to_be_visible()
    expect(button(other, "Discard")).to_have_count(0)
    page.goto(f"/dashboard/jobs/{number}")
    expect(button(page, "Apply this plan")).to_be_visible()
    button(page, "Discard").click()
    button(page.get_by_role("alertdialog"), "Discard").click()
    for each in (page, other):
        expect(each.locator("[data-stage=Review]")).to_contain_text("discarded")
        expect(button(each, "Discard")).to_have_count(0)
    expect(button(page, "Apply this plan")).to_have_count(0)


def test_teams_and_roles_are_made_and_given(product: Product, open_as: Opened) -> None:
    owner = product.person("teams")
    person, _ = viewer(product, owner, "mate")
    make_module(product, owner, "shop/cart")
    page = open_as(owner)
    page.goto("/dashboard/settings/members")
    button(page, "Create team").click()
    page.get_by_label("Name").fill("sre")
    button(page, "Create").click()
    row = page.get_by_role("table", name="Teams").get_by_role("row").filter(has_text="sre")
    button(row, "More actions for sre").click()
    page.get_by_role("menuitem", name="Members").click()
    page.get_by_role("checkbox", name=person.email).click()
    expect(page.get_by_role("checkbox", name=person.email)).to_be_checked()
    button(page, "Done").click()
    expect(row.get_by_role("cell").nth(1)).to_have_text("1")

    page.goto("/dashboard/settings/roles")
    expect(page.get_by_role("row").filter(has_text="planner")).to_contain_text("Runyard")
    button(page, "Add role").click()
    page.get_by_label("Name").fill("release-manager")
    button(page, "Add role").click()
    expect(page.get_by_test_id("error-verbs")).to_be_visible()
    for verb in ("job.plan", "job.apply"):
        page.get_by_role("checkbox", name=verb, exact=True).click()
    button(page, "Add role").click()
    made = page.get_by_role("row").filter(has_text="release-manager")
    expect(made).to_contain_text("2 verbs")

    page.goto("/dashboard/modules?tab=access&path=shop")
    button(page, "Give access").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Who").fill("team:sre")
    dialog.get_by_role("combobox", name="Role").click()
    page.get_by_role("option", name=re.compile("^release-manager: ")).click()
    button(dialog, "Give access").click()
    expect(page.get_by_test_id("access").get_by_role("row").filter(has_text="Here")).to_contain_text("Team, 1 member")
    theirs = open_as(person)
    theirs.goto("/dashboard/modules?path=shop/cart")
    expect(button(theirs, "Apply")).to_be_visible()

    page.goto("/dashboard/settings/roles")
    button(made, "More actions for release-manager").click()
    page.get_by_role("menuitem", name="Delete").click()
    button(page, "Delete role").click()
    expect(page.get_by_text("Take it away from them first.")).to_be_visible()
    page.goto("/dashboard/settings/members")
    button(row, "More actions for sre").click()
    page.get_by_role("menuitem", name="Delete").click()
    button(page, "Delete team").click()
    expect(row).to_have_count(0)
    # The roles of a team end with it, in the open page too.
    expect(button(theirs, "Apply")).to_have_count(0)


def test_a_personal_token_is_limited(owner: Person, open_as: Opened) -> None:
    page = open_as(owner)
    page.goto("/dashboard/account")
    button(page, "Create token").click()
    page.get_by_label("Name").fill("ci")
    page.get_by_label("At a group or module").fill("platform/prod")
    button(page, "Create").click()
    expect(page.get_by_test_id("token-error")).to_contain_text("needs a role")
    page.get_by_role("combobox", name="May").click()
    page.get_by_role("option", name="Read and plan").click()
    button(page, "Create").click()
    row = page.get_by_test_id("personal-token").filter(has_text="ci")
    expect(row.get_by_test_id("limit")).to_have_text("Read and plan at platform/prod")
