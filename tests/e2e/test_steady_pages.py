"""Things that stay in place, and people who stay signed in: columns, the log, plans, sessions, members."""

import hashlib
import json
import os
import re
import signal
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_runners_page import Open, person, row, sign_in
from tests.e2e.test_trust import Line, mark
from tests.e2e.test_work_pages import STEP, SUMMARY, enqueue, make_module, status
from tests.support.browser import LATER, Tabs, kept_back, settled

__all__ = ["person", "sign_in"]
pytestmark = pytest.mark.timeout(600)
# What the page of jobs is made of, which comes when it is first asked for.
OF_JOBS = re.compile(r"/assets/_o_\.__organisation_\._jobs_\._index-")
ONE_BUILD = re.compile(r"reflex_Var_\d|project_hash|last_reflex_run")
TOO_WIDE = """[...document.querySelectorAll('.ry-tw')].filter((el) => el.scrollWidth > el.clientWidth + 1).map((el) => el.innerText)"""


def test_no_file_of_the_page_is_named_after_one_build(product: Product) -> None:
    """Hashes that differ in each Python process, numbers and times would give another build other names."""
    assets = product.stack.settings.home / "web" / "build" / "client" / "assets"
    found = [file.name for file in assets.glob("*.js") if ONE_BUILD.search(file.read_text())]
    assert found == []
    assert len(list(assets.glob("*.js"))) > 20


def lefts(page: Page) -> list[int]:
    script = "[...document.querySelectorAll('main table th')].map((th) => Math.round(th.getBoundingClientRect().x))"
    found: list[int] = settled(page).evaluate(script)
    return found


def test_columns_stay_where_they_are_when_a_row_changes(product: Product, person: Person, sign_in: Open) -> None:
    for name in ("prod-eu", "prod-us"):
        product.runner(person, name)
    page = sign_in(person)
    expect(row(page, "prod-us")).to_be_visible()
    before = lefts(page)
    reason = "a reason that is much longer than anything that stood in this column before"
    change = "update workers set status = 'DRAINING', is_draining = true, drain_reason = %s, status_reason = %s, version = '10.20.30-rc.1'"
    product.sql(f"{change} where org_id = %s and name = 'prod-us'", reason, reason, person.org_id)
    expect(row(page, "prod-us")).to_contain_text("much longer")
    assert lefts(page) == before


def test_columns_of_members_and_of_a_history_stay_where_they_are(
    product: Product, person: Person, sign_in: Open
) -> None:
    page = sign_in(person)
    page.goto("/dashboard/settings/members")
    expect(page.get_by_role("table", name="Members")).to_contain_text(person.email)
    before = lefts(page)
    guest = f"{'somebody.with.a.long.name' * 2}@a-rather-long-company-name.example.com"
    asked = {"p_org": person.org_id, "p_email": guest, "p_role": "viewer", "p_token_hash": "0" * 64}
    product.rpc(person.token, "invite_member", asked)
    expect(page.get_by_role("button", name=f"More actions for {guest}")).to_be_in_viewport()
    assert lefts(page) == before
    module = make_module(product, person, "platform/vpc")
    enqueue(product, person, module, "PLAN")
    page.goto(f"/dashboard/modules?module={module}")
    history = page.get_by_role("table", name="History").get_by_role("row").last
    expect(history).to_contain_text("Queued", ignore_case=True)
    before = lefts(page)[:3]
    product.sql("update provision_jobs set queued_at = now() - interval '30 hours' where org_id = %s", person.org_id)
    expect(history).to_contain_text(re.compile(r"1 d|30 h"))
    assert lefts(page)[:3] == before


