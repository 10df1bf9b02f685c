"""Accounts in a real browser: a forgotten password, an invitation of somebody new, another organisation."""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress

import httpx
import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, expect

from tests.e2e.product import PASSWORD, Person, Product
from tests.e2e.test_accessibility import findings
from tests.support.browser import LATER, Tabs
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)
FLEET = re.compile("/runners")
# The person's own mail program would open here.
CATCH_MAIL = """addEventListener("click", (event) => {
  if (!event.target.href?.startsWith("mailto:")) return;
  window.mailed = event.target.href;
  event.preventDefault();
})"""


@pytest.fixture
def browse(tabs: Tabs) -> Iterator[Callable[[], Page]]:
    """Somebody at a browser of their own, who has never been here."""
    yield tabs.open
    tabs.clear()


def fill_in(page: Page, email: str, password: str, button: str) -> None:
    page.get_by_label("Email").fill(email)
    if button == "Sign in":
        page.get_by_label("Email").press("Enter")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name=button).click()


def sign_in(page: Page, person: Person) -> None:
    page.goto("/login")
    fill_in(page, person.email, person.password, "Sign in")
    page.wait_for_url(FLEET)


def mailed_link(product: Product, email: str) -> str:
    """The link of the newest mail to an address, as `runyard mail` shows it."""
    told = product.stack.run("mail").stdout
    found = re.search(rf"for {re.escape(email)}\s+(\S+)", told)
    return found[1] if found else ""


def test_a_forgotten_password_is_replaced_by_the_link_in_the_mail(product: Product, browse: Callable[[], Page]) -> None:
    person, page, open_before = product.person("absent"), browse(), browse()
    sign_in(open_before, person)
    page.goto("/login")
    page.get_by_label("Email").fill(person.email)
    page.get_by_label("Email").press("Enter")
    page.get_by_role("link", name="Forgot password?").click()
    expect(page.get_by_role("heading", name="Reset your password")).to_be_visible()
    expect(page.get_by_label("Email")).to_have_value(person.email)
    page.get_by_role("button", name="Send link").click()
    expect(page.locator("[data-done]")).to_be_visible()

    link = wait_until(lambda: mailed_link(product, person.email))
    page.goto(link)
    page.get_by_label("New password").fill("another-horse-battery")
    page.get_by_role("button", name="Set password").click()
    page.wait_for_url(FLEET)
    expect(page.get_by_role("button", name=re.compile(person.org_name))).to_be_visible()
    assert open_before.request.get("/api/audit.csv").status == 401, "the other sessions have ended"
    with suppress(PlaywrightError):  # it may be on its way there already
        open_before.reload()
    open_before.wait_for_url(re.compile("/login"))

    elsewhere = open_before
    elsewhere.goto("/login")
    fill_in(elsewhere, person.email, person.password, "Sign in")
    expect(elsewhere.locator("[data-problem]")).to_be_visible()
    fill_in(elsewhere, person.email, "another-horse-battery", "Sign in")
    elsewhere.wait_for_url(FLEET)

    elsewhere.goto(link)
    elsewhere.get_by_label("New password").fill("a-third-horse-battery")
    elsewhere.get_by_role("button", name="Set password").click()
    expect(elsewhere.locator("[data-problem]")).to_be_visible()


def test_the_forgotten_password_page_does_not_reveal_whether_an_account_exists(
    product: Product, browse: Callable[[], Page]
) -> None:
    page, stranger = browse(), f"nobody-{uuid.uuid4().hex[:8]}@example.com"
    page.goto("/forgotten")
    page.get_by_label("Email").fill(stranger)
    page.get_by_role("button", name="Send link").click()
    expect(page.locator("[data-done]")).to_be_visible()
    assert mailed_link(product, stranger) == ""


