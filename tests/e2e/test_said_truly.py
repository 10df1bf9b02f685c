"""Pages show the latest and complete facts: last events, outdated plans, people and times, and the place of the focus."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from stack.settings import PROJECT
from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_work_pages import STEP, SUMMARY, enqueue, make_module, status

pytestmark = pytest.mark.timeout(600)
Opener = Callable[[Person], Page]


@pytest.fixture(scope="module")
def owner(product: Product) -> Person:
    return product.person("owner")


@pytest.fixture(scope="module")
def runner(product: Product, owner: Person) -> ScriptedRunner:
    return ScriptedRunner(product, owner, "build-1")


def keep_state(product: Product, module: str, serial: int, outputs: str = "{}") -> None:
    body = json.dumps({"outputs": json.loads(outputs), "resources": []})
    values = "(module_id, serial, body, sha256, job_id, attempt) values (%s, %s, %s, 'x', 1, 1)"
    product.sql(f"insert into private.state_versions {values}", module, serial, body)
    again = "on conflict (module_id) do update set serial = excluded.serial, body = excluded.body"
    product.sql(f"insert into private.states {values} {again}", module, serial, body)


def test_a_jobs_last_event_appears_live_and_an_outdated_plan_is_not_offered(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Opener
) -> None:
    module = make_module(product, owner, "truth/events")
    number = enqueue(product, owner, module, "PLAN")
    page = open_as(owner)
    page.goto(f"/dashboard/jobs/{number}")
    expect(status(page)).to_have_attribute("data-status", "QUEUED")
    job = runner.claim(number)
    runner.report(job, "PLAN", [STEP])
    expect(status(page)).to_have_attribute("data-status", "PROCESSING")
    page.evaluate("window.stillTheSamePage = true")
    runner.finish(job, "SUCCEEDED", summary=SUMMARY)
    newest = page.locator(".ry-ev li").first
    expect(newest).to_contain_text("Succeeded")
    assert page.evaluate("window.stillTheSamePage")
    expect(page.get_by_role("button", name="Apply this plan")).to_be_visible()

    keep_state(product, module, 9)
    # A state that a job writes reaches its page; this one has no job, so the page is left and opened again.
    page.goto("/dashboard/jobs")
    expect(page.locator("tr[data-row]").first).to_be_visible()
    page.goto(f"/dashboard/jobs/{number}")
    expect(page.get_by_test_id("plan-old")).to_contain_text("serial 9")
    expect(page.get_by_role("button", name="Plan again")).to_be_visible()
    expect(page.get_by_role("button", name="Apply this plan")).to_have_count(0)


def fact(page: Page, name: str) -> Locator:
    return page.locator(".ry-facts > div", has=page.get_by_text(name, exact=True))


def test_a_runner_that_left_shows_its_last_contact_and_the_person_who_registered_it(
    product: Product, owner: Person, open_as: Opener
) -> None:
    runner = ScriptedRunner(product, owner, "leaves")
    worker = runner.worker["id"]
    product.sql(
        "insert into worker_events (org_id, worker_id, event, reason) "
        "select org_id, id, 'online', 'Ready' from workers, generate_series(1, 30) where id = %s", worker
    )  # fmt: skip
    page = open_as(owner)
    page.goto(f"/dashboard/runners/{worker}")
    runner.heartbeat()
    expect(page.locator(".ry-head [data-status=ONLINE]").first).to_be_visible()
    runner.leave()
    for _ in ("as it leaves", "after a reload"):
        expect(page.locator(".ry-head [data-status=OFFLINE]").first).to_be_visible()
        expect(fact(page, "Last seen")).to_contain_text(re.compile(r"now|ago"))
        expect(fact(page, "Registered")).to_contain_text(f"by {owner.email}")
        page.reload()


def test_versions_whose_outputs_differ_are_not_called_the_same(
    product: Product, owner: Person, open_as: Opener
) -> None:
    module = make_module(product, owner, "truth/outputs")
    for serial in (1, 2):
        keep_state(product, module, serial, json.dumps({"url": {"value": f"https://{serial}.example"}}))
    page = open_as(owner)
    page.goto("/dashboard/modules?tab=state&path=truth/outputs")
    compare = page.get_by_role("button", name="Compare serial 2 with the one before")
    expect(compare).to_be_visible()
    expect(page.get_by_role("button", name="Compare serial 1 with the one before")).to_have_count(0)
    compare.click()
    expect(page.get_by_role("dialog").or_(page.get_by_role("alertdialog"))).to_contain_text("output.url")


HAS_FOCUS = "document.querySelector('[role=dialog], [role=alertdialog]')?.contains(document.activeElement)"


def test_a_dialog_of_the_modules_menus_has_the_focus(product: Product, owner: Person, open_as: Opener) -> None:
    module = make_module(product, owner, "truth/focus")
    page = open_as(owner)
    page.goto(f"/dashboard/modules?module={module}")
    for opener, item in (("Module actions", "Destroy"), ("New", "Module")):
        page.get_by_role("button", name=opener, exact=True).focus()
        page.keyboard.press("Enter")
        page.get_by_role("menuitem", name=item).first.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("menu")).to_be_hidden()
        page.wait_for_function(HAS_FOCUS)
        page.keyboard.press("Tab")
        page.wait_for_function(HAS_FOCUS)
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name=opener, exact=True)).to_be_focused()


def test_a_closed_dialog_gives_the_focus_back_to_the_button_that_opened_it(owner: Person, open_as: Opener) -> None:
    page = open_as(owner)
    places = {"settings/members": "Create team", "jobs/schedules": "Create schedule", "runners": "Add runner"}
    for path, name in places.items():
        page.goto(f"/dashboard/{path}")
        expect(page.locator("[data-link=live]:visible")).to_be_visible()
        button = page.get_by_role("main").get_by_role("button", name=name, exact=True).first
        button.focus()
        page.keyboard.press("Enter")
        page.wait_for_function(HAS_FOCUS)
        page.keyboard.press("Escape")
        expect(button).to_be_focused()


# Judged in the page as soon as the toast appears: it disappears after a while, and a busy machine may be slower.
JUDGE = """() => {
  const covered = (toast) => {
    const at = toast.getBoundingClientRect();
    const touches = (one) => one.right > at.left && one.left < at.right && one.bottom > at.top && one.top < at.bottom;
    const buttons = [...document.querySelectorAll('main button, main a.rt-Button, .ry-decide button')];
    const top = document.elementFromPoint(at.left + at.width / 2, at.top + at.height / 2);
    return { covers: buttons.filter((one) => touches(one.getBoundingClientRect())).map((one) => one.innerText),
             takes_clicks: toast.contains(top), font: getComputedStyle(toast).fontFamily };
  };
  window.judged = new Promise((done) => {
    const look = () => {
      const toast = document.querySelector('[data-sonner-toast][data-mounted=true]');
      toast ? done(covered(toast)) : requestAnimationFrame(look);
    };
    look();
  });
}"""


@pytest.mark.parametrize("width", [1440, 390])
def test_a_toast_is_ours_and_covers_no_button(product: Product, owner: Person, open_as: Opener, width: int) -> None:
    key = product.runner(owner, f"switched-off-{width}")["id"]
    page = open_as(owner)
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"/dashboard/runners/{key}")
    expect(page.get_by_role("switch", name="Several instances")).to_be_attached()
    page.evaluate(JUDGE)
    page.get_by_role("switch", name="Several instances").dispatch_event("click")
    judged = page.evaluate("window.judged")
    assert (judged["covers"], judged["takes_clicks"]) == ([], False)
    assert "Inter" in judged["font"]


def test_a_time_in_a_sentence_has_its_zone(chromium: Browser) -> None:
    now = datetime.now(UTC)
    page = chromium.new_page(timezone_id="UTC")
    times = "".join(f"<ry-ago mode='zoned' at='{(now + timedelta(days=n)).isoformat()}'></ry-ago>" for n in (-2, 2))
    page.set_content(times)
    page.add_script_tag(path=PROJECT / "assets" / "runyard.js")
    expect(page.locator("ry-ago")).to_have_text([re.compile(r"^\d+ [A-Z][a-z]+, \d\d:\d\d UTC$")] * 2)
    page.close()


def test_short_durations_are_shown_in_tenths_of_a_second(chromium: Browser) -> None:
    page, begun = chromium.new_page(), "2026-11-16T14:00:00.000Z"
    ends = ("14:00:00.420Z", "14:00:03.200Z", "14:00:12.900Z")
    page.set_content("".join(f"<ry-ago mode='for' at='{begun}' until='2026-11-16T{end}'></ry-ago>" for end in ends))
    page.add_script_tag(path=PROJECT / "assets" / "runyard.js")
    expect(page.locator("ry-ago")).to_have_text(["0.4 s", "3.2 s", "12 s"])
    page.close()