def test_typed_text_stays_in_the_palette_while_another_page_loads(person: Person, sign_in: Open) -> None:
    """Each page has a palette of its own: the next page's must have what was typed into the last one's."""
    page = sign_in(person)
    field = page.get_by_test_id("palette").get_by_role("combobox")
    with kept_back(page, OF_JOBS):
        with page.expect_request(OF_JOBS):
            page.get_by_role("link", name="Jobs", exact=True).first.click()
        page.keyboard.press("Control+k")
        page.keyboard.type("go to")
        expect(field).to_have_value("go to")
    page.keyboard.type(" fig")
    page.wait_for_url(re.compile("/jobs"))
    page.keyboard.type("ures")
    expect(field).to_have_value("go to figures")
    found = page.get_by_test_id("palette").get_by_role("option")
    expect(found).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/figures"))


# No moment is left between the two, as when somebody changes their mind in the middle of a word.
TYPE_AND_SHOW_ALL = """() => {
  window.runyard.write(document.querySelector("[data-search]"), "zzz");
  document.querySelector("[data-clear]").click();
}"""


def test_a_cleared_search_does_not_reappear(product: Product, person: Person, sign_in: Open) -> None:
    product.runner(person, "prod-eu")
    page = sign_in(person)
    expect(row(page, "prod-eu")).to_be_visible()
    with page.expect_websocket() as opened:
        page.reload()
    expect(row(page, "prod-eu")).to_be_visible()
    with opened.value.expect_event("framesent", lambda frame: "search_for" in str(frame)) as sent:
        page.evaluate(TYPE_AND_SHOW_ALL)
    assert "zzz" not in str(sent.value)
    expect(page.locator("[data-search]")).to_have_value("")
    expect(row(page, "prod-eu")).to_be_visible()


def test_a_running_job_does_not_push_its_log_down(
    product: Product, person: Person, open_as: Callable[[Person], Page]
) -> None:
    runner = ScriptedRunner(product, person, "build-1")
    number = enqueue(product, person, make_module(product, person, "platform/steps"), "PLAN")
    job = runner.claim(number)
    names = [("prepare", "Prepare"), ("fetch", "Fetch source"), ("init", "Init"), ("plan", "Plan")]
    steps: list[dict[str, Any]] = [{**STEP, "name": name, "title": title} for name, title in names]
    runner.report(job, "PREPARE", steps[:1])
    page = open_as(person)
    page.goto(f"/dashboard/jobs/{number}")
    expect(status(page)).to_have_attribute("data-status", "PROCESSING")
    place = page.locator("ry-log")
    page.get_by_test_id("timeline-steps").click()
    expect(page.locator("ry-timeline")).to_contain_text("Save plan")
    # The page shows above the log that a runner is out of contact, and getting here may have taken long enough.
    runner.heartbeat()
    expect(page.get_by_test_id("out-of-contact")).to_have_count(0)
    settled(page)
    before: Any = place.bounding_box()
    runner.report(job, "PLAN", steps)
    expect(page.locator("ry-timeline .st.now")).to_have_count(len(steps))
    settled(page)
    after: Any = place.bounding_box()
    assert after["y"] == before["y"]
    runner.finish(job, "FAILED")


def test_a_plan_and_its_apply_are_one_page_and_the_plan_stays_in_its_place(
    product: Product, person: Person, open_as: Callable[[Person], Page]
) -> None:
    runner = ScriptedRunner(product, person, "build-1")
    module = make_module(product, person, "platform/used")
    number = enqueue(product, person, module, "PLAN")
    job = runner.claim(number)
    runner.finish(job, "SUCCEEDED", summary=SUMMARY)
    page = open_as(person)
    page.goto(f"/dashboard/jobs/{number}")
    expect(page.get_by_role("button", name="Apply this plan")).to_be_visible()
    assert enqueue(product, person, module, "APPLY", plan_job_id=job["id"]) == number
    expect(status(page)).to_have_attribute("data-status", "QUEUED")
    expect(page.get_by_role("button", name="Apply this plan")).to_have_count(0)
    apply = runner.claim(number)
    runner.report(apply, "APPLY", [{**STEP, "name": "apply", "title": "Apply", "phase": "APPLY"}])
    expect(status(page)).to_have_attribute("data-status", "PROCESSING")
    plan = "document.querySelector('[data-testid=plan]').compareDocumentPosition(document.querySelector('ry-log'))"
    before = settled(page).evaluate(plan)
    runner.finish(apply, "SUCCEEDED", summary=SUMMARY)
    expect(page.locator("[data-stage=Apply]")).to_have_attribute("data-status", "SUCCEEDED")
    assert settled(page).evaluate(plan) == before, "the plan is above the log, as it was"