def invite(page: Page, email: str, role: str) -> str:
    """Invite a member as a person would, and return the link that the mail would carry."""
    page.goto("/dashboard/settings/members")
    page.get_by_role("button", name="Invite").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Email").fill(email)
    dialog.get_by_role("combobox", name="Role").click()
    page.get_by_role("option", name=re.compile(f"^{role}")).click()
    dialog.get_by_role("button", name="Create invite link").click()
    expect(dialog.get_by_text(re.compile("/invite#"))).to_be_visible()
    # New content gives the focus to the dialog itself: no ring around all of it.
    page.keyboard.press("Tab")
    focused = "el => { el.focus(); return [el.matches(':focus-visible'), getComputedStyle(el).outlineStyle]; }"
    assert dialog.evaluate(focused) == [True, "none"]
    page.evaluate(CATCH_MAIL)
    dialog.get_by_role("button", name="Compose email").click()
    address = str(page.evaluate("decodeURIComponent(window.mailed)"))
    assert address.startswith(f"mailto:{email}?")
    found = re.search(r"https?://\S+/invite#\S+", address)
    assert found is not None
    return found[0]


def test_a_new_person_is_invited_and_has_the_rights_of_their_role(product: Product, browse: Callable[[], Page]) -> None:
    owner = product.person("host")
    product.runner(owner, "prod-eu")
    host, guest, email = browse(), browse(), f"guest-{uuid.uuid4().hex[:8]}@example.com"
    sign_in(host, owner)
    link = invite(host, email, "Viewer")

    guest.goto(link)
    guest.wait_for_url(lambda url: "#" not in url)
    offer = f"{email} is invited by {owner.email} to join {owner.org_name} as viewer."
    expect(guest.get_by_text(offer).locator("visible=true")).to_be_visible()
    assert findings(guest) == []
    guest.get_by_label("Choose a password").fill("short")
    guest.get_by_role("button", name="Create account and join").click()
    guest.get_by_label("Choose a password").fill(PASSWORD)
    guest.get_by_role("button", name="Create account and join").click()
    guest.wait_for_url(FLEET)

    expect(guest.get_by_role("button", name=re.compile(owner.org_name))).to_be_visible()
    expect(guest.get_by_role("link", name="prod-eu")).to_be_visible()
    expect(guest.get_by_role("button", name="Add runner")).to_have_count(0)
    expect(guest.get_by_role("button", name="More actions for prod-eu")).to_have_count(0)
    member = host.locator("tr", has_text=email)
    host.get_by_role("button", name="Done").click()
    expect(member.get_by_test_id("invited")).to_be_hidden()

    member.get_by_role("combobox").click()
    host.get_by_role("option", name="Admin").click()
    expect(host.locator("[data-sonner-toast][data-type=success]")).to_be_visible()
    guest.reload()
    expect(guest.get_by_role("button", name="Add runner").first).to_be_visible()


def test_sessions_are_listed_and_other_browsers_can_be_signed_out(product: Product, browse: Callable[[], Page]) -> None:
    person, page, elsewhere = product.person("browsers"), browse(), browse()
    sign_in(page, person)
    sign_in(elsewhere, person)
    elsewhere.goto("/dashboard/jobs")
    page.goto("/dashboard/account")
    rows, asked = page.get_by_test_id("session"), page.get_by_role("alertdialog")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("This one")
    expect(rows.first).to_contain_text("Chrome on")
    expect(rows.first.get_by_role("button")).to_have_count(0)
    assert findings(page) == []

    rows.nth(1).get_by_role("button").click()
    asked.get_by_role("button", name="Cancel").click()
    expect(asked).to_have_count(0)
    expect(rows).to_have_count(2)
    rows.nth(1).get_by_role("button").click()
    expect(asked).to_be_visible()
    assert findings(page) == []
    asked.get_by_role("button", name="Sign out").click()
    expect(rows).to_have_count(1)
    # Its open page leaves automatically, gives the reason, and returns after the sign-in.
    elsewhere.wait_for_url(re.compile("/login"), timeout=LATER)
    expect(elsewhere.get_by_text("Your session has ended.")).to_be_visible()
    fill_in(elsewhere, person.email, person.password, "Sign in")
    elsewhere.wait_for_url(re.compile("/jobs"))
    page.reload()
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Sign out all others").click()
    asked.get_by_role("button", name="Sign out all others").click()
    expect(rows).to_have_count(1)
    elsewhere.goto("/dashboard/runners")
    elsewhere.wait_for_url(re.compile("/login"))


