"""Every page under axe, light and dark: no finding that is serious or critical."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_work_pages import STEP, SUMMARY, enqueue, make_module
from tests.support.browser import settled, what_stays
from tests.support.extent import sampled
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(900)
PUBLIC = ("/login", "/sign-up", "/forgotten", "/reset-password", "/invite")
PAGES = {
    "/dashboard/runners": "lively",
    "/dashboard/runners/{runner}": "Assignments",
    "/dashboard/jobs": "payments/ledger",
    "/dashboard/jobs/{waiting}": "Why is it waiting?",
    "/dashboard/jobs/{running}": "Timeline",
    "/dashboard/jobs/{lost}": "nobody knows how far it got",
    "/dashboard/jobs/{review}": "Confirm and apply",
    "/dashboard/modules?module={module}": "ledger",
    "/dashboard/modules?tab=runners&path=payments": "in the order they are tried",
    "/dashboard/figures": "Queue wait",
    "/dashboard/events": "payments/ledger",
    "/dashboard/account": "Sign-in",
    "/dashboard/settings/members": "Members",
    "/dashboard/settings/cloud-identities": "Cloud identities",
    "/dashboard/settings/service-accounts": "k8s-runner",
    "/dashboard/runners/versions": "Releases",
    "/dashboard/settings/audit": "Audit log",
    "/dashboard/settings/organisation": "Organisation",
    "/welcome": "organisation",
}


@pytest.fixture(scope="module")
def person(product: Product) -> Person:
    return product.person("axe")


@pytest.fixture(scope="module")
def things(product: Product, person: Person) -> dict[str, Any]:
    """One of everything that a page can show: a waiting job, a running one with a log and a plan, a lost one."""
    runner = ScriptedRunner(product, person, "lively")
    module = make_module(product, person, "payments/ledger")
    lost = runner.claim(enqueue(product, person, make_module(product, person, "payments/db"), "APPLY"))
    runner.report(lost, "APPLY", [{**STEP, "name": "apply", "title": "Apply", "phase": "APPLY"}])
    runner.lock(lost)
    runner.vanish(lost)
    running = runner.claim(enqueue(product, person, module, "PLAN"))
    runner.report(running, "PLAN", [STEP])
    runner.log(running, 1, "plan", "\x1b[32mterraform_data.one\x1b[0m will be created\n\x1b[31mError\x1b[0m: none\n")
    planned = runner.claim(enqueue(product, person, make_module(product, person, "payments/cdn"), "PLAN"))
    runner.finish(planned, "SUCCEEDED", summary=SUMMARY)
    to_review = runner.claim(
        enqueue(product, person, make_module(product, person, "payments/queue"), "PLAN", confirm=True)
    )
    runner.finish(to_review, "SUCCEEDED", summary=SUMMARY)
    waiting = enqueue(product, person, make_module(product, person, "payments/gpu", labels=["gpu=true"]), "PLAN")
    spec = {
        "name": "k8s-runner",
        "trusts": [{"issuer": "https://oidc.example.com", "audience": "runyard", "bound_claims": {"sub": "x"}}],
    }
    product.rpc(person.token, "create_service_account", {"p_org": person.org_id, "p_spec": spec})
    product.runner(person, "silent")
    return {
        "runner": runner.worker["id"],
        "module": module,
        "lost": lost["number"],
        "running": running["number"],
        "waiting": waiting,
        "review": to_review["number"],
    }


@pytest.fixture
def page(person: Person, open_as: Callable[..., Page]) -> Page:
    return open_as(person, reduced_motion="reduce")


# The rules that axe checks. Only colours differ between light and dark.
VIOLATIONS = {"resultTypes": ["violations"]}
OF_COLOURS = {**VIOLATIONS, "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
MODES: dict[Any, dict[str, Any]] = {"light": VIOLATIONS, "dark": OF_COLOURS}


def findings(page: Page, but: str = "", options: dict[str, Any] = VIOLATIONS) -> list[str]:
    """Findings that axe calls serious or critical, one line for each place, except those of one rule."""

    def look() -> list[str]:
        return [
            f"{item['impact']} {item['id']}: {node['target']} {node['html'][:200]} {node['any'][:1]}"
            for item in Axe().run(page, options=options).response["violations"]
            if item["impact"] in ("serious", "critical") and item["id"] != but
            for node in item["nodes"]
        ]

    return what_stays(page, look)


def findings_in_both(page: Page, but: str = "") -> list[str]:
    """Findings of axe in light and, for rules that depend on colours, in dark: an open page follows the system's setting."""
    found = []
    for mode, options in MODES.items():
        page.emulate_media(color_scheme=mode)
        expect(page.locator("html")).to_have_class(re.compile(rf"\b{mode}\b"))
        found += [f"{mode}: {each}" for each in findings(page, but, options)]
    return found


# A desk, where tables are widest for their room, 1280 at 200 %, a phone.
WIDTHS = (1440, 785, 721, 640, 390)
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


# A value that a row lacks, and text that ends in mid-word because a flex row in its cell has no dots.
SPOILT = """() => [...document.querySelectorAll('main *')].filter((el) => {
    const text = [...el.childNodes].filter((each) => each.nodeType === 3).map((each) => each.data).join('');
    if (/\\b(undefined|NaN|null)\\b/.test(text) && !el.closest('pre, ry-log')) return true;
    const cell = text.trim() && el.closest('.ry-row')?.closest('td');
    return cell && getComputedStyle(cell).overflowX === 'hidden'
        && el.getBoundingClientRect().right > cell.getBoundingClientRect().right + 1;
}).map((el) => el.textContent)"""


def sideways(page: Page) -> list[int]:
    """By how many pixels the page is wider than its window."""
    return what_stays(page, lambda: [over for over in [page.evaluate(SIDEWAYS)] if over > 0])


