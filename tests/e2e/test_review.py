"""Plan, review, confirm in a browser: who decides sees what changes, and decides about exactly that."""

import dataclasses
import json
import re
from collections.abc import Callable

import httpx
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_work_pages import STEP, enqueue, make_module, owner, runner, status
from tests.support.browser import settled
from tests.support.waiting import wait_until

__all__ = ["owner", "runner"]

ADDRESS = "cloud_queue.ledger"
SUMMARY = {
    "create": 0, "update": 1, "replace": 0, "delete": 0, "has_changes": True,
    "resources": [{"address": ADDRESS, "action": "update"}], "outputs": [],
}  # fmt: skip
CHANGES = {
    "resources": [
        {
            "address": ADDRESS, "action": "update", "unchanged": 18,
            "attributes": [
                {"path": "node_count", "kind": "change", "before": "3", "after": "5"},
                {"path": "endpoint", "kind": "change", "before": '"a"', "after": None, "is_unknown": True},
                {"path": "password", "kind": "change", "before": None, "after": None, "is_sensitive": True},
            ],
        }
    ]
}  # fmt: skip
RAIL_BESIDE = """() => {
  const [main, rail] = [".ry-railed > .ry-stack", ".ry-rail"].map((at) => document.querySelector(at).getBoundingClientRect());
  const tables = [...document.querySelectorAll(".ry-railed .ry-tw")];
  return rail.left > main.right && tables.every((el) => el.scrollWidth <= el.clientWidth + 1);
}"""
LOG = "".join(f"line {number}\n" for number in range(1, 200)) + f"  # {ADDRESS} will be updated in-place\n"


def plan(product: Product, runner: ScriptedRunner, page: Page) -> None:
    """Press Apply on the module's page, and act as its runner until the plan exists."""
    page.get_by_role("button", name="Apply", exact=True).click()
    page.get_by_test_id("run").click()
    page.wait_for_url(re.compile(r"/jobs/\d+"))
    job = runner.claim(int(page.url.rstrip("/").rsplit("/", 1)[1]))
    runner.report(job, "PLAN", [STEP])
    runner.log(job, 1, "plan", LOG)
    runner.artifact(job, "changes.json", json.dumps(CHANGES).encode())
    runner.finish(job, "SUCCEEDED", summary=SUMMARY, last_seq=1)
    expect(page.get_by_test_id("decision")).to_be_visible()


def test_a_plan_is_read_by_attribute_and_confirmed(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "payments/queue")
    page = open_as(owner)
    page.goto(f"/dashboard/modules?module={module}")
    plan(product, runner, page)
    page.get_by_test_id("plan-resource").get_by_role("button", expanded=False).click()
    expect(page.get_by_test_id("plan-resource").locator("wbr")).to_have_count(ADDRESS.count("."))
    changes = page.get_by_test_id("plan-attributes")
    expect(changes.get_by_role("listitem")).to_have_count(4)
    expect(changes).to_contain_text("known after apply")
    expect(changes).to_contain_text("(sensitive), changed")

    kind = page.get_by_role("group", name="Filter the plan").get_by_role("button")
    kind.click()
    expect(kind).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_test_id("plan-resource")).to_have_count(1)
    with page.expect_download() as download:
        page.get_by_test_id("plan-file").click()
    assert json.loads(download.value.path().read_text()) == CHANGES

    page.get_by_role("button", name=f"Show {ADDRESS} in the log").click()
    expect(page.locator("#L200")).to_be_in_viewport()

    page.get_by_label("Write a comment").fill("Does it break the consumers?")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("comments").get_by_role("listitem")).to_have_count(1)

    page.get_by_test_id("confirm").click()
    expect(status(page)).to_have_attribute("data-status", "QUEUED")
    expect(page.get_by_test_id("decision")).to_have_count(0)
    apply = runner.claim()
    assert apply["type"] == "APPLY"
    runner.finish(apply, "SUCCEEDED", summary=SUMMARY)
    expect(status(page)).to_have_attribute("data-status", "SUCCEEDED")
    page.get_by_test_id("timeline-steps").click()
    with page.expect_download() as download:
        page.get_by_test_id("record").click()
    record = json.loads(download.value.path().read_text())
    assert [event["event"] for event in record["events"]][:2] == ["enqueued", "confirmed"]
    assert [part["name"] for part in record["waterfall"]] == ["AWAITING_APPROVAL", "QUEUED", "CLAIMED", "SUCCEEDED"]


