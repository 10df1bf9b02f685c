"""Git in a real browser: connecting a repository, its deliveries, and what modules and jobs show of it."""

import hashlib
import json
import re
import uuid
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_accessibility import WIDTHS, sideways
from tests.e2e.test_triggers_pages import findings_anywhere
from tests.e2e.test_work_pages import make_module
from tests.support.webhooks import gitea, push_body

pytestmark = pytest.mark.timeout(900)
GIT = "/dashboard/settings/git"
TRIGGERS = "/dashboard/jobs/schedules"
URL = "https://git.example.com/infra/edge.git"
REPOSITORY = "git.example.com/infra/edge"
SEALED = "s1." + "x" * 60


def commit(number: int) -> str:
    return f"{number:07x}" + "0" * 33


@dataclass
class Site:
    """A connected repository with two modules that were read once."""

    product: Product
    person: Person
    runner: ScriptedRunner
    connection: str
    modules: dict[str, str]

    def push(self, number: int) -> None:
        event = {"delivery_id": str(uuid.uuid4()), "event": "push", "ref": "refs/heads/main", "sender": "ada"}
        event["after"] = commit(number)
        self.product.sql("select public.receive_git_delivery(%s, %s::jsonb)", self.connection, json.dumps(event))

    def read(self, number: int, **contents: str) -> None:
        """Report these contents of the branch at a commit, as the runner."""
        modules = [
            {"id": self.modules[name], "branch": "main", "commit": commit(number), "fingerprint": content}
            | {"watched": [name, "shared"]}
            for name, content in contents.items()
        ]
        commits = {commit(number): {"author": "Ada", "subject": "Widen the subnets"}}
        job = self.runner.claim()
        assert job["type"] == "RESOLVE"
        self.runner.finish(job, "SUCCEEDED", result={"git": {"modules": modules, "commits": commits}})


def make_modules(product: Product, person: Person) -> dict[str, str]:
    return {
        name: make_module(
            product,
            person,
            f"net/{name}",
            source_kind="git",
            source={"url": URL, "ref": "main", "subfolder": name},
        )
        for name in ("dns", "vpc")
    }


@pytest.fixture
def site(product: Product) -> Site:
    person = product.person("git")
    modules = make_modules(product, person)
    spec = {"provider": "gitea", "url": URL, "webhook_secret": SEALED, "poll_seconds": 0}
    made = product.rpc(person.token, "connect_repository", {"p_org": person.org_id, "p_spec": spec})
    found = Site(product, person, ScriptedRunner(product, person, "reader"), str(made["id"]), modules)
    found.push(1)
    found.read(1, dns="d1", vpc="v1")
    return found


def deliveries(page: Page) -> Locator:
    return page.get_by_role("region", name="Deliveries").locator("tr[data-row]")


def choose(page: Page, action: str) -> None:
    """Choose from the menu of the only repository."""
    page.get_by_role("button", name=f"More actions for {REPOSITORY}").click()
    page.get_by_role("menuitem", name=action).click()


def posted(address: str, secret: str, number: int = 7) -> int:
    body = push_body("main", commit(number))
    return httpx.post(address, content=body, headers=gitea(secret, body), timeout=60).status_code


