"""Conditions for trusting a page: its clock, its clicks, its questions, its focus."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Locator, Page, WebSocketRoute, expect

from stack.settings import PROJECT
from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_runners_page import Open, person, row, sign_in
from tests.e2e.test_work_pages import STEP, enqueue, make_module, status
from tests.support.browser import FRAMES, LATER, settled
from tests.support.waiting import wait_until

__all__ = ["person", "sign_in"]
pytestmark = pytest.mark.timeout(600)
APPLYING = {**STEP, "name": "apply", "title": "Apply", "phase": "APPLY"}
SKEW = "window.runyard.now() - Date.now()"
# Milliseconds. The page corrects its clock only where the difference is more than the way can explain.
WRONG = 8_000
# So much older than that is a time which came with the first load, however long that took.
OLD = 16_000


class Line:
    """The way between a page and the dashboard, which a test can cut, loudly or silently. The test closes its page."""

    def __init__(self, page: Page) -> None:
        """Stand between from the next load on."""
        self._is_cut = self._is_silent = False
        self._open: list[WebSocketRoute] = []
        page.route_web_socket(re.compile("/_event"), self._joined)

    def _joined(self, browser: WebSocketRoute) -> None:
        if self._is_cut:
            browser.close()
            return
        server = browser.connect_to_server()
        self._open.append(browser)
        browser.on_message(lambda text: None if self._is_silent else server.send(text))
        server.on_message(lambda text: None if self._is_silent else browser.send(text))

    def cut(self) -> None:
        """Break what is open and refuse what comes."""
        self._is_cut = True
        for browser in self._open:
            browser.close()
        self._open = []

    def silence(self) -> None:
        """Drop everything without an error, as a dead network does."""
        self._is_silent = True

    def mend(self) -> None:
        """Let everything pass again."""
        self._is_cut = self._is_silent = False


def mark(page: Page, link: str) -> Locator:
    return page.locator(f"[data-link={link}]:visible")


def test_the_clock_is_right_after_every_navigation_and_reload(person: Person, sign_in: Open) -> None:
    page = sign_in(person)
    # Long enough that a time which was sent with the first load would be an old one.
    page.wait_for_function(f"performance.now() > {OLD}")
    for name in ("Jobs", "Modules", "Runners"):
        page.get_by_role("link", name=name).first.click()
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        assert abs(page.evaluate(SKEW)) < WRONG
    page.reload()
    expect(mark(page, "live")).to_be_visible()
    assert abs(page.evaluate(SKEW)) < WRONG


def test_the_page_corrects_the_wrong_clock_of_a_browser(person: Person, sign_in: Open) -> None:
    page = sign_in(person)
    page.clock.install(time="2026-01-01T00:00:00Z")
    page.reload()
    expect(mark(page, "live")).to_be_visible()
    page.wait_for_function(f"{SKEW} > 86400000")
    page.close()


def test_clicks_made_without_a_connection_are_not_done_later(product: Product, person: Person, sign_in: Open) -> None:
    module = make_module(product, person, "platform/vpc")
    page = sign_in(person)
    line = Line(page)
    page.goto(f"/dashboard/modules?module={module}")
    plan = page.get_by_role("button", name="Plan", exact=True)
    expect(plan).to_be_visible()
    line.cut()
    expect(mark(page, "off")).to_be_visible()
    expect(page.get_by_test_id("connection-banner").filter(visible=True)).to_contain_text("since")
    for _ in range(3):
        plan.click()
    expect(page.get_by_test_id("not-sent")).to_be_visible()
    line.mend()
    # A try to connect that had begun before must run into its own time limit first.
    expect(mark(page, "live")).to_be_visible(timeout=LATER)
    plan.click()
    page.wait_for_url(re.compile(r"/jobs/\d+"))
    [(count,)] = product.sql("select count(*) from provision_jobs where org_id = %s", person.org_id)
    assert count == 1
    page.close()


def test_a_network_that_dies_silently_is_noticed(person: Person, sign_in: Open) -> None:
    page = sign_in(person)
    line = Line(page)
    page.reload()
    expect(mark(page, "live")).to_be_visible()
    line.silence()
    page.get_by_role("button", name="Add runner").first.click()
    expect(mark(page, "off")).to_be_visible()
    expect(page.get_by_test_id("not-sent")).to_contain_text("The last click may not have been sent")
    line.mend()
    expect(mark(page, "live")).to_be_visible(timeout=LATER)
    expect(page.get_by_test_id("not-sent")).to_have_count(0)
    page.close()


def test_revoking_a_token_needs_a_confirmation_that_counts_connected_instances(
    product: Product, person: Person, sign_in: Open
) -> None:
    runner = ScriptedRunner(product, person, "build-1")
    page = sign_in(person)
    page.goto(f"/dashboard/runners/{runner.worker['id']}")
    # However long it took until here: who is silent for a minute is not connected.
    runner.heartbeat()
    expect(page.locator(".ry-head [data-status=ONLINE]").first).to_be_visible()
    page.get_by_role("button", name=re.compile("Revoke the token")).click()
    question = page.get_by_role("alertdialog", name=re.compile("Revoke the token"))
    expect(question).to_contain_text("1 instance is connected with this token")
    question.get_by_role("button", name="Cancel").click()
    expect(question).to_be_hidden()
    assert runner.heartbeat()
    page.get_by_role("button", name=re.compile("Revoke the token")).click()
    question.get_by_role("button", name="Revoke token").click()
    expect(page.locator(".ry-head [data-status=OFFLINE]").first).to_be_visible()


def test_a_rotated_token_is_listed_at_once_and_the_used_one_stays_in_use(
    product: Product, person: Person, sign_in: Open
) -> None:
    runner = ScriptedRunner(product, person, "build-1")
    page = sign_in(person)
    page.goto(f"/dashboard/runners/{runner.worker['id']}")
    expect(page.get_by_test_id("token-in-use")).to_be_visible()
    page.get_by_role("button", name="Rotate", exact=True).click()
    page.get_by_role("alertdialog").get_by_role("button", name=re.compile("new token")).click()
    shown = page.get_by_role("alertdialog", name="Copy the new token now")
    expect(shown.locator("ry-secret")).to_have_text(re.compile(r"^ryw_[0-9A-Za-z]{43}$"))
    fits = "(el) => el.scrollWidth <= el.clientWidth + 1 && el.getBoundingClientRect().height < 60"
    settled(page)
    assert shown.locator("ry-secret").evaluate(fits)
    shown.get_by_role("button").last.click()
    used = page.locator("li", has_text="…aaaa")
    expect(page.get_by_test_id("token-new")).to_be_visible()
    expect(used.get_by_test_id("token-in-use")).to_be_visible()
    expect(page.locator("[data-event=token_rotated]").first).to_be_visible()


def test_a_reload_closes_the_dialog_that_showed_a_new_token(product: Product, person: Person, sign_in: Open) -> None:
    worker = product.runner(person, "build-1")["id"]
    page = sign_in(person)
    page.goto(f"/dashboard/runners/{worker}")
    page.get_by_role("button", name="Rotate", exact=True).click()
    page.get_by_role("alertdialog").get_by_role("button", name=re.compile("new token")).click()
    shown = page.get_by_role("alertdialog", name="Copy the new token now")
    expect(shown.locator("ry-secret")).to_have_text(re.compile("^ryw_"))
    page.reload()
    # What is behind an open dialog is not found by its role.
    expect(page.get_by_role("button", name="Rotate", exact=True)).to_be_visible()
    expect(shown).to_have_count(0)


def test_a_killed_apply_needs_attention_and_offers_a_check_plan(
    product: Product, person: Person, open_as: Callable[[Person], Page]
) -> None:
    runner = ScriptedRunner(product, person, "build-1")
    number = enqueue(product, person, make_module(product, person, "payments/db"), "APPLY")
    job = runner.claim(number)
    runner.report(job, "APPLY", [APPLYING])
    page = open_as(person)
    page.goto(f"/dashboard/jobs/{number}")
    expect(status(page)).to_have_attribute("data-status", "PROCESSING")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("menuitem", name="Kill").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Kill", exact=True).click()
    expect(page.locator("[data-sonner-toast][data-type=error]")).to_be_visible()
    expect(page.locator("[data-event=cancel_requested]")).to_contain_text("Kill requested by")
    # What a runner reports whose engine was killed in a change.
    runner.finish(job, "NEEDS_ATTENTION")
    expect(status(page)).to_have_attribute("data-status", "NEEDS_ATTENTION")
    expect(page.get_by_test_id("attention")).to_contain_text("was killed, so nobody knows how far it got")
    expect(page.get_by_test_id("attention").get_by_role("button", name="Run a check plan")).to_be_visible()


FOCUSED = "(el) => el.contains(document.activeElement)"


@pytest.mark.parametrize(("item", "title"), [("Drain", "Drain"), ("Remove", "Remove"), ("Disable", "Disable")])
def test_a_dialog_opened_from_a_menu_has_the_focus(
    product: Product, person: Person, sign_in: Open, item: str, title: str
) -> None:
    product.runner(person, "prod-us")
    page = sign_in(person)
    expect(row(page, "prod-us")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press(".")
    expect(page.get_by_role("menuitem", name=item)).to_be_visible()
    page.get_by_role("menuitem", name=item).focus()
    page.keyboard.press("Enter")
    question = page.get_by_role("alertdialog", name=re.compile(f"^{title} prod-us"))
    expect(question).to_be_visible()
    expect(page.get_by_role("menu")).to_be_hidden()
    page.wait_for_function("document.querySelector('[role=alertdialog]')?.contains(document.activeElement)")
    # The menu gives the focus back a moment later: it must be here after that too.
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))")
    assert question.evaluate(FOCUSED)
    page.keyboard.type("prod-us")
    page.keyboard.press("Tab")
    wait_until(lambda: question.evaluate(FOCUSED))


def test_text_typed_while_the_menu_closes_is_kept(product: Product, person: Person, sign_in: Open) -> None:
    product.runner(person, "prod-us")
    page = sign_in(person)
    page.add_style_tag(content="[role=menu][data-state=closed] { animation-duration: 600s !important }")
    page.get_by_role("button", name="More actions for prod-us").click()
    page.get_by_role("menuitem", name="Remove").click()
    question = page.get_by_role("alertdialog", name=re.compile("^Remove prod-us"))
    expect(question.get_by_role("textbox")).to_be_focused()
    page.keyboard.type("prod")
    page.evaluate("for (const closing of document.querySelector('[role=menu]').getAnimations()) closing.finish()")
    # Now the menu gives the focus to its button, and the dialog takes it back.
    expect(page.locator("[role=menu]")).to_have_count(0)
    page.evaluate(
        "new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 100))"
    )
    expect(question.get_by_role("textbox")).to_be_focused()
    page.keyboard.type("-us")
    expect(question.get_by_role("textbox")).to_have_value("prod-us")
    expect(question.get_by_role("button", name="Remove runner")).to_be_enabled()


@pytest.mark.parametrize("path", ["/dashboard/modules?new=1", "/dashboard/runners"])
def test_a_half_filled_sheet_is_left_by_its_own_button_only(person: Person, sign_in: Open, path: str) -> None:
    page = sign_in(person)
    page.goto(path)
    sheet = page.locator(".ry-sheet")
    if "new" not in path:
        page.locator("[data-key=n]").click()
        expect(sheet).to_be_visible()
        page.keyboard.press("Escape")
        expect(sheet).to_have_count(0)
        page.locator("[data-key=n]").click()
        expect(sheet.get_by_label("Name", exact=True)).to_be_focused()
    sheet.get_by_label("Name", exact=True).fill("half")
    leave = sheet.get_by_role("button", name="Cancel")
    page.keyboard.press("Escape")
    expect(leave).to_be_focused()
    page.mouse.click(4, 300)
    settled(page)
    expect(sheet.get_by_label("Name", exact=True)).to_have_value("half")
    leave.click()
    expect(sheet).to_have_count(0)


def test_a_half_filled_question_is_left_by_its_own_button_only(person: Person, sign_in: Open) -> None:
    page = sign_in(person)
    page.goto("/dashboard/account")
    page.get_by_role("button", name="Create token").click()
    form = page.get_by_role("alertdialog", name="Create a personal token")
    form.get_by_label("Name", exact=True).fill("half")
    page.keyboard.press("Escape")
    expect(form.get_by_role("button", name="Cancel")).to_be_focused()
    expect(form.get_by_label("Name", exact=True)).to_have_value("half")
    page.keyboard.press("Enter")
    expect(form).to_have_count(0)


QUESTION = """<div role="alertdialog" data-state="open"><input>
  <div class="ry-dialog-acts"><button disabled onclick="window.acts = (window.acts || 0) + 1">Remove</button></div></div>"""


@pytest.mark.parametrize(("meanwhile", "acts"), [("", 1), ("a", 0)])
def test_enter_waits_for_a_slow_answer_unless_another_key_is_pressed(
    chromium: Browser, meanwhile: str, acts: int
) -> None:
    """A name that is typed to confirm enables its button once the server has seen it, however long that takes."""
    page = chromium.new_page()
    page.set_content(QUESTION)
    # Its patience is in seconds, and a busy machine's frames may take as many.
    page.evaluate("Date.now = () => 0")
    page.add_script_tag(path=PROJECT / "assets" / "dialogs.js")
    page.locator("input").press("Enter")
    page.evaluate(FRAMES, 90)
    if meanwhile:
        page.keyboard.press(meanwhile)
    page.evaluate("document.querySelector('button').disabled = false")
    page.evaluate(FRAMES, 90)
    assert page.evaluate("window.acts || 0") == acts
    page.close()


@pytest.fixture
def long_log(product: Product, person: Person) -> int:
    runner = ScriptedRunner(product, person, "build-1")
    number = enqueue(product, person, make_module(product, person, "platform/log"), "PLAN")
    job = runner.claim(number)
    runner.report(job, "PLAN", [STEP])
    lines = "".join(f"line {at}{' needle' if at == 380 else ''}\n" for at in range(1, 401))
    runner.log(job, 1, "plan", lines)
    runner.finish(job, "SUCCEEDED", last_seq=1)
    return number


IN_SIGHT = (
    """(el) => { const { top, bottom } = el.getBoundingClientRect(); return top >= 0 && bottom <= innerHeight }"""
)


def wait_in_sight(place: Locator) -> None:
    """Wait until it has been scrolled to; it may be drawn again on the way."""
    expect(place).to_be_visible()
    wait_until(lambda: place.evaluate(IN_SIGHT))


def test_a_link_to_a_line_and_a_hit_are_in_sight(
    person: Person, open_as: Callable[[Person], Page], long_log: int
) -> None:
    page = open_as(person)
    page.set_viewport_size({"width": 1440, "height": 420})
    page.goto(f"/dashboard/jobs/{long_log}#L390")
    wait_in_sight(page.locator("#L390"))
    page.evaluate("scrollTo(0, 0)")
    page.get_by_label("Search the log").fill("needle")
    wait_in_sight(page.locator("#L380 mark").first)