def test_a_test_plan_runs_on_the_runner_that_came_online(product: Product, person: Person, sign_in: Open) -> None:
    page = sign_in(person)
    page.keyboard.press("n")
    sheet = page.get_by_role("dialog", name="Add runner")
    sheet.get_by_label("Name").fill("fresh")
    sheet.get_by_role("button", name="Register").click()
    expect(sheet.get_by_test_id("registered")).to_be_visible()
    shown = sheet.locator("[data-token]")
    expect(shown).to_have_text(re.compile(r"^ryw_[0-9A-Za-z]{43}$"))
    token = shown.inner_text()
    runner = ScriptedRunner(product, person, "fresh", token)
    sheet.get_by_role("button", name="Run a test plan").click()
    page.wait_for_url(re.compile(r"/jobs/\d+"))
    expect(page.get_by_role("heading", name="Plan")).to_be_visible()
    [(pinned,)] = product.sql(
        "select w.name from provision_jobs j join workers w on w.id = j.pinned_worker_id where j.org_id = %s",
        person.org_id,
    )
    assert pinned == "fresh"
    runner.finish(runner.claim(), "SUCCEEDED")
    product.sql("update modules set updated_at = now() - interval '1 hour' where org_id = %s", person.org_id)
    product.sql("select private.remove_temporary_modules()")
    page.reload()
    expect(page.get_by_role("heading", name="Plan")).to_be_visible()
    modules = "select path from modules where org_id = %s and deleted_at is null"
    left = f"{modules} union all select path from groups where org_id = %s"
    assert product.sql(left, person.org_id, person.org_id) == [], "what the test created was removed, its job was not"
    page.get_by_role("link", name="Runners").first.click()
    expect(row(page, "fresh")).to_be_visible()
    expect(sheet).to_have_count(0)


def test_a_restart_of_the_dashboard_signs_nobody_out(product: Product, person: Person, sign_in: Open) -> None:
    page = sign_in(person)
    os.kill(product.stack.part_pid("dashboard"), signal.SIGKILL)
    expect(mark(page, "off")).to_be_visible()
    expect(mark(page, "live")).to_be_visible(timeout=LATER)
    page.reload()
    expect(page.get_by_role("heading", name="Runners", exact=True)).to_be_visible()
    product.runner(person, "after-the-restart")
    expect(row(page, "after-the-restart")).to_be_visible()


def test_an_address_keeps_its_query_through_the_sign_in(product: Product, person: Person, tabs: Tabs) -> None:
    page = tabs.open()
    page.goto("/dashboard/jobs?status=FAILED&type=PLAN")
    page.wait_for_url(re.compile("/login"))
    page.fill("#email", person.email)
    page.press("#email", "Enter")
    page.fill("#password", person.password)
    page.press("#password", "Enter")
    page.wait_for_url(re.compile(r"/jobs/?\?status=FAILED&type=PLAN$"))
    page.close()
    tabs.clear()


def test_signing_in_never_leads_to_another_site_and_nothing_is_requested_from_one(
    product: Product, person: Person, tabs: Tabs
) -> None:
    page = tabs.open()
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    for to in ("/%09/example.com", "//example.com", "/%5Cexample.com", "https://example.com/"):
        page.goto(f"/login?next={to}")
        page.fill("#email", person.email)
        page.press("#email", "Enter")
        page.fill("#password", person.password)
        page.press("#password", "Enter")
        page.wait_for_url(re.compile(f"^{re.escape(product.url)}/o/[^/]+/runners"))
        expect(page.get_by_test_id("no-runners")).to_be_visible()
        page.context.clear_cookies()
    assert requested
    assert [url for url in requested if not url.startswith((product.url, "data:", "blob:"))] == []
    page.close()
    tabs.clear()