def test_a_plan_that_is_out_of_date_cannot_be_confirmed(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "payments/stale")
    page = open_as(owner)
    page.goto(f"/dashboard/modules?module={module}")
    plan(product, runner, page)
    product.sql(
        "insert into private.states (module_id, serial, body, sha256, job_id, attempt) values (%s, 9, '{}', 'x', 1, 1)",
        module,
    )
    # No job wrote this state, so nothing tells the page: it is left and opened again.
    address = page.url
    page.goto("/dashboard/jobs")
    expect(page.locator("tr[data-row]").first).to_be_visible()
    page.goto(address)
    expect(page.get_by_role("button", name="Plan again")).to_be_visible()
    expect(page.get_by_test_id("confirm")).to_have_count(0)
    page.get_by_test_id("discard").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Discard").click()
    expect(status(page)).to_have_attribute("data-status", "CANCELLED")


def test_destroy_shows_the_number_of_resources_and_starts_with_a_plan(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "payments/gone")
    state = json.dumps(
        {"resources": [{"mode": "managed", "type": "a", "name": "b", "instances": [{}, {"index_key": 1}]}]}
    )
    product.sql(
        "insert into private.states (module_id, serial, body, sha256, job_id, attempt) values (%s, 1, %s, 'x', 1, 1)",
        module,
        state,
    )
    page = open_as(owner)
    page.goto(f"/dashboard/modules?module={module}")
    page.get_by_role("button", name="Module actions").click()
    page.get_by_role("menuitem", name="Destroy").click()
    expect(page.get_by_test_id("goes")).to_contain_text("2 resources")
    expect(page.get_by_test_id("run")).to_be_disabled()
    page.get_by_label("to confirm").fill("gone")
    page.get_by_test_id("run-options").click()
    page.get_by_label("Targets").fill("a.b[1]")
    page.get_by_label("Message").fill("No longer needed")
    page.get_by_test_id("run").click()
    page.wait_for_url(re.compile(r"/jobs/\d+"))
    (found,) = product.sql("select payload -> 'options', type from public.provision_jobs where module_id = %s", module)
    assert found == ({"destroy": True, "confirm": True, "targets": ["a.b[1]"]}, "PLAN")
    expect(page.get_by_role("heading", name="Destroy plan")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(status(page)).to_have_attribute("data-status", "CANCELLED")


def test_a_module_shows_the_content_of_its_state_and_its_lock(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "payments/known")
    state = {"outputs": {"url": {"value": "https://x"}, "key": {"value": "hush", "sensitive": True}}}
    state["resources"] = [
        {"mode": "managed", "type": "role", "name": "b", "instances": [{}]},
        {"mode": "managed", "type": "vm", "name": "a", "instances": [{"attributes": {"id": "i-1"}}]},
    ]
    for serial in (1, 2):
        product.sql(
            "insert into private.state_versions (module_id, serial, body, sha256, job_id, attempt) "
            "values (%s, %s, %s, 'x', 1, 1)", module, serial, json.dumps(state)
        )  # fmt: skip
    product.sql(
        "insert into private.states (module_id, serial, body, sha256, job_id, attempt) values (%s, 2, %s, 'x', 1, 1)",
        module, json.dumps(state),
    )  # fmt: skip
    page = open_as(owner)
    page.goto("/dashboard/modules?path=payments/known")
    expect(page.get_by_test_id("resources")).to_contain_text("vm.a")
    rows = page.get_by_test_id("resources").locator("tbody").get_by_role("row")
    page.get_by_test_id("resource-filter").fill("vm.")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("i-1")
    page.get_by_test_id("resource-filter").fill("")
    expect(rows).to_have_count(2)
    expect(page.get_by_test_id("outputs")).to_contain_text("https://x")
    assert "hush" not in page.content()
    expect(page.get_by_test_id("source").locator(".ry-ll").first).to_contain_text("output")

    check = {"p_org": owner.org_id, "p_type": "DRIFT", "p_module": module}
    number = int(product.rpc(owner.token, "enqueue_job", check)["number"])
    found = {**SUMMARY, "resources": [{"address": "vm.a", "action": "update"}]}
    runner.finish(runner.claim(number), "SUCCEEDED", summary=found)
    expect(page.get_by_test_id("show-drift")).to_have_attribute("href", re.compile(rf"^/o/[\w-]+/jobs/{number}$"))
    expect(rows.first).to_contain_text("vm.a")
    expect(rows.locator("[data-accent-color=amber]")).to_have_count(1)

    page.get_by_role("button", name="Module actions").click()
    page.get_by_role("menuitem", name="Lock").click()
    page.get_by_label("Reason").fill("Month-end")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("module-lock")).to_contain_text("Month-end")
    page.get_by_test_id("module-lock").get_by_role("button", name="Unlock").click()
    expect(page.get_by_test_id("module-lock")).to_have_count(0)

    page.get_by_role("link", name="State", exact=True).click()
    page.get_by_role("button", name="Roll back to serial 1").click()
    page.get_by_role("button", name="Roll back", exact=True).click()
    expect(page.get_by_role("button", name="Roll back to serial 2")).to_be_visible()

    number = int(
        product.rpc(owner.token, "enqueue_job", {"p_org": owner.org_id, "p_type": "APPLY", "p_module": module})[
            "number"
        ]
    )
    job = runner.claim(number)
    runner.report(job, "APPLY", [STEP])
    runner.lock(job)
    page.reload()
    expect(page.get_by_test_id("lock-evidence").locator("[data-verdict]")).to_have_attribute("data-verdict", "unsafe")
    runner.finish(job, "SUCCEEDED")
    page.get_by_role("link", name="Overview", exact=True).click()
    expect(page.get_by_test_id("chart").get_by_role("link")).to_have_count(2)
    for width in (1190, 1280, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert settled(page).evaluate(RAIL_BESIDE), f"a rail beside tables that fit, {width} px"


def test_runners_are_assigned_and_added_on_a_group_s_page(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    make_module(product, owner, "near/by/one")
    product.runner(owner, "for-near")
    page = open_as(owner)
    page.goto("/dashboard/modules?tab=runners&path=near/by")
    runners = page.get_by_test_id("group-runners")
    page.get_by_label("Runner to assign").fill("for-n")
    expect(page.locator("#offered option[value=for-near]")).to_have_count(1)
    page.get_by_label("Runner to assign").fill("nobody")
    runners.get_by_role("button", name="Assign", exact=True).click()
    expect(page.get_by_text("There is no runner “nobody”.")).to_be_visible()
    page.get_by_label("Runner to assign").fill("for-near")
    runners.get_by_role("button", name="Assign", exact=True).click()
    row = runners.get_by_role("listitem").filter(has_text="for-near")
    expect(row).to_contain_text("Assigned to near/by.")
    row.get_by_role("button", name="Unassign for-near").click()
    expect(row).to_have_count(0)

    runners.get_by_role("link", name="Add runner here").click()
    sheet = page.get_by_role("dialog")
    expect(sheet.get_by_label("Assign to")).to_have_value("near/by")


def test_a_group_shows_its_runners_and_plans_all_its_modules(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    for name in ("one", "two"):
        make_module(product, owner, f"fleet/eu/{name}")
    make_module(product, owner, "fleet/us/one")
    page = open_as(owner)
    page.goto("/dashboard/modules?path=fleet/us")
    expect(page.get_by_role("heading", name="fleet/us")).to_be_visible()
    page.get_by_role("treeitem", name=re.compile(r"^eu\b")).click()
    expect(page.get_by_role("heading", name="fleet/eu")).to_be_visible()
    expect(page.get_by_test_id("group-modules").get_by_role("link")).to_have_count(2)
    tabs = page.get_by_role("navigation", name="Parts of the page")
    for path in ("fleet", "fleet/us"):
        spec = {"name": path.replace("/", "-"), "level": "mandatory", "files": {"p.rego": "package main"}}
        product.rpc(owner.token, "attach_policy", {"p_org": owner.org_id, "p_path": path, "p_spec": spec})
    tabs.get_by_role("link", name="Policies").click()
    policies = page.get_by_role("table", name="Policies").locator("tbody").get_by_role("row")
    expect(policies).to_have_text(re.compile("^fleet.*Mandatory"))
    tabs.get_by_role("link", name="Modules").click()
    expect(page.get_by_role("table", name="Policies")).to_have_count(0)
    expect(page.get_by_test_id("group-modules").get_by_role("link")).to_have_count(2)
    tabs.get_by_role("link", name="Overview").click()
    page.get_by_role("button", name="Plan all").click()
    of_group = "select id from public.provision_jobs where group_path = 'fleet/eu' and org_id = %s"
    made = wait_until(lambda: rows if len(rows := product.sql(of_group, owner.org_id)) == 2 else [])
    left = {number for (number,) in made}
    while left:
        job = runner.claim()
        runner.finish(job, "FAILED")
        left.discard(job["id"])
    # A plan tells nothing about the infrastructure: the set shows it, and the modules stay as they were.
    expect(page.get_by_test_id("set-progress")).to_contain_text("2 failed")
    expect(page.get_by_test_id("group-modules").locator("[data-status=FAILED]")).to_have_count(0)


def test_the_first_step_is_ticked_when_a_runner_connects(product: Product, open_as: Callable[[Person], Page]) -> None:
    fresh = product.person("fresh")
    page = open_as(fresh)
    page.goto("/dashboard/runners")
    steps = page.get_by_test_id("first-steps").locator("[data-step]")
    expect(steps.first).to_have_attribute("data-step", "next")
    ScriptedRunner(product, fresh, "first").heartbeat()
    expect(steps.first).to_have_attribute("data-step", "ok")
    expect(steps.nth(1)).to_have_attribute("data-step", "next")
    page.get_by_test_id("first-steps").get_by_role("button", name="Hide").click()
    expect(page.get_by_test_id("first-steps")).to_have_count(0)


def test_changing_a_password_requires_the_current_one_and_ends_other_sessions(
    product: Product, open_as: Callable[[Person], Page]
) -> None:
    person = product.person("changes")
    elsewhere = product.cookie(person)
    page = open_as(person)
    page.goto("/dashboard/account")
    page.get_by_role("button", name="Change password").click()
    for label, text in (("Current password", "wrong-one-123"), ("New password again", "brand-new-pass")):
        page.get_by_label(label).fill(text)
    page.get_by_label("New password", exact=True).fill("brand-new-pass")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_test_id("account-error")).to_contain_text("not your password")
    page.get_by_label("Current password").fill(person.password)
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("alertdialog")).to_have_count(0)
    changed = Person(person.email, "brand-new-pass", person.org_id, person.org_name, person.token)
    assert product.cookie(changed)
    answer = httpx.get(f"{product.url}/api/audit.csv", headers={"Cookie": elsewhere}, timeout=60)
    assert answer.status_code == 401, "the session of another browser has ended"


def test_a_run_has_one_page_from_the_request_to_the_end_of_its_apply(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "payments/run")
    number = enqueue(product, owner, module, "PLAN", confirm=True, reason="release 1.4")
    page = open_as(owner)
    page.goto(f"/dashboard/jobs/{number}")
    expect(page.locator("[data-stage=Review]")).to_have_attribute("data-status", "NOT_STARTED")
    job = runner.claim(number)
    runner.log(job, 1, "plan", "this is the plan\n")
    runner.finish(job, "SUCCEEDED", summary=SUMMARY, last_seq=1)
    expect(page.get_by_test_id("decision-message")).to_contain_text("release 1.4")
    expect(page.locator("[data-stage=Review]")).to_have_attribute("data-status", "AWAITING_APPROVAL")
    expect(page.get_by_test_id("decision")).to_contain_text("this plan is never applied")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)
    page.get_by_test_id("confirm").click()
    expect(page.locator("[data-stage=Apply]")).to_have_attribute("data-status", "QUEUED")
    apply = runner.claim(number)
    runner.log(apply, 1, "apply", "this is the apply\n")
    expect(page.locator("#L2 > span")).to_have_text("this is the apply")
    expect(page.locator("#L1 > span")).to_have_text("this is the plan")
    expect(page.get_by_role("separator", name="Apply")).to_be_visible()
    runner.log(apply, 2, "apply", "this is more of it\n")
    expect(page.locator("#L3 > span")).to_have_text("this is more of it")
    runner.finish(apply, "SUCCEEDED", summary=SUMMARY, last_seq=2)
    expect(page.locator("[data-stage=Apply]")).to_have_attribute("data-status", "SUCCEEDED")
    assert page.url.rstrip("/").endswith(f"/jobs/{number}")
    look_into_both_logs(page, number)
    page.goto(f"/dashboard/jobs?search=%23{number}")
    row = page.get_by_role("table", name="Jobs").locator("tr[data-row]")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("PLAN")
    expect(row).to_contain_text("APPLY")