def test_an_invitation_is_for_its_address_only(product: Product, browse: Callable[[], Page]) -> None:
    owner, other = product.person("host"), product.person("other")
    host, page = browse(), browse()
    sign_in(host, owner)
    link = invite(host, f"guest-{uuid.uuid4().hex[:8]}@example.com", "Operator")
    sign_in(page, other)
    page.goto(link)
    page.get_by_role("button", name="Accept the invitation").click()
    problem = page.locator("form[data-auth=accept] [data-problem]")
    expect(problem).to_be_visible()
    expect(problem).to_contain_text("This invitation is for another email address.")
    assert product.sql("select count(*) from memberships where org_id = %s", owner.org_id) == [(1,)]


def test_a_link_that_lacks_a_part_invites_nobody(browse: Callable[[], Page]) -> None:
    page = browse()
    accept, incomplete = page.get_by_role("button", name="Accept the invitation"), page.get_by_test_id("no-invitation")
    for part in ("", "#9f0c"):
        page.goto(f"/invite{part}")
        expect(incomplete).to_be_visible()
        expect(accept).to_be_hidden()
    page.goto("/invite#9f0c.token")
    expect(page.get_by_text("This invitation is not valid, or no longer.").locator("visible=true")).to_be_visible()
    expect(accept).to_be_hidden()
    expect(incomplete).to_be_hidden()


def test_an_invited_person_with_an_account_signs_in_and_accepts(product: Product, browse: Callable[[], Page]) -> None:
    owner, known = product.person("host"), product.person("known")
    host, page = browse(), browse()
    sign_in(host, owner)
    page.goto(invite(host, known.email, "Operator"))
    page.get_by_label("Choose a password").fill(PASSWORD)
    page.get_by_role("button", name="Create account and join").click()
    problem = page.locator("form[data-auth=join] [data-problem]")
    expect(problem).to_contain_text(f"{known.email} has an account already.")
    page.get_by_role("link", name="Sign in").click()
    fill_in(page, known.email, known.password, "Sign in")
    page.get_by_role("button", name="Accept the invitation").click()
    page.wait_for_url(FLEET)
    expect(page.get_by_role("button", name=re.compile(owner.org_name))).to_be_visible()


@pytest.fixture
def only_owners_make_organisations(product: Product) -> Iterator[None]:
    say = "update private.installation set organization_makers = %s"
    product.sql(say, "OWNERS")
    yield
    product.sql(say, "EVERYBODY")


def join(page: Page, name: str) -> None:
    """Create an account and arrive where a first organisation is made."""
    page.goto("/sign-up")
    fill_in(page, f"{name}-{uuid.uuid4().hex[:8]}@example.com", PASSWORD, "Create account")
    page.wait_for_url(re.compile("/welcome"))
    expect(page.get_by_role("heading", name="Create organisation")).to_be_visible()


def test_closed_sign_up_offers_no_form_and_names_the_way_in(product: Product, browse: Callable[[], Page]) -> None:
    """Auth of this stack is open: the page gets the answer that it gives where it is not."""
    assert httpx.get(f"{product.url}/auth/policy", timeout=60).json() == {"is_open": True}
    page = browse()
    page.route("**/auth/policy", lambda route: route.fulfill(json={"is_open": False}))
    page.goto("/sign-up")
    expect(page.get_by_test_id("sign-up-closed")).to_contain_text("invitation")
    expect(page.get_by_role("button", name="Create account")).to_be_hidden()
    page.goto("/login")
    expect(page.get_by_text("Accounts are by invitation: ask an admin for a link.")).to_be_visible()
    expect(page.get_by_role("link", name="Create account")).to_be_hidden()


