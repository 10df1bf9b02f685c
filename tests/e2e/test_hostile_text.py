"""Text from users, runners and git hosts in a real browser: it is shown as it is, runs nothing and becomes no attribute or link."""

import json
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_git_pages import SEALED, URL, Site, commit, make_modules
from tests.e2e.test_work_pages import STEP, make_module

pytestmark = pytest.mark.timeout(900)
TEXT = '"><img src=x onerror=window.owned=1>'
HOSTILE = (
    f'{TEXT}<svg onload="window.owned=1"></svg><script>window.owned=1</script>'
    "[x](javascript:window.owned=1)<a href='javascript:window.owned=1'>x</a>"
)
# Whatever could run: a handler, or an address that is a script.
INJECTED = """() => window.owned ? ["a script ran"] : [...document.querySelectorAll("*")].flatMap((element) =>
  [...element.attributes]
    .filter((each) => each.name.startsWith("on") || /^\\s*(javascript|vbscript|data:text)/i.test(each.value))
    .map((each) => `${element.tagName} ${each.name}=${each.value}`))"""


def shows_safely(page: Page, *places: Locator) -> None:
    """The text is on the page, letter for letter, and has no other effect."""
    for place in places or (page.locator("body"),):
        expect(place.first).to_contain_text(TEXT)
    assert page.evaluate(INJECTED) == []


@pytest.fixture(scope="module")
def person(product: Product) -> Person:
    found = product.person("hostile")
    product.sql("update organizations set name = %s where id = %s", TEXT, found.org_id)
    return found


@pytest.fixture(scope="module")
def job(product: Product, person: Person) -> int:
    """A plan whose every text is hostile, as a module, its runner and its engine could write them."""
    module = make_module(product, person, "net/vpc", description=HOSTILE)
    runner = ScriptedRunner(product, person, "bench-1")
    worker = runner.worker["id"]
    product.sql("update worker_instances set hostname = %s, last_error = %s where worker_id = %s", TEXT, TEXT, worker)
    rules = {
        "name": "hostile",
        "level": "advisory",
        "source": HOSTILE,
        "files": {"a.rego": f"package main\n# {HOSTILE}"},
    }
    product.rpc(person.token, "attach_policy", {"p_org": person.org_id, "p_path": "net", "p_spec": rules})
    arguments = {"p_org": person.org_id, "p_type": "PLAN", "p_module": module, "p_options": {"reason": HOSTILE}}
    number = int(product.rpc(person.token, "enqueue_job", arguments)["number"])
    claimed = runner.claim()
    runner.report(claimed, "PLAN", [{**STEP, "title": HOSTILE}])
    runner.log(claimed, 1, "plan", f"{HOSTILE}\n\x1b]8;;javascript:window.owned=1\x07{TEXT}\x1b]8;;\x07\n")
    attribute = {"path": HOSTILE, "kind": "change", "before": HOSTILE, "after": HOSTILE}
    changed = {"address": HOSTILE, "action": "update", "unchanged": 1, "attributes": [attribute]}
    runner.artifact(claimed, "changes.json", json.dumps({"resources": [changed]}).encode())
    resource = {"address": HOSTILE, "type": HOSTILE, "name": HOSTILE, "action": "update"}
    message = dict.fromkeys(("rule", "kind", "text", "resource", "hint"), HOSTILE)
    (given,) = claimed["payload"]["policies"]
    checks = [{"id": given["id"], "verdict": "failed", "messages": [message]}]
    runner._call("worker_record_checks", p_job=claimed["id"], p_attempt=claimed["attempt"], p_checks=checks)
    summary = {"update": 1, "has_changes": True, "resources": [resource], "outputs": [HOSTILE]}
    runner.finish(claimed, "SUCCEEDED", summary=summary, last_seq=1)
    return number


def test_injected_markup_would_be_noticed(chromium: Browser) -> None:
    page = chromium.new_page()
    page.set_content(HOSTILE)
    page.wait_for_function("window.owned")
    assert page.evaluate(INJECTED) == ["a script ran"]
    page.set_content("<a href=' JavaScript:0'>x</a><p onclick='0'>y</p>")
    page.evaluate("() => { window.owned = 0 }")
    assert page.evaluate(INJECTED) == ["A href= JavaScript:0", "P onclick=0"]
    page.close()