def look_into_both_logs(page: Page, number: int) -> None:
    """Links, search and download cover the plan's log and the apply's."""
    page.goto(f"/dashboard/jobs/{number}#L1")
    page.reload()
    marked = page.locator(".ry-ll.on > span")
    expect(marked).to_have_text("this is the plan")
    page.evaluate("location.hash = '#L3'")
    expect(marked).to_have_text("this is more of it")
    page.get_by_label("Search the log").fill("this is")
    expect(page.locator("ry-log .ry-lt .ry-n")).to_have_text("1 of 3")
    with page.expect_download() as download:
        page.locator("ry-log").get_by_label("Download").click()
    assert download.value.path().read_text() == (
        "--- Plan ---\nthis is the plan\n--- Apply ---\nthis is the apply\nthis is more of it\n"
    )


def test_a_link_shows_the_job_of_the_organisation_that_it_names(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    arguments = {"p_name": "Second", "p_slug": f"second-{owner.org_id[:8]}"}
    second = product.rpc(owner.token, "create_organization", arguments)
    elsewhere = dataclasses.replace(owner, org_id=str(second["id"]))
    number = enqueue(product, elsewhere, make_module(product, elsewhere, "else/where"), "PLAN")
    stranger = product.person("stranger")
    page = open_as(owner)
    page.goto(f"/dashboard/jobs/{number}?org={second['id']}")
    expect(page.get_by_text("else/where").first).to_be_visible()
    page.goto(f"/dashboard/jobs/{number}?org={owner.org_id}")
    expect(page.get_by_role("heading", name=f"#{number}").or_(page.get_by_test_id("no-such-job"))).to_be_visible()
    expect(page.get_by_text("else/where")).to_have_count(0)
    page.goto(f"/dashboard/jobs/{number}?org={stranger.org_id}")
    expect(page.get_by_text("You are not a member of the organisation that this link names.")).to_be_visible()


# By how many pixels the bar of a run that has ended is not filled.
ENDS_SHORT = "(bar) => Math.round(bar.clientWidth - [...bar.children].reduce((sum, part) => sum + part.offsetWidth, 0))"


def test_plans_of_a_group_run_that_have_changes_are_one_click_away(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    for name in ("same", "changed"):
        make_module(product, owner, f"groups/run/{name}")
    product.rpc(owner.token, "start_set", {"p_org": owner.org_id, "p_type": "PLAN", "p_path": "groups/run"})
    for _ in range(2):
        job = runner.claim()
        is_changed = job["module_path"] == "groups/run/changed"
        runner.finish(
            job, "SUCCEEDED", summary=SUMMARY if is_changed else {**SUMMARY, "update": 0, "has_changes": False}
        )
    page = open_as(owner)
    page.goto("/dashboard/modules?path=groups/run")
    expect(page.get_by_test_id("set-progress").first).to_contain_text("2 of 2 done")
    assert settled(page).locator(".ry-setb").first.evaluate(ENDS_SHORT) == 0
    page.get_by_test_id("set-changes").first.click()
    rows = page.get_by_role("table", name="Jobs").locator("tr[data-row]")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("groups/run/changed")
    expect(rows).to_contain_text("~1")
    page.get_by_test_id("set-chip").click()
    expect(rows).not_to_have_count(1)