def test_a_repository_is_connected_its_webhook_works_and_it_is_disconnected(product: Product, open_as: Any) -> None:
    person = product.person("connect")
    make_modules(product, person)
    page = open_as(person)
    page.goto(GIT)
    expect(page.get_by_test_id("empty").first).to_contain_text("No repositories yet")
    assert findings_anywhere(page, "git-empty") == []
    page.get_by_role("button", name="Connect repository").first.click()
    sheet = page.get_by_role("dialog", name="Connect repository")
    sheet.get_by_role("combobox", name="Provider").click()
    page.get_by_role("option", name="Gitea or Forgejo").click()
    sheet.get_by_label("Repository URL").fill("infra/edge")
    sheet.get_by_role("button", name="Connect").click()
    expect(sheet.get_by_test_id("error-url")).to_contain_text("https://git.example.com")
    assert findings_anywhere(page, "git-connect") == []
    sheet.get_by_label("Repository URL").fill(URL)
    sheet.get_by_role("button", name="Connect").click()

    webhook = page.get_by_role("alertdialog", name="Create the webhook at the provider")
    secret = webhook.get_by_test_id("webhook-secret")
    expect(secret).to_have_text(re.compile(r"^[\w-]{43}$"))
    expect(webhook.get_by_test_id("webhook-steps")).to_contain_text("type Gitea or Forgejo")
    assert findings_anywhere(page, "git-webhook") == []
    address = str(webhook.get_by_role("button", name="Copy the address").get_attribute("data-copy"))
    first = secret.inner_text()
    webhook.get_by_role("button", name="Done").click()
    row = page.get_by_role("row").filter(has_text=REPOSITORY).first
    expect(row).to_contain_text("2 modules")
    expect(row).to_contain_text("Not read yet")

    assert posted(address, first) == 202
    expect(deliveries(page)).to_have_attribute("data-verdict", "PENDING")
    expect(deliveries(page)).to_contain_text(commit(7)[:7])

    choose(page, "New secret")
    page.get_by_role("alertdialog").get_by_role("button", name="Replace secret").click()
    expect(secret).to_have_text(re.compile(r"^[\w-]{43}$"))
    assert (posted(address, first, 8), posted(address, secret.inner_text(), 8)) == (401, 202)
    webhook.get_by_role("button", name="Done").click()
    expect(deliveries(page)).to_have_count(2)

    choose(page, "Disconnect")
    page.get_by_role("alertdialog").get_by_role("button", name="Disconnect").click()
    expect(page.get_by_test_id("empty").first).to_contain_text("No repositories yet")


def test_deliveries_arrive_while_the_page_is_open_and_explain_each_module(site: Site, open_as: Any) -> None:
    page = open_as(site.person)
    page.goto(GIT)
    expect(deliveries(page)).to_have_attribute("data-verdict", "NOTHING")
    site.push(2)
    newest = deliveries(page).first
    expect(newest).to_have_attribute("data-verdict", "PENDING")
    site.read(2, dns="d1", vpc="v2")
    expect(newest).to_have_attribute("data-verdict", "PLANNED")
    newest.get_by_role("button", name=re.compile("^Why")).click()
    why = page.get_by_test_id("delivery-why")
    expect(why).to_contain_text("Planned 1 of 2 modules.")
    expect(why).to_contain_text("Caused by ada")
    expect(why.get_by_role("link", name="job #2")).to_be_visible()
    planned, same = why.locator("li[data-verdict=PLANNED]"), why.locator("li[data-verdict=NOTHING]")
    expect(planned).to_contain_text(f"Its folders changed at {commit(2)[:7]}.")
    expect(same).to_contain_text(f"Same content as {commit(1)[:7]}.")
    expect(same.get_by_role("link", name="net/dns")).to_be_visible()
    assert findings_anywhere(page, "git-deliveries") == []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert sideways(page) == [], width


def test_triggers_show_their_last_event_live_and_lead_to_it(site: Site, open_as: Any) -> None:
    schedule = {"path": "net", "type": "DRIFT", "cron": "0 2 * * *"}
    site.product.rpc(site.person.token, "create_schedule", {"p_org": site.person.org_id, "p_spec": schedule})
    page = open_as(site.person)
    page.goto(TRIGGERS)
    vpc = page.locator(f"tr[data-row='push:{site.modules['vpc']}']")
    expect(vpc).to_contain_text("Push to main")
    expect(vpc).to_contain_text(f"{REPOSITORY}: vpc, shared")
    expect(vpc).to_contain_text("Applied: after the merge")
    expect(vpc).to_contain_text("Nothing to plan")
    site.push(2)
    site.read(2, dns="d1", vpc="v2")
    expect(vpc).to_contain_text(f"{commit(2)[:7]} · job #3 · delivery")
    kinds = [row.get_attribute("data-kind") for row in page.locator("tr[data-row]").all()]
    assert kinds == ["schedule", "push", "pull_request", "push", "pull_request"]
    assert findings_anywhere(page, "triggers") == []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert sideways(page) == [], width

    page.get_by_role("textbox", name="Search triggers").fill("dns")
    expect(page.locator("tr[data-row]")).to_have_count(2)
    page.get_by_role("radio", name="Pushes").click()
    dns = page.locator("tr[data-row]")
    expect(dns).to_have_count(1)
    expect(dns).to_contain_text(f"Same content as {commit(1)[:7]}.")
    page.reload()
    expect(dns).to_have_count(1)
    dns.get_by_role("link", name="delivery").click()
    expect(page.get_by_test_id("delivery-why")).to_contain_text("Planned 1 of 2 modules.")


