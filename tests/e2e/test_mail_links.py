"""Links in mails as hosted Auth writes them: by way of /auth/v1/verify, with a session after the #."""

import re
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.product import PASSWORD, Person, Product
from tests.support.browser import kept_back

pytestmark = pytest.mark.timeout(900)
Open = Callable[[], tuple[Page, list[str]]]


@pytest.fixture
def browse(product: Product, chromium: Browser) -> Iterator[Open]:
    """A browser, and everything that it sends over its websockets."""
    opened = []

    def page() -> tuple[Page, list[str]]:
        context = chromium.new_context(base_url=product.url)
        opened.append(context)
        page, said = context.new_page(), list[str]()
        page.on("websocket", lambda socket: socket.on("framesent", lambda frame: said.append(str(frame))))
        return page, said

    yield page
    for context in opened:
        context.close()


def recovery_link(product: Product, person: Person, page: str) -> str:
    """The link of a mail as hosted writes it: to Auth first."""
    key = product.stack.secret_key
    answer = httpx.post(
        f"{product.stack.url}/auth/v1/admin/generate_link",
        json={"type": "recovery", "email": person.email, "redirect_to": f"{product.url}{page}"},
        headers={"apikey": key, "Authorization": f"Bearer {key}"},
        timeout=60,
    )
    assert answer.is_success, answer.text
    return str(answer.json()["action_link"])


@pytest.mark.parametrize("landing", ["/reset-password", ""])
def test_a_session_after_the_hash_sets_a_password_and_stays_out_of_every_frame(
    product: Product, browse: Open, landing: str
) -> None:
    """If a project does not list the page, Auth sends people to the bare address instead."""
    person = product.person("mail")
    page, said = browse()
    answers: list[str] = []
    page.on("response", lambda answer: answers.append(answer.headers.get("location", "")))
    page.goto(recovery_link(product, person, landing))
    page.wait_for_url(re.compile("/reset-password/?$"))
    [carried] = [place for place in answers if "access_token" in place]
    session = parse_qs(urlsplit(carried).fragment)
    page.get_by_label("New password").fill("another-horse-battery")
    page.get_by_role("button", name="Set password").click()
    page.wait_for_url(re.compile("/runners"))
    expect(page.get_by_test_id("no-runners")).to_be_visible()
    assert said
    for name in ("access_token", "refresh_token"):
        assert not [frame for frame in said if session[name][0] in frame]
    held = page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")
    assert session["refresh_token"][0] not in held
    assert product.cookie(Person(person.email, "another-horse-battery", person.org_id, person.org_name, ""))


def test_a_code_in_the_query_stays_out_of_every_frame_too(product: Product, browse: Open) -> None:
    page, said = browse()
    page.goto("/reset-password?token_hash=not-a-real-code&type=recovery")
    page.wait_for_url(re.compile("/reset-password/?$"))
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_role("button", name="Set password").click()
    expect(page.locator("[data-problem]")).to_be_visible()
    assert not [frame for frame in said if "not-a-real-code" in frame]


def test_a_link_that_auth_refused_leads_to_a_new_one(product: Product, browse: Open) -> None:
    page, _ = browse()
    person = product.person("late")
    link = recovery_link(product, person, "/reset-password")
    httpx.get(link, timeout=60)
    page.goto(link)
    page.wait_for_url(re.compile("/forgotten/?$"))
    expect(page.get_by_text("This link is no longer valid. Ask for a new one.")).to_be_visible()
    expect(page.get_by_role("button", name="Send link")).to_be_visible()


def test_a_confirmed_address_signs_nobody_in_by_its_link(product: Product, browse: Open) -> None:
    """The address is clean before any other script has run: none of them is needed for it."""
    page, said = browse()
    page.route("**/runyard.js", lambda route: route.abort())
    fragment = urlencode({"access_token": "made-up-access", "refresh_token": "made-up-refresh", "type": "signup"})
    with page.expect_websocket() as opened:
        page.goto(f"/login#{fragment}")
    page.wait_for_url(re.compile("/login/?$"))
    expect(page.get_by_text("Your address is confirmed. Sign in.")).to_be_visible()
    assert page.context.cookies() == []
    if not any("hydrate" in frame for frame in said):
        opened.value.wait_for_event("framesent", lambda frame: "hydrate" in str(frame))
    assert not [frame for frame in said if "made-up" in frame]


def test_an_error_stays_visible_when_the_rest_of_the_page_loads(product: Product, browse: Open) -> None:
    """Forms work before the page's own scripts are loaded; these must not remove an error shown or text typed meanwhile."""
    page, _ = browse()
    problem = page.locator("[data-problem]")
    with kept_back(page, re.compile(r"/assets/entry\.client-")):
        page.goto("/login", wait_until="domcontentloaded")
        page.get_by_label("Email").fill("nobody@example.com")
        page.get_by_label("Email").press("Enter")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        expect(problem).to_contain_text("password")
    page.wait_for_function("window.runyard.isListening(document.querySelector('form'))")
    expect(problem).to_contain_text("password")
    expect(page.get_by_label("Email")).to_have_value("nobody@example.com")
