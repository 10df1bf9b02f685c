"""Changes of a page while somebody views it: rows wait, release notes are updated, a runner shows the reason for its waiting."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_runners_page import Open, person, row, sign_in
from tests.support.browser import settled

__all__ = ["person", "sign_in"]
pytestmark = pytest.mark.timeout(600)
RELEASE = "903.1.0"


@pytest.fixture
def release(product: Product) -> Iterator[str]:
    """A release that no other test sees afterwards."""
    product.sql("insert into worker_releases (version, notes) values (%s, 'What it brings')", RELEASE)
    yield RELEASE
    product.sql("delete from worker_releases where version like '903.%%'")


def held_table(page: Page) -> Locator:
    """The table once the server knows that somebody is at it; what comes before that is let in."""
    return page.locator(".ry-tw[data-held=true]", has=page.get_by_role("table", name="Runners"))


def test_new_runners_wait_while_the_pointer_is_in_the_table(product: Product, person: Person, sign_in: Open) -> None:
    product.runner(person, "bravo")
    page = sign_in(person)
    row(page, "bravo").hover()
    expect(held_table(page)).to_be_visible()
    product.runner(person, "alpha")
    button = page.get_by_role("button", name="1 new")
    expect(button).to_be_visible()
    expect(page.locator("tr[data-row]")).to_have_count(1)
    product.sql("update workers set status_reason = 'told meanwhile' where org_id = %s", person.org_id)
    expect(page.get_by_role("radio", name="All")).to_contain_text("2")
    # By key: on its way to the button the pointer leaves the table, and the row may be let in before the click.
    button.press("Enter")
    expect(page.locator("tr[data-row]")).to_have_count(2)
    expect(button).to_be_hidden()

    row(page, "bravo").hover()
    expect(held_table(page)).to_be_visible()
    product.runner(person, "aaron")
    expect(button).to_be_visible()
    page.get_by_role("heading", name="Runners", exact=True).hover()
    expect(page.locator("tr[data-row]")).to_have_count(3)


def test_new_runners_wait_while_the_keyboard_is_in_the_table(product: Product, person: Person, sign_in: Open) -> None:
    product.runner(person, "bravo")
    page = sign_in(person)
    expect(row(page, "bravo")).to_be_visible()
    page.keyboard.press("j")
    expect(row(page, "bravo")).to_be_focused()
    expect(held_table(page)).to_be_visible()
    product.runner(person, "alpha")
    expect(page.get_by_role("button", name="1 new")).to_be_visible()
    page.keyboard.press("/")
    expect(row(page, "alpha")).to_be_visible()


def test_a_runner_shows_that_its_engine_is_being_prepared(product: Product, person: Person, sign_in: Open) -> None:
    runner = ScriptedRunner(product, person, "newcomer")
    page = sign_in(person)
    runner.heartbeat()
    note = "update worker_instances set engines = %s, engine_note = %s where worker_id = %s"
    product.sql(note, "{}", "tofu is being prepared, 40 %", runner.worker["id"])
    expect(row(page, "newcomer")).to_contain_text("OpenTofu is being prepared, 40 %")
    expect(page.get_by_role("status").filter(has_text="Jobs that need it wait")).to_be_visible()
    product.sql(note, '{"tofu": "1.10.5"}', None, runner.worker["id"])
    expect(row(page, "newcomer")).not_to_contain_text("being prepared")
    expect(page.get_by_role("status").filter(has_text="Jobs that need it wait")).to_be_hidden()


def test_open_release_notes_change_when_a_release_is_published_or_withdrawn(
    product: Product, person: Person, sign_in: Open, release: str
) -> None:
    page = sign_in(person)
    page.locator(".ry-head").get_by_role("button", name="Release notes").click()
    dialog = page.get_by_role("dialog", name="Release notes")
    dialog.get_by_role("button", name=release).click()
    expect(dialog).to_contain_text("What it brings")
    product.sql("insert into worker_releases (version, notes) values ('903.2.0', 'What comes next')")
    expect(dialog.get_by_role("button", name="903.2.0")).to_be_visible()
    expect(dialog).to_contain_text("What it brings")
    dialog.get_by_role("button", name="903.2.0").click()
    expect(dialog).to_contain_text("What comes next")
    product.sql("update worker_releases set withdrawn_at = now() where version = '903.2.0'")
    expect(dialog.get_by_role("button", name="903.2.0")).to_be_hidden()
    expect(dialog).not_to_contain_text("What comes next")
    page.reload()
    expect(page.locator("[data-link=live]:visible")).to_be_visible()
    expect(dialog).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 1024, 900, 760])
def test_nothing_is_cut_off_between_a_phone_and_a_desk(
    product: Product, person: Person, sign_in: Open, width: int
) -> None:
    product.runner(person, "a-runner-with-a-longer-name")
    page = sign_in(person, viewport={"width": width, "height": 860})
    expect(row(page, "a-runner-with-a-longer-name")).to_be_visible()
    assert settled(page).evaluate("document.documentElement.scrollWidth") <= width
    hidden = (
        "[...document.querySelectorAll('.ry-tw')].filter((table) => table.scrollWidth > table.clientWidth + 1).length"
    )
    assert page.evaluate(hidden) == 0
    expect(page.get_by_role("link", name="Jobs").first).to_be_visible()


def test_an_unknown_address_shows_page_not_found_and_a_link_to_the_runners(person: Person, sign_in: Open) -> None:
    page = sign_in(person)
    page.goto("/dashboard/nonsense")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    expect(page.get_by_role("navigation", name="Breadcrumb")).to_contain_text("Page not found")
    page.get_by_role("link", name="Go to the runners").click()
    expect(page.get_by_role("heading", name="Runners", exact=True)).to_be_visible()