def test_a_repository_is_polled_on_request_and_less_often(site: Site, open_as: Any) -> None:
    page = open_as(site.person)
    page.goto(GIT)
    row = page.get_by_role("row").filter(has_text=REPOSITORY)
    expect(row).to_contain_text("not polled")
    choose(page, "Poll now")
    expect(page.get_by_text("Poll queued")).to_be_visible()
    site.read(2, dns="d1", vpc="v2")
    expect(deliveries(page).first).to_contain_text("Poll")
    choose(page, "Edit")
    sheet = page.get_by_role("dialog", name=f"Edit {REPOSITORY}")
    sheet.get_by_role("combobox", name="Poll").click()
    page.get_by_role("option", name="Every hour").click()
    sheet.get_by_label("API token").fill("a-token-of-the-provider")
    # Nobody listens there: a report that is tried leaves this machine alone.
    sheet.get_by_label("API address").fill("http://127.0.0.1:9")
    sheet.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("polled every hour")
    expect(row).to_contain_text("Gitea or Forgejo, reports")
    choose(page, "Remove API token")
    expect(row).to_contain_text("no reports: no API token")


def test_a_module_whose_folder_moved_follows_it_after_a_question(site: Site, open_as: Any) -> None:
    page = open_as(site.person)
    page.goto("/dashboard/modules?path=net/vpc")
    site.push(2)
    missing = {"id": site.modules["vpc"], "branch": "main", "commit": commit(2), "moved_to": "network"}
    site.runner.finish(site.runner.claim(), "SUCCEEDED", result={"git": {"modules": [missing]}})
    panel = page.get_by_role("region", name="Repository")
    expect(panel).to_contain_text('main has no folder "vpc". The same content is in "network".')
    panel.get_by_role("button", name="Use network").click()
    question = page.get_by_role("alertdialog")
    question.get_by_role("button", name="Cancel").click()
    expect(question).to_have_count(0)
    panel.get_by_role("button", name="Use network").click()
    assert findings_anywhere(page, "git-moved") == []
    page.get_by_role("alertdialog").get_by_role("button", name="Use this folder").click()
    expect(panel).not_to_contain_text("has no folder")
    folder = "select source ->> 'subfolder' from public.modules where id = %s"
    assert site.product.sql(folder, site.modules["vpc"])[0][0] == "network"


def change_following(page: Page, panel: Locator) -> None:
    """Change how the module follows its repository; a path outside of it is refused, and the form stays."""
    panel.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog", name="Repository")
    dialog.get_by_label("More paths").fill("shared\n../secrets")
    dialog.get_by_role("combobox", name="Applies").click()
    page.get_by_role("option", name="Before the merge").click()
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("is not a path inside of a repository")).to_be_visible()
    dialog.get_by_label("More paths").fill("shared\nmodules/subnets")
    dialog.get_by_role("button", name="Save").click()
    expect(panel).to_contain_text("Before the merge")
    expect(dialog).to_have_count(0)


def test_a_module_shows_its_repository_and_a_job_its_commit(site: Site, open_as: Any) -> None:
    page = open_as(site.person)
    page.goto("/dashboard/modules?path=net/vpc")
    panel = page.get_by_role("region", name="Repository")
    expect(panel).to_contain_text(REPOSITORY)
    expect(panel).to_contain_text(commit(1)[:7])
    site.push(2)
    site.read(2, dns="d1", vpc="v2")
    expect(panel).to_contain_text(commit(2)[:7])
    expect(panel).to_contain_text("shared")
    expect(panel).to_contain_text("None yet")
    assert findings_anywhere(page, "git-module") == []
    change_following(page, panel)
    plan = site.runner.claim()
    page.goto(f"/dashboard/jobs/{plan['number']}")
    facts = page.locator(".ry-facts")
    expect(facts).to_contain_text(f"{commit(2)[:7]} by Ada")
    assert findings_anywhere(page, "git-job") == []


