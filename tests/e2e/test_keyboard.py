"""Every journey by keyboard alone: no test here touches a pointer, and what has the focus can be seen."""

import re
import uuid
from collections.abc import Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from stack.settings import PROJECT
from tests.e2e.product import PASSWORD, Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_work_pages import STEP, SUMMARY, enqueue, make_module, status
from tests.support.browser import FRAMES

pytestmark = pytest.mark.timeout(900)
SETTINGS = "/dashboard/settings"
# Twice as far as any page has stops: one that moves meanwhile may be passed.
FAR = 180
HAS_FOCUS = "(el) => el === document.activeElement"
# A ring of its own, or that of the field's frame.
IS_SEEN = """() => {
  const ringed = (el) => { const s = getComputedStyle(el); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0; };
  const el = document.activeElement;
  return ringed(el) || !!el.closest('.rt-TextFieldRoot, .rt-TextAreaRoot') || getComputedStyle(el).boxShadow !== 'none';
}"""


@pytest.fixture(scope="module")
def person(product: Product) -> Person:
    return product.person("keys")


@pytest.fixture(scope="module")
def runner(product: Product, person: Person) -> ScriptedRunner:
    return ScriptedRunner(product, person, "lively")


@pytest.fixture(scope="module")
def page(product: Product, person: Person, chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(base_url=product.url, viewport={"width": 1440, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    name, value = product.cookie(person).split("=", 1)
    context.add_cookies([{"name": name, "value": value, "url": product.url}])
    made = context.new_page()
    yield made
    context.close()


def go(page: Page, path: str) -> None:
    """Open a page and wait until its keys work."""
    page.goto(path)
    expect(page.locator("[data-link=live]:visible")).to_be_visible()


def reach(page: Page, target: Locator) -> None:
    """Walk to something with Tab, as far as it takes, and see that it is where one is."""
    expect(target).to_be_visible()
    expect(target).to_be_enabled()
    step_to(page, target, "Tab")
    page.wait_for_function(IS_SEEN)


def press(page: Page, target: Locator) -> None:
    """Walk to a control and press it."""
    reach(page, target)
    page.keyboard.press("Enter")


def write(page: Page, target: Locator, text: str) -> None:
    """Walk to a field and write into it."""
    reach(page, target)
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def pick(page: Page, target: Locator, option: str) -> None:
    """Open a list or a menu by its control and choose from it."""
    press(page, target)
    choose_below(page, option)


def choose_below(page: Page, option: str) -> None:
    """Go down an open list or menu to a line, and take it."""
    wanted = page.locator("[role=option], [role=menuitem]").filter(has_text=option).first
    expect(wanted).to_be_visible()
    # A key that comes before the list has the focus is nobody's.
    page.wait_for_function("document.activeElement.closest('[role=listbox], [role=menu]')")
    step_to(page, wanted, "ArrowDown")
    page.keyboard.press("Enter")


def step_to(page: Page, target: Locator, key: str) -> None:
    """Press a key until something has the focus."""
    for _ in range(FAR):
        if target.evaluate(HAS_FOCUS):
            return
        page.evaluate("window.focusBefore = document.activeElement")
        page.keyboard.press(key)
        if key != "Tab":
            # Lists move the focus a moment after the key, and have an end.
            with suppress(PlaywrightTimeout):
                page.wait_for_function("document.activeElement !== window.focusBefore", timeout=2_000)
    raise AssertionError(f"no number of {key} leads there")


def choose(page: Page, chosen: Locator, wanted: Locator) -> None:
    """Walk to what is chosen of a few, and from there with the arrows to another one."""
    reach(page, chosen)
    step_to(page, wanted, "ArrowRight")
    page.keyboard.press("Space")
    expect(wanted).to_be_checked()


def row(page: Page, name: str) -> Locator:
    return page.locator("tr[data-row]", has=page.get_by_role("link", name=name, exact=True))


def act_on_row(page: Page, name: str, item: str) -> Locator:
    """Walk to a row, open its menu and choose; returns the question."""
    reach(page, row(page, name).get_by_role("link", name=name, exact=True))
    page.keyboard.press(".")
    choose_below(page, item)
    question = page.get_by_role("alertdialog", name=re.compile(f"^{item} {name}"))
    expect(question).to_be_visible()
    return question


def sign_in_as(page: Page, email: str, button: str) -> None:
    """Fill in the card and send it."""
    write(page, page.get_by_label("Email"), email)
    if button == "Sign in":
        page.keyboard.press("Enter")
        expect(page.get_by_label("Password")).to_be_focused()
    write(page, page.get_by_label("Password"), PASSWORD)
    press(page, page.get_by_role("button", name=button, exact=True))


def test_an_account_and_its_organisation_are_created_left_and_entered_again(
    product: Product, chromium: Browser
) -> None:
    email = f"newcomer-{uuid.uuid4().hex[:8]}@example.com"
    page = chromium.new_page(base_url=product.url)
    page.goto("/login")
    press(page, page.get_by_role("link", name="Create account"))
    page.wait_for_url(re.compile("/sign-up"))
    sign_in_as(page, email, "Create account")
    page.wait_for_url(re.compile("/welcome"))
    write(page, page.get_by_label("Name"), email.partition("@")[0])
    press(page, page.get_by_role("button", name="Create organisation"))
    page.wait_for_url(re.compile("/runners"))
    pick(page, page.get_by_role("button", name=re.compile(f"^{email}")), "Sign out")
    page.wait_for_url(re.compile("/login"))
    sign_in_as(page, email, "Sign in")
    page.wait_for_url(re.compile("/runners"))
    page.close()


def test_a_first_runner_is_registered_and_its_token_copied(product: Product, person: Person, page: Page) -> None:
    product.runner(person, "taken")
    go(page, "/dashboard/runners")
    page.keyboard.press("n")
    sheet = page.get_by_role("dialog", name="Add runner")
    write(page, sheet.get_by_label("Name", exact=True), "taken")
    page.keyboard.press("Enter")
    expect(sheet.locator("#runner-name-hint")).to_contain_text("already a runner")
    expect(page.locator("[data-sonner-toast]")).to_have_count(0)
    write(page, sheet.get_by_label("Name", exact=True), "by-keys")
    page.keyboard.press("Enter")
    expect(sheet.get_by_test_id("registered")).to_be_visible()
    press(page, sheet.get_by_role("button", name="Copy the token"))
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    expect(row(page, "by-keys")).to_be_visible()


@pytest.mark.slow
def test_a_runner_is_drained_and_removed(product: Product, person: Person, page: Page) -> None:
    product.runner(person, "spare")
    go(page, "/dashboard/runners")
    question = act_on_row(page, "spare", "Drain")
    expect(question).to_contain_text("takes no new ones")
    write(page, question.get_by_label("Reason"), "Host maintenance")
    press(page, question.get_by_role("button", name="Drain"))
    expect(question).to_be_hidden()
    expect(row(page, "spare")).to_contain_text("Host maintenance")
    press(page, row(page, "spare").get_by_role("button", name="Resume"))
    expect(row(page, "spare")).not_to_contain_text("Host maintenance")
    question = act_on_row(page, "spare", "Remove")
    act = question.get_by_role("button", name="Remove runner")
    expect(act).to_be_disabled()
    write(page, question.get_by_label("Type spare to confirm"), "spare")
    press(page, act)
    expect(question).to_be_hidden()
    expect(row(page, "spare")).to_have_count(0)


def test_a_module_is_created_and_planned_and_a_job_cancelled(product: Product, person: Person, page: Page) -> None:
    go(page, "/dashboard/modules")
    expect(page.get_by_role("button", name=re.compile(r"^New( module)?$"))).to_be_visible()
    page.keyboard.press("n")
    sheet, menu = page.get_by_role("dialog", name="New module"), page.get_by_role("menuitem", name="Module")
    expect(sheet.or_(menu)).to_be_visible()
    if menu.is_visible():
        page.keyboard.press("Enter")
    write(page, sheet.get_by_label("Group", exact=True), "platform/keys")
    write(page, sheet.get_by_label("Name", exact=True), "vpc")
    choose(page, sheet.get_by_role("radio", name="Git"), sheet.get_by_role("radio", name="Inline"))
    press(page, sheet.get_by_role("button", name="Create module"))
    expect(page.get_by_role("heading", name="vpc")).to_be_visible()
    press(page, page.get_by_role("button", name="Plan", exact=True))
    page.wait_for_url(re.compile(r"/jobs/\d+"))
    # One that no runner takes meanwhile.
    number = enqueue(product, person, make_module(product, person, "keys/gpu", labels=["gpu=true"]), "PLAN")
    go(page, f"/dashboard/jobs/{number}")
    press(page, page.get_by_role("button", name="Cancel", exact=True))
    expect(status(page)).to_have_attribute("data-status", "CANCELLED")


@pytest.mark.slow
def test_a_plan_is_reviewed_and_confirmed_and_the_apply_is_stopped(
    product: Product, person: Person, runner: ScriptedRunner, page: Page
) -> None:
    module = make_module(product, person, "payments/queue")
    go(page, f"/dashboard/modules?module={module}")
    press(page, page.get_by_role("button", name="Apply", exact=True))
    press(page, page.get_by_test_id("run"))
    page.wait_for_url(re.compile(r"/jobs/\d+"))
    runner.finish(runner.claim(int(page.url.rsplit("/", 1)[1])), "SUCCEEDED", summary=SUMMARY)
    confirm, question = page.get_by_test_id("confirm"), page.get_by_role("alertdialog")
    expect(confirm).to_be_visible()
    page.keyboard.press("d")
    expect(question).to_be_visible()
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    waiting = page.url
    other = make_module(product, person, "keys/else", labels=["gpu=true"])
    # From any other page of a job the key leads to the one that waits; on that page there is no other.
    page.keyboard.press("u")
    expect(page.get_by_text("Nothing else needs you")).to_be_visible()
    go(page, f"/dashboard/jobs/{enqueue(product, person, other, 'PLAN')}")
    expect(status(page)).to_be_visible()
    page.keyboard.press("u")
    page.wait_for_url(waiting)
    expect(confirm).to_be_visible()
    page.keyboard.press("c")
    expect(confirm).to_be_focused()
    page.keyboard.press("Enter")
    expect(status(page)).to_have_attribute("data-status", "QUEUED")
    runner.report(runner.claim(), "APPLY", [{**STEP, "name": "apply", "title": "Apply", "phase": "APPLY"}])
    expect(status(page)).to_have_attribute("data-status", "PROCESSING")
    pick(page, page.get_by_role("button", name="Cancel"), "After this step")
    expect(page.locator(".ry-head .ry-why")).to_be_visible()


@pytest.mark.slow
def test_a_schedule_and_a_rule_are_created(product: Product, person: Person, page: Page) -> None:
    make_module(product, person, "clock/work")
    go(page, "/dashboard/jobs/schedules")
    press(page, page.get_by_role("button", name="Create schedule"))
    sheet = page.get_by_role("dialog", name="Create schedule")
    write(page, sheet.get_by_label("Cron"), "0 6 * * mon")
    write(page, sheet.get_by_label("Module or group"), "clock/work")
    press(page, sheet.get_by_role("button", name="Create schedule"))
    expect(page.get_by_role("row").filter(has_text="clock/work")).to_be_visible()

    go(page, f"{SETTINGS}/notifications")
    press(page, page.get_by_role("button", name="Create rule").first)
    sheet = page.get_by_role("dialog", name="Create rule")
    pick(page, sheet.get_by_role("combobox", name="Where"), "Email")
    write(page, sheet.get_by_label("Address"), "oncall@example.org")
    press(page, sheet.get_by_role("button", name="Create rule"))
    expect(page.get_by_role("row").filter(has_text="oncall@example.org")).to_be_visible()


def test_the_palette_keeps_text_typed_before_it_opens_and_closes_on_a_reload(
    product: Product, person: Person, page: Page
) -> None:
    made = product.runner(person, "node-nine")
    go(page, f"/dashboard/runners/{made['id']}")
    expect(page.get_by_role("heading", name="node-nine")).to_be_visible()
    go(page, "/dashboard/runners")
    # "n" alone would open a sheet on this page, and no moment is left for the dialog to open.
    page.keyboard.press("Control+k")
    page.keyboard.type("nod")
    palette = page.get_by_test_id("palette")
    expect(palette.get_by_role("combobox")).to_have_value(re.compile("^nod"))
    page.keyboard.type("e-nine")
    found = palette.get_by_role("group", name="Runners").get_by_role("option", name=re.compile("node-nine"))
    expect(found).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("dialog", name="Add runner")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(palette).to_be_hidden()
    page.keyboard.press("Control+k")
    expect(palette).to_be_visible()
    go(page, "/dashboard/runners")
    expect(palette).to_have_count(0)


def test_the_palette_presses_a_button_on_its_own_page_even_if_that_page_loads_late(chromium: Browser) -> None:
    page, left = chromium.new_page(), page_with("left")
    page.route("http://runyard.test/**", lambda route: route.fulfill(body=left, content_type="text/html"))
    page.goto("http://runyard.test/dashboard/jobs")
    # Its patience is in seconds, and a busy machine's frames may take as many.
    page.evaluate("Date.now = () => 0")
    page.add_script_tag(path=PROJECT / "assets" / "palette.js")
    page.get_by_role("link", name="Add runner").click()
    page.evaluate(FRAMES, 30)
    page.evaluate("history.pushState(null, '', '/dashboard/runners/')")
    page.evaluate(FRAMES, 15)
    expect(page.locator("#left[data-pressed]")).to_have_count(0)
    page.evaluate("(html) => { document.body.innerHTML = html }", page_with("there"))
    expect(page.locator("#there[data-pressed]")).to_have_count(1)
    page.close()


def page_with(name: str) -> str:
    """A page with its own N, and a line of the palette that leads to another one."""
    key = f"""<button id="{name}" data-key="n" onclick="this.dataset.pressed = 'yes'">New</button>"""
    line = '<a href="/dashboard/runners" data-pal data-then="n" onclick="event.preventDefault()">Add runner</a>'
    return f'<body><div class="ry-page">{key}</div>{line}</body>'


# Last: a new password ends the other sessions of the person, and with them the token that other tests use.
@pytest.mark.slow
def test_a_member_is_invited_and_a_password_changed(page: Page) -> None:
    go(page, f"{SETTINGS}/members")
    press(page, page.get_by_role("button", name="Invite"))
    dialog = page.get_by_role("dialog")
    write(page, dialog.get_by_label(re.compile("E-?mail")), "colleague@example.org")
    press(page, dialog.get_by_role("button", name="Create invite link"))
    press(page, dialog.get_by_role("button", name="Done"))
    expect(page.get_by_role("row").filter(has_text="colleague@example.org")).to_be_visible()

    go(page, "/dashboard/account")
    press(page, page.get_by_role("button", name="Change password"))
    dialog = page.get_by_role("alertdialog", name="Change password")
    write(page, dialog.get_by_label("Current password"), PASSWORD)
    write(page, dialog.get_by_label("New password", exact=True), "another-horse-battery")
    write(page, dialog.get_by_label("New password again"), "another-horse-battery")
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