def test_a_job_its_plan_and_its_log_run_nothing(person: Person, job: int, open_as: Any) -> None:
    page = open_as(person)
    page.goto(f"/dashboard/jobs/{job}")
    resource = page.get_by_test_id("plan-resource")
    shows_safely(page, resource, page.locator("#L1"), page.locator("#L2"))
    resource.get_by_role("button", expanded=False).first.click()
    shows_safely(page, page.get_by_test_id("plan-attributes"), page.get_by_test_id("check"))
    page.goto("/dashboard/jobs")
    expect(page.get_by_text(f"#{job}", exact=True).first).to_be_visible()
    assert page.evaluate(INJECTED) == []


def test_modules_runners_and_the_palette_run_nothing(person: Person, job: int, open_as: Any) -> None:
    assert job
    page = open_as(person)
    page.goto("/dashboard/modules?path=net/vpc")
    shows_safely(page)
    page.goto("/dashboard/runners")
    page.get_by_role("link", name="bench-1").first.click()
    shows_safely(page)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").first.fill(TEXT)
    page.keyboard.type(" vpc")
    assert page.evaluate(INJECTED) == []


def test_settings_run_nothing(product: Product, person: Person, open_as: Any) -> None:
    org = {"p_org": person.org_id}
    rule = {"channel": "slack", "events": ["job.failed"], "path": "", "address": SEALED, "address_hint": TEXT}
    product.rpc(person.token, "create_notification_rule", {**org, "p_spec": rule})
    variables = [{"name": "shown", "kind": "input", "value": HOSTILE}]
    product.rpc(person.token, "set_variables", {**org, "p_path": "", "p_variables": variables})
    product.sql(
        "insert into deliveries (org_id, rule_id, event, event_id, subject, title)"
        " select org_id, id, 'job.failed', 'hostile', 'job:1', %s from notification_rules where org_id = %s",
        HOSTILE, person.org_id,
    )  # fmt: skip
    page = open_as(person)
    for name in ("notifications", "variables", "organisation", "members", "audit", "policies"):
        page.goto(f"/dashboard/settings/{name}")
        shows_safely(page)


def test_a_change_its_deliveries_and_triggers_run_nothing(product: Product, open_as: Any) -> None:
    person = product.person("change")
    modules = make_modules(product, person)
    spec = {"provider": "gitea", "url": URL, "webhook_secret": SEALED, "poll_seconds": 0}
    made = product.rpc(person.token, "connect_repository", {"p_org": person.org_id, "p_spec": spec})
    site = Site(product, person, ScriptedRunner(product, person, "reader"), str(made["id"]), modules)
    site.push(1)
    site.read(1, dns="d1", vpc="v1")
    pull = {
        "number": 7, "title": HOSTILE, "base": "main", "head_commit": commit(5), "head_branch": TEXT,
        "is_fork": False, "is_draft": False, "is_open": True, "author": TEXT,
    }  # fmt: skip
    event = {"delivery_id": TEXT, "event": "pull_request", "action": TEXT, "sender": TEXT, "pull": pull}
    product.sql("select public.receive_git_delivery(%s, %s::jsonb)", site.connection, json.dumps(event))
    product.sql("update git_deliveries set ref = %s, reason = %s where delivery_id = %s", TEXT, HOSTILE, TEXT)
    page = open_as(person)
    page.goto("/dashboard/settings/git")
    deliveries = page.get_by_role("region", name="Deliveries")
    shows_safely(page, deliveries)
    deliveries.get_by_role("link", name="Pull request #7").first.click()
    shows_safely(page, page.get_by_role("heading", level=1), page.locator(".ry-facts"))
    page.goto("/dashboard/jobs/schedules")
    expect(page.locator("tr[data-row]").first).to_be_visible()
    assert page.evaluate(INJECTED) == []
