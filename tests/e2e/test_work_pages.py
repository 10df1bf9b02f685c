"""Jobs and modules in a real browser on the real product."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.support.browser import what_stays

pytestmark = pytest.mark.timeout(900)

STEP = {
    "name": "plan",
    "title": "Plan",
    "phase": "PLAN",
    "status": "RUNNING",
    "started_at": "2026-11-15T14:00:00+00:00",
}
SUMMARY = {
    "create": 1,
    "update": 1,
    "replace": 0,
    "delete": 0,
    "no_op": 3,
    "has_changes": True,
    "resources": [
        {"address": "terraform_data.one", "type": "terraform_data", "name": "one", "action": "create"},
        {"address": "<img src=x onerror=alert(1)>", "type": "x", "name": "x", "action": "update"},
    ],
    "outputs": [],
}
INLINE = {"source_kind": "inline", "source": {"files": {"main.tf": 'output "a" { value = 1 }\n'}}}


@pytest.fixture(scope="module")
def owner(product: Product) -> Person:
    return product.person("owner")


@pytest.fixture(scope="module")
def runner(product: Product, owner: Person) -> ScriptedRunner:
    return ScriptedRunner(product, owner)


def make_module(product: Product, person: Person, path: str, **spec: Any) -> str:
    group, name = path.rsplit("/", 1)
    arguments = {"p_org": person.org_id, "p_group_path": group, "p_name": name, "p_spec": {**INLINE, **spec}}
    return str(product.rpc(person.token, "create_module", arguments)["id"])


def enqueue(product: Product, person: Person, module: str, kind: str, **options: Any) -> int:
    arguments = {"p_org": person.org_id, "p_type": kind, "p_module": module, "p_options": options}
    return int(product.rpc(person.token, "enqueue_job", arguments)["number"])


def id_of(product: Product, person: Person, number: int) -> int:
    """The internal id of the newest job of a number, for calls."""
    newest = "select max(id) from public.provision_jobs where org_id = %s and number = %s"
    return int(product.sql(newest, person.org_id, number)[0][0])


def status(page: Page) -> Any:
    return page.locator(".ry-head [data-status]")


def test_a_module_is_made_planned_and_applied(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    page = open_as(owner)
    page.goto("/dashboard/modules")
    page.get_by_role("button", name="New module").click()
    page.get_by_label("Group", exact=True).fill("platform/network")
    page.get_by_label("Name", exact=True).fill("Prod VPC")
    page.get_by_role("radio", name="Inline").click()
    page.get_by_role("button", name="Create module").click()
    expect(page.get_by_test_id("error-name")).to_contain_text("Try prod-vpc.")
    page.get_by_label("Name", exact=True).fill("vpc")
    page.get_by_role("button", name="Create module").click()
    expect(page.get_by_role("heading", name="vpc")).to_be_visible()
    expect(page.get_by_role("treeitem", name="vpc")).to_have_attribute("aria-selected", "true")

    page.get_by_role("button", name="Plan", exact=True).click()
    page.wait_for_url(re.compile(r"/jobs/\d+"))
    expect(status(page)).to_have_attribute("data-status", "QUEUED")
    expect(page.get_by_role("heading", name="Why is it waiting?")).to_be_visible()

    job = runner.claim()
    runner.report(job, "PLAN", [STEP])
    expect(status(page)).to_have_attribute("data-status", "PROCESSING")
    runner.log(job, 1, "plan", "\x1b[1mPlan:\x1b[0m <script>document.title='owned'</script>\n")
    expect(page.locator("#L1 .a-b")).to_have_text("Plan:")
    runner.log(job, 2, "plan", "second line\n")
    expect(page.locator("#L2 > span")).to_have_text("second line")
    runner.finish(job, "SUCCEEDED", summary=SUMMARY, last_seq=2)
    expect(status(page)).to_have_attribute("data-status", "SUCCEEDED")
    expect(page.get_by_text("<img src=x onerror=alert(1)>")).to_be_visible()
    assert page.title() != "owned"

    page.get_by_role("button", name="Apply this plan").click()
    expect(page.locator("[data-stage=Apply]")).to_have_attribute("data-status", "QUEUED")
    apply = runner.claim()
    assert (apply["plan_job_id"], apply["number"]) == (job["id"], job["number"])
    runner.report(apply, "APPLY", [{**STEP, "name": "apply", "title": "Apply", "phase": "APPLY"}])
    expect(status(page)).to_have_attribute("data-status", "PROCESSING")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("menuitem", name="After this step").click()
    expect(page.locator(".ry-head .ry-why")).to_have_text("Stops after this step")
    runner.finish(apply, "CANCELLED")
    expect(status(page)).to_have_attribute("data-status", "CANCELLED")
    expect(page.get_by_role("button", name="Run again")).to_be_visible()


def test_an_approval_queues_the_job(product: Product, owner: Person, open_as: Callable[[Person], Page]) -> None:
    module = make_module(product, owner, "payments/ledger", approvals_required=1)
    job = enqueue(product, owner, module, "APPLY")
    page = open_as(owner)
    page.goto("/dashboard/jobs?view=needs")
    page.get_by_role("link", name=f"#{job}", exact=True).click()
    # The one who asked does not approve; an owner whom nobody else could approve for says why.
    expect(page.get_by_test_id("confirm")).to_be_disabled()
    override = page.get_by_role("button", name="Approve my own")
    expect(override).to_be_visible()
    waiting = page.locator(".ry-side .ry-me")
    expect(waiting).to_have_text("1")
    other = product.person("colleague")
    colleague = other.email
    join = "insert into memberships (org_id, user_id, email, role) select %s, id, email, 'operator' from auth.users"
    product.sql(f"{join} where email = %s", owner.org_id, colleague)
    expect(override).to_be_hidden()
    expect(page.get_by_test_id("confirm")).to_be_disabled()
    # It waits for the colleague now: the menu, the title and the list count it for nobody else.
    expect(waiting).to_have_count(0)
    page.wait_for_function("!document.title.startsWith('(')")
    asked = open_as(other)
    asked.goto(f"/dashboard/jobs?view=needs&org={owner.org_id}")
    expect(asked.get_by_role("link", name=f"#{job}", exact=True)).to_be_visible()
    expect(asked.get_by_role("radio", name="Needs you")).to_contain_text("1")
    expect(asked.locator(".ry-side .ry-me")).to_have_text("1")
    asked.wait_for_function("document.title.startsWith('(1) ')")
    asked.close()
    product.sql("delete from memberships where org_id = %s and email = %s", owner.org_id, colleague)
    page.get_by_label("Reason for approving my own job").fill("agreed")
    override.click()
    expect(status(page)).to_have_attribute("data-status", "QUEUED")
    expect(page.get_by_text("“agreed”")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(status(page)).to_have_attribute("data-status", "CANCELLED")


def test_a_lost_apply_shows_its_ways_out_and_its_lock(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "payments/db")
    number = enqueue(product, owner, module, "APPLY")
    job = runner.claim(number)
    runner.report(job, "APPLY", [{**STEP, "name": "apply", "title": "Apply", "phase": "APPLY"}])
    lock_id = runner.lock(job)
    page = open_as(owner)
    page.goto(f"/dashboard/jobs/{number}")
    expect(status(page)).to_have_attribute("data-status", "PROCESSING")
    runner.vanish(job)
    expect(status(page)).to_have_attribute("data-status", "NEEDS_ATTENTION")
    expect(page.get_by_test_id("attention")).to_contain_text("so nobody knows how far it got")
    expect(page.get_by_text(lock_id).first).to_be_visible()
    page.get_by_role("button", name="Mark as failed and unlock").click()
    page.get_by_role("button", name="Mark as failed", exact=True).click()
    expect(status(page)).to_have_attribute("data-status", "FAILED")
    expect(page.get_by_test_id("state")).to_have_attribute("data-locked", "false")


def test_the_list_of_jobs_updates_live_and_can_be_searched_and_filtered(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "edge/cdn")
    page = open_as(owner)
    page.goto("/dashboard/jobs")
    # Before the first job there is no table, but a word about how to get one.
    either = page.get_by_role("table", name="Jobs").or_(page.get_by_test_id("no-jobs"))
    expect(either).to_be_visible()
    job = enqueue(product, owner, module, "DRIFT")
    row = page.locator(f"[data-row='{id_of(product, owner, job)}']")
    expect(row).to_be_visible()
    page.get_by_label("Search job, module or runner").fill("edge/cdn")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    page.get_by_role("radio", name="Finished").click()
    expect(page.get_by_test_id("no-jobs-match")).to_be_visible()
    page.wait_for_url(re.compile("view=finished"))
    filtered = page.url
    page.get_by_role("button", name="Show all").click()
    page.mouse.move(0, 0)
    expect(row).to_be_visible()
    page.goto(filtered)
    expect(page.get_by_test_id("no-jobs-match")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    product.rpc(owner.token, "cancel_job", {"p_job": id_of(product, owner, job)})
    expect(row).to_have_attribute("data-status", "CANCELLED")
    row.get_by_text("edge/cdn").first.click()
    page.wait_for_url(re.compile(f"/jobs/{job}$"))


WIDTHS = (721, 785, 901, 1001, 1181, 1440)
# What is cut although it is what a row is found by.
CUT = """() => [...document.querySelectorAll('main tr[data-row] [data-open]')]
    .filter((el) => el.scrollWidth > el.clientWidth + 1).map((el) => el.textContent)"""


def test_names_are_readable_from_a_tablet_to_a_desk(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    product.runner(owner, "build-host-01", labels=["gpu=true"])
    page = open_as(owner)
    page.goto("/dashboard/runners")
    expect(page.get_by_role("link", name="build-host-01", exact=True)).to_be_visible()

    def cut_at(width: int) -> list[str]:
        page.set_viewport_size({"width": width, "height": 900})
        return what_stays(page, lambda: list(page.evaluate(CUT)))

    assert [(width, cut) for width in WIDTHS for cut in cut_at(width)] == []


def test_the_tree_follows_the_jobs_of_every_module(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    shown, other = make_module(product, owner, "tree/shown"), make_module(product, owner, "tree/other")
    page = open_as(owner)
    page.goto(f"/dashboard/modules?module={shown}")
    dot = page.get_by_role("treeitem", name="other").get_by_role("img")
    expect(dot).to_have_attribute("title", "Never applied")
    number = enqueue(product, owner, other, "DRIFT")
    expect(dot).to_have_attribute("title", "Drift check: queued")
    job = runner.claim(number)
    expect(dot).to_have_attribute("title", "Drift check: claimed")
    runner.finish(job, "FAILED")
    expect(dot).to_have_attribute("title", "Last drift check failed")
    page.reload()
    expect(dot).to_have_attribute("title", "Last drift check failed")


def test_an_admin_grants_outputs_and_allows_applying_uploads(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "shared/network")
    make_module(product, owner, "shared/site")
    page = open_as(owner)
    page.goto(f"/dashboard/modules?tab=order&module={module}")
    panel = page.get_by_test_id("output-readers")
    panel.get_by_label("Path of the module that reads").fill("shared/nothing")
    panel.get_by_role("button", name="Grant").click()
    expect(page.locator("[data-sonner-toast][data-type=error]")).to_contain_text('There is no module "shared/nothing".')
    panel.get_by_label("Path of the module that reads").fill("shared/site")
    panel.get_by_role("button", name="Grant").click()
    expect(panel.get_by_role("link", name="shared/site")).to_be_visible()
    panel.get_by_role("button", name="Stop shared/site from reading").click()
    expect(panel.get_by_role("link", name="shared/site")).to_have_count(0)
    page.get_by_role("link", name="Overview", exact=True).click()
    page.get_by_role("button", name="Module actions").click()
    page.get_by_role("menuitem", name="Edit").click()
    page.get_by_label("Allow applying plans of uploaded folders").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_test_id("applies-uploads")).to_be_visible()


def test_a_state_is_brought_in_from_the_modules_menu(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "apps/legacy")
    page = open_as(owner)
    page.goto(f"/dashboard/modules?tab=state&module={module}")
    expect(page.get_by_role("region", name="State versions")).to_contain_text("or bring in one that exists")
    page.get_by_role("button", name="Module actions").click()
    page.get_by_role("menuitem", name="Bring in state").click()
    page.wait_for_url(re.compile(r"/jobs/\d+"))
    (asked,) = product.sql(
        "select type::text, payload -> 'options' from public.provision_jobs where module_id = %s", module
    )
    assert asked == ("PLAN", {"bring_state": True})
    kept = make_module(product, owner, "apps/kept", backend="own")
    page.goto(f"/dashboard/modules?tab=state&module={kept}")
    expect(page.get_by_role("region", name="State versions")).to_contain_text("keeps its own backend")


def test_another_organisation_sees_nothing(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "hidden/away")
    number = enqueue(product, owner, module, "PLAN")
    job = runner.claim(number)
    runner.log(job, 1, "plan", "not for strangers\n")
    stranger = product.person("stranger")
    page = open_as(stranger)
    page.goto(f"/dashboard/jobs/{number}")
    absent = page.get_by_test_id("no-such-job")
    expect(absent.get_by_role("heading", name="Page not found", level=1)).to_be_visible()
    expect(absent).to_contain_text("The link may be wrong, or the item was removed.")
    page.goto(f"/dashboard/modules?module={module}")
    expect(page.get_by_test_id("no-modules")).to_be_visible()
    theirs, mine = {"Cookie": product.cookie(stranger)}, {"Cookie": product.cookie(owner)}
    base = f"{product.url}/api/jobs/{job['id']}/log"
    assert "not for strangers" in httpx.get(f"{base}/lines?attempt=1&from=1&to=1", headers=mine, timeout=60).text
    assert httpx.get(f"{base}/lines?attempt=1&from=1&to=1", headers=theirs, timeout=60).json() == {"chunks": []}
    day = product.sql("select log_day::text from provision_jobs where id = %s", job["id"])[0][0]
    new = f"{base}/index?attempt=1&after=0&lines=1&day={day}"
    assert httpx.get(new, headers=mine, timeout=60).json()["pages"][0]["lines"] == ["not for strangers"]
    assert httpx.get(new, headers=theirs, timeout=60).json()["pages"] == []
    assert httpx.get(f"{base}.txt?attempt=1", headers=theirs, timeout=60).status_code == 404
    assert httpx.get(f"{base}/index?attempt=1&after=0", timeout=60).status_code == 401
    foreign = {**mine, "Sec-Fetch-Site": "cross-site"}
    assert httpx.get(f"{base}/index?attempt=1&after=0", headers=foreign, timeout=60).status_code == 401
    runner.finish(job, "SUCCEEDED", last_seq=1)


@pytest.mark.parametrize(
    "query",
    ["attempt=x&after=0", "attempt=1&after=-1", "attempt=1", f"attempt={'9' * 40}&after=0", "attempt=1&after=0&day=x"],
)
def test_nonsense_in_an_address_is_refused(product: Product, owner: Person, query: str) -> None:
    answer = httpx.get(
        f"{product.url}/api/jobs/1/log/index?{query}", headers={"Cookie": product.cookie(owner)}, timeout=30
    )
    assert answer.status_code == 400