def test_a_pull_request_has_a_page_where_it_is_reviewed_and_planned_again(site: Site, open_as: Any) -> None:
    pull = {
        "number": 7, "title": "Raise the size", "base": "main", "head_commit": commit(5), "head_branch": "raise-size",
        "is_fork": False, "is_draft": False, "is_open": True,
    }  # fmt: skip
    event = {"delivery_id": "pull", "event": "pull_request", "action": "opened", "sender": "ada", "pull": pull}
    site.product.sql("select public.receive_git_delivery(%s, %s::jsonb)", site.connection, json.dumps(event))
    page = open_as(site.person)
    page.goto(GIT)
    deliveries(page).first.get_by_role("link", name="Pull request #7").click()
    expect(page.get_by_role("heading", name="#7 · Raise the size")).to_be_visible()
    expect(page.get_by_test_id("no-modules")).to_contain_text("A runner reads the repository first.")
    job = site.runner.claim()
    changed = {"id": site.modules["vpc"], "fingerprint": "v2", "base_fingerprint": "v1"}
    found = {"number": 7, "ref": "r", "base_commit": commit(1), "head_commit": commit(5), "modules": [changed]}
    site.runner.finish(job, "SUCCEEDED", result={"git": {"modules": [], "pull_requests": [found]}})
    row = page.locator("tr[data-row='net/vpc']")
    expect(row).to_have_attribute("data-state", "pending")
    plan = site.runner.claim()
    site.runner.finish(plan, "SUCCEEDED", summary={"has_changes": True, "create": 1300, "update": 1200, "delete": 1100})
    expect(row).to_have_attribute("data-state", "success")
    expect(row).to_contain_text("+1300 ~1200 −1100")
    expect(page.locator(".ry-facts")).to_contain_text("raise-size into main")
    page.get_by_role("button", name="Approve").click()
    expect(row).to_contain_text("1 review")
    assert findings_anywhere(page, "git-change") == []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert sideways(page) == [], width
    page.get_by_role("button", name="Plan again").click()
    expect(page.get_by_text("Plan requested")).to_be_visible()
    assert site.runner.claim()["type"] == "RESOLVE"
    page.get_by_role("link", name=f"#{plan['number']}", exact=True).click()
    page.locator(".ry-facts").get_by_role("link", name="#7").click()
    expect(page.get_by_role("heading", name="#7 · Raise the size")).to_be_visible()


def test_a_member_proves_a_login_with_a_comment_and_ends_the_link(site: Site, open_as: Any) -> None:
    product, person = site.product, site.person
    page = open_as(person)
    page.goto(GIT)
    logins = page.get_by_role("region", name="Logins")
    expect(logins).to_contain_text("No logins yet")
    logins.get_by_role("button", name="Link login").first.click()
    page.get_by_role("textbox", name="Host").fill("git.example.com")
    page.get_by_role("textbox", name="Login").fill("@Ann")
    page.get_by_role("button", name="Link", exact=True).click()
    said = page.get_by_test_id("link-comment")
    expect(said).to_contain_text("/runyard link ")
    code = said.inner_text().split()[-1]
    page.get_by_role("button", name="Done").click()
    comment = {"id": 1, "number": 7, "verb": "link", "argument": code, "sender_id": "11"}
    event = {"delivery_id": "link", "event": "comment", "action": "created", "sender": "ann", "comment": comment}
    product.sql("select public.receive_git_delivery(%s, %s::jsonb)", site.connection, json.dumps(event))
    expect(logins.locator("tr[data-row]")).to_contain_text(["ann"])
    expect(logins.locator("tr[data-row]")).to_contain_text(["Proved by a comment"])
    logins.get_by_role("button", name="More actions for ann at git.example.com").click()
    page.get_by_role("menuitem", name="Unlink").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Unlink").click()
    expect(logins).to_contain_text("No logins yet")


def test_a_github_app_is_completed_only_by_the_session_that_began_it(site: Site) -> None:
    product, person, state = site.product, site.person, "a-state"
    digest = hashlib.sha256(state.encode()).hexdigest()
    # Nobody answers there.
    begun = {"p_org": person.org_id, "p_state_hash": digest, "p_url": "http://127.0.0.1:9"}
    app = product.rpc(person.token, "start_git_app", begun)["id"]
    other = product.person("other")
    member = (
        "insert into public.memberships (org_id, user_id, email, role) select %s, id, email, 'admin' from auth.users"
    )
    product.sql(f"{member} where email = %s", person.org_id, other.email)

    def returned(who: Person, said: str) -> httpx.Response:
        """GitHub leads the browser of somebody back."""
        headers = {"cookie": product.cookie(who), "sec-fetch-site": "cross-site"}
        query = {"code": "x", "state": said}
        return httpx.get(f"{product.url}/api/git/app/{app}", params=query, headers=headers, timeout=60)

    refused = returned(other, state)
    assert (refused.status_code, refused.json()["message"]) == (400, "Somebody else began this app.")
    assert returned(person, "guessed").json()["message"] == "There is no such app to create."
    assert returned(person, state).status_code == 503, "it gets as far as GitHub"