def test_a_new_account_makes_its_first_organisation(product: Product, browse: Callable[[], Page]) -> None:
    page, name = browse(), f"First {uuid.uuid4().hex[:8]}"
    join(page, "first")
    page.get_by_label("Name").fill("---")
    page.get_by_role("button", name="Create organisation").click()
    expect(page.get_by_role("alert").filter(has_text="A name needs a letter or a digit.")).to_be_visible()
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create organisation").click()
    page.wait_for_url(FLEET)
    expect(page.get_by_role("button", name=re.compile(name))).to_be_visible()


@pytest.mark.usefixtures("only_owners_make_organisations")
def test_a_person_who_may_not_make_organisations_is_referred_to_an_owner(
    product: Product, browse: Callable[[], Page]
) -> None:
    page = browse()
    join(page, "late")
    expect(page.get_by_text("Ask an owner to invite you.")).to_be_visible()
    expect(page.get_by_role("button", name="Create organisation")).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(re.compile("/login"))


def test_another_organisation_is_a_click_away_and_nothing_of_the_first_stays(
    product: Product, browse: Callable[[], Page]
) -> None:
    person = product.person("twice")
    slug = f"second-{uuid.uuid4().hex[:8]}"
    second = product.rpc(person.token, "create_organization", {"p_name": slug, "p_slug": slug})
    product.runner(person, "of-the-first")
    product.runner(Person(person.email, person.password, str(second["id"]), slug, person.token), "of-the-second")
    page = browse()
    sign_in(page, person)
    here, there = page.get_by_role("link", name="of-the-first"), page.get_by_role("link", name="of-the-second")
    expect(here.or_(there)).to_be_visible()
    for wanted, shown, hidden in ((person.org_name, here, there), (slug, there, here)):
        page.locator(".ry-org").click()
        # A switch loads the page again, even to the current organisation.
        with page.expect_event("domcontentloaded"):
            page.get_by_role("menuitem", name=wanted).click()
        expect(page.locator("[data-link=live]:visible")).to_be_visible()
        expect(page.locator(".ry-org")).to_contain_text(wanted)
        expect(shown).to_be_visible()
        expect(hidden).to_have_count(0)
    page.reload()
    expect(there).to_be_visible()
    product.runner(Person(person.email, person.password, str(second["id"]), slug, person.token), "live-here-too")
    expect(page.get_by_role("link", name="live-here-too")).to_be_visible()


def test_an_owner_deletes_an_empty_organisation(product: Product, browse: Callable[[], Page]) -> None:
    owner, page = product.person("closing"), browse()
    runner = product.runner(owner, "last-one")
    sign_in(page, owner)
    page.goto("/dashboard/settings/organisation")
    slug = str(product.sql("select slug from organizations where id = %s", owner.org_id)[0][0])
    opener = page.get_by_role("button", name="Delete organisation…")
    expect(opener).to_be_disabled()
    expect(page.get_by_text("It still has 0 modules and 1 runner.")).to_be_visible()
    product.sql("update workers set removed_at = now() where id = %s", runner["id"])
    opener.click()
    other = product.runner(owner, "came-late")
    asked = page.get_by_role("alertdialog")
    delete = asked.get_by_role("button", name="Delete organisation")
    expect(delete).to_be_disabled()
    asked.get_by_label(re.compile("to confirm")).fill(slug)
    assert findings(page) == []
    delete.click()
    expect(page.get_by_text("The organisation still has modules (0) or runners (1).")).to_be_visible()
    product.sql("update workers set removed_at = now() where id = %s", other["id"])
    delete.click()
    page.wait_for_url(re.compile("/welcome"))
    assert product.sql("select deleted_at is not null from organizations where slug = %s", slug) == [(True,)]