def joined(product: Product, owner: Person) -> Person:
    """Somebody who was made a member of the owner's organisation, and looks at it."""
    guest = product.person("guest")
    product.sql(
        "insert into memberships (org_id, user_id, email, role) select %s, id, email, 'viewer' from auth.users where email = %s",
        owner.org_id,
        guest.email,
    )
    return guest


def test_a_removed_member_whose_tab_was_away_is_shown_nothing(product: Product, person: Person, sign_in: Open) -> None:
    guest = joined(product, person)
    product.runner(person, "not-for-guests")
    page = sign_in(guest)
    line = Line(page)
    page.reload()
    # The menu is drawn before it listens.
    expect(mark(page, "live")).to_be_visible()
    page.locator(".ry-org").click()
    page.get_by_role("menuitem", name=person.org_name).click()
    expect(row(page, "not-for-guests")).to_be_visible()
    line.cut()
    expect(mark(page, "off")).to_be_visible()
    product.sql("delete from memberships where org_id = %s and role = 'viewer'", person.org_id)
    line.mend()
    expect(page.locator(".ry-org")).to_contain_text(guest.org_name)
    expect(row(page, "not-for-guests")).to_have_count(0)
    # The address names the organisation that they have left.
    expect(page.get_by_text("You are not a member of the organisation that this link names.")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Connecting…")).to_have_count(0)
    page.close()


def test_a_member_who_is_removed_while_they_look_reads_why(product: Product, person: Person, sign_in: Open) -> None:
    guest = joined(product, person)
    product.runner(person, "seen-until-then")
    page = sign_in(guest)
    page.goto(f"/dashboard/runners?org={person.org_id}")
    expect(row(page, "seen-until-then")).to_be_visible()
    product.sql("delete from memberships where org_id = %s and role = 'viewer'", person.org_id)
    expect(page.get_by_text("You are no longer a member of the organisation that was shown here.")).to_be_visible()
    expect(page.locator(".ry-org")).to_contain_text(guest.org_name)
    expect(mark(page, "live")).to_be_visible()


def test_a_new_password_ends_the_other_sessions(product: Product, person: Person, sign_in: Open) -> None:
    page = sign_in(person)
    cookie = product.cookie(person)
    headers = {"apikey": product.stack.publishable_key}
    base = f"{product.stack.url}/auth/v1"
    body = {"email": person.email, "password": person.password}
    signed = httpx.post(f"{base}/token?grant_type=password", json=body, headers=headers, timeout=60).json()
    answer = httpx.post(
        f"{product.url}/auth/reset",
        json={"refresh_token": signed["refresh_token"], "password": "another-horse-battery"},
        headers={"Origin": product.url},
        timeout=60,
    )
    assert answer.is_success, answer.text
    refused = httpx.get(f"{product.url}/api/audit.csv", headers={"Cookie": cookie}, timeout=60)
    assert refused.status_code == 401
    page.goto("/dashboard/jobs")
    page.wait_for_url(re.compile("/login"))
    expect(page.get_by_text("Your session has ended. Sign in to return to the page you were on.")).to_be_visible()
    page.get_by_label("Email").fill(person.email)
    page.get_by_label("Email").press("Enter")
    page.get_by_label("Password").fill("another-horse-battery")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(re.compile("/jobs"))


def test_a_state_that_was_not_stored_is_listed_downloaded_and_stored(
    product: Product, person: Person, open_as: Callable[[Person], Page]
) -> None:
    runner = ScriptedRunner(product, person, "build-1")
    module = make_module(product, person, "platform/kept")
    number = enqueue(product, person, module, "APPLY")
    job = runner.claim(number)
    runner.finish(job, "FAILED")
    body = '{"version": 4, "serial": 7, "lineage": "l", "outputs": {}, "resources": []}'
    product.sql(
        "insert into private.kept_states (org_id, module_id, job_id, attempt, number, serial, lineage, body, sha256, reason,"
        " worker_name, written_at) values (%s, %s, %s, 1, 1, 7, 'l', %s, %s, 'a person released the job', 'build-1', now())",
        *(person.org_id, module, job["id"], body, hashlib.sha256(body.encode()).hexdigest()),
    )
    page = open_as(person)
    page.goto(f"/dashboard/jobs/{number}")
    kept = page.get_by_test_id("kept-states")
    expect(kept).to_contain_text("a person released the job")
    with page.expect_download() as download:
        kept.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == f"job-{number}-attempt-1-write-1.json"
    assert download.value.path().read_text() == body
    kept.get_by_role("button", name="Store").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Store state").click()
    expect(kept).to_contain_text("Stored by")
    assert product.sql("select serial from private.states where module_id = %s", module) == [(7,)]
    page.goto(f"/dashboard/modules?tab=state&module={module}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download serial 7").click()
    assert download.value.suggested_filename == "platform-kept-state-7.json"


def test_a_link_under_the_pointer_stays_readable_and_the_title_of_a_tab_names_its_content(
    product: Product, person: Person, sign_in: Open
) -> None:
    """Reflex has a colour of its own for a link under the pointer, too pale for text, and one title for a page's every item."""
    product.runner(person, "prod-eu")
    page = sign_in(person)
    name = row(page, "prod-eu").get_by_role("link", name="prod-eu")
    colour = str(name.evaluate("(el) => getComputedStyle(el).color"))
    for link in (name, page.get_by_role("link", name="Jobs", exact=True).first):
        link.hover()
        expect(link).to_have_css("color", colour)
    name.click()
    expect(page).to_have_title("prod-eu · Runyard")
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    expect(page).to_have_title("Jobs · Runyard")


def test_tables_fit_beside_their_rail_and_from_a_phone_to_a_desk(
    product: Product, person: Person, open_as: Callable[[Person], Page]
) -> None:
    runner = ScriptedRunner(product, person, "build-host-02")
    number = enqueue(product, person, make_module(product, person, "platform/network/vpc-eu-central"), "OUTPUT")
    job = runner.claim(number)
    runner.finish(job, "FAILED")
    reason = {"message": "tofu plan ended with exit code 1: Error: Reference to undeclared local value"}
    product.sql("update provision_jobs set error = %s::jsonb where id = %s", json.dumps(reason), job["id"])
    page = open_as(person)
    for path, shown, widths in (
        (f"runners/{runner.worker['id']}", "undeclared", [1280]),
        ("jobs", "vpc-eu-central", [730, 770]),
    ):
        page.goto(f"/dashboard/{path}")
        expect(page.get_by_text(shown).first).to_be_visible()
        for width in widths:
            page.set_viewport_size({"width": width, "height": 860})
            assert settled(page).evaluate(TOO_WIDE) == [], (path, width)


def test_a_sheet_scrolls_to_an_error_and_keeps_its_heading_visible(
    product: Product, person: Person, open_as: Callable[[Person], Page]
) -> None:
    make_module(product, person, "platform/vpc")
    page = open_as(person)
    page.goto("/dashboard/modules")
    page.get_by_role("button", name="New", exact=True).click()
    page.get_by_role("menuitem", name="Module").click()
    sheet = page.get_by_role("dialog", name="New module")
    sheet.get_by_label("Name", exact=True).fill("dns")
    sheet.get_by_label("Repository").fill("https://git.example.com/infra")
    sheet.get_by_label("Labels").fill("=")
    sheet.get_by_label("Name", exact=True).press("Enter")
    expect(sheet.get_by_text("is not a label")).to_be_in_viewport()
    settled(page)
    expect(sheet.get_by_role("heading", name="New module")).to_be_in_viewport()