@pytest.mark.parametrize("path", sampled(PUBLIC, 2))
def test_a_page_for_everybody_has_no_serious_finding(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.get_by_role("heading").first).to_be_visible()
    assert findings_in_both(page) == []


@pytest.mark.parametrize("path", sampled(list(PAGES), 6))
def test_a_page_behind_the_sign_in_has_no_serious_finding_and_does_not_scroll_sideways(
    page: Page, things: dict[str, Any], path: str
) -> None:
    page.goto(path.format(**things))
    expect(page.get_by_text(PAGES[path]).first).to_be_visible()
    assert page.evaluate(LASTING) == []
    assert findings_in_both(page) == []
    assert what_stays(page, lambda: list(page.evaluate(SPOILT))) == []
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        found += [(width, over) for over in sideways(page)]
    assert found == []


def test_the_add_runner_sheet_has_no_serious_finding(page: Page, things: dict[str, Any]) -> None:
    page.goto("/dashboard/runners")
    page.get_by_role("button", name="Add runner").click()
    expect(page.get_by_role("dialog", name="Add runner").get_by_label("Capacity")).to_be_visible()
    assert findings_in_both(page) == []


def test_the_form_of_a_runner_has_no_serious_finding(page: Page, things: dict[str, Any]) -> None:
    page.goto(f"/dashboard/runners/{things['runner']}")
    page.get_by_role("button", name="Edit", exact=True).click()
    expect(page.get_by_role("dialog").get_by_label("Capacity")).to_be_visible()
    assert findings_in_both(page) == []


def test_the_run_dialog_with_its_options_has_no_serious_finding(page: Page, things: dict[str, Any]) -> None:
    page.goto(f"/dashboard/modules?module={things['module']}")
    page.get_by_role("button", name="Apply", exact=True).click()
    page.get_by_test_id("run-options").click()
    expect(page.get_by_label("Targets")).to_be_visible()
    assert findings_in_both(page) == []


# What is opened on a page, in the order it is pressed, and the role of what is open then.
OPENED = {
    "a runner's menu": ("/dashboard/runners", ["More actions for lively"], "menu"),
    "draining": ("/dashboard/runners", ["More actions for lively", "Drain"], "alertdialog"),
    "removing": ("/dashboard/runners", ["More actions for lively", "Remove"], "alertdialog"),
    "my menu": ("/dashboard/runners", [re.compile("^axe-.*@example.com")], "menu"),
    "the palette": ("/dashboard/runners", ["Search or run a command"], "dialog"),
    "a list": ("/dashboard/jobs", [("combobox", "Status")], "listbox"),
    "a module's menu": ("/dashboard/modules?module={module}", ["Module actions"], "menu"),
    "destroying": ("/dashboard/modules?module={module}", ["Module actions", "Destroy"], "alertdialog"),
    "a module's form": ("/dashboard/modules?module={module}", ["Module actions", "Edit"], "dialog"),
    "inviting": ("/dashboard/settings/members", ["Invite"], "dialog"),
    "a password": ("/dashboard/account", ["Change password"], "alertdialog"),
}


def open_on(page: Page, presses: list[Any], role: Any) -> Locator:
    """Press one thing after the other, the second in the menu that the first opened."""
    expect(page.locator("[data-link=live]:visible")).to_be_visible()
    for at, each in enumerate(presses):
        kind, name = each if isinstance(each, tuple) else ("menuitem" if at else "button", each)
        page.get_by_role(kind, name=name, exact=isinstance(name, str)).first.click()
    opened = page.locator(f"[role={role}][data-state=open]").last
    expect(opened).to_be_visible()
    settled(page)
    return opened


@pytest.mark.parametrize("what", sampled(list(OPENED), 3))
def test_dialogs_and_menus_over_a_page_have_no_serious_finding(page: Page, things: dict[str, Any], what: str) -> None:
    path, presses, role = OPENED[what]
    page.goto(path.format(**things))
    opened = open_on(page, presses, role)
    # Menus and lists hide the page behind them from readers, and keep the focus: axe sees only the first of the two.
    wait_until(lambda: opened.evaluate(HAS_FOCUS))
    page.keyboard.press("Tab")
    wait_until(lambda: opened.evaluate(HAS_FOCUS))
    assert findings_in_both(page, but="aria-hidden-focus" if role in ("menu", "listbox") else "") == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert what_stays(page, lambda: [over for over in [opened.evaluate(BESIDE)] if over > 0]) == []


HAS_FOCUS = "(el) => el.contains(document.activeElement)"
BESIDE = "(el) => Math.round(el.getBoundingClientRect().right - document.documentElement.clientWidth)"
# How many animations the mark of something that runs has, and those in the page that take time.
TURNING = """() => document.body.appendChild(Object.assign(document.createElement('i'), { className: 'ry-spin' }))
    .getAnimations().filter((each) => each.effect.getComputedTiming().duration > 1).length"""
LASTING = "document.getAnimations().map((each) => each.effect.getComputedTiming().duration).filter((ms) => ms > 1)"


def test_reduced_motion_stops_every_animation_and_a_spinner_turns_without_it(
    page: Page, things: dict[str, Any]
) -> None:
    page.goto("/dashboard/runners")
    expect(page.locator("[data-link=live]:visible")).to_be_visible()
    page.keyboard.press("n")
    expect(page.get_by_role("dialog", name="Add runner")).to_be_visible()
    assert page.evaluate(LASTING) == []
    assert page.evaluate(TURNING) == 0
    page.evaluate("document.addEventListener('transitionrun', () => document.body.dataset.moved = '')")
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_class(re.compile(r"\bdark\b"))
    expect(settled(page).locator("body[data-moved]")).to_have_count(0)
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(TURNING) == 1
