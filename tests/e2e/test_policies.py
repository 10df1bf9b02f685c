"""Policies in a browser: a set is attached, a plan that fails it waits, and an override with a reason lets it be confirmed."""

import base64
import hashlib
import json
import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_review import SUMMARY
from tests.e2e.test_work_pages import enqueue, make_module, owner, runner, status

__all__ = ["owner", "runner"]

RULES = 'package main\ndeny contains "no cost tag" if { true }'
FOUND = {"rule": "deny", "kind": "deny", "text": "no cost tag", "resource": "a.queue", "hint": "Add the tag cost."}


def attach(page: Page) -> None:
    """Attach a set on the page of the settings."""
    page.goto("/dashboard/settings/policies")
    page.get_by_role("button", name="Add policy set").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("cost-tags")
    dialog.get_by_label("Group or module").fill("checked")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog).to_contain_text("Write at least one rule.")
    dialog.get_by_label("Rules").fill(RULES)
    dialog.get_by_role("combobox", name="Level").click()
    page.get_by_role("option", name="Overridable").click()
    expect(dialog).to_contain_text("Somebody with policy.override overrides with a reason.")
    dialog.get_by_role("button", name="Add").click()
    row = page.locator("tr[data-row=cost-tags]")
    expect(row).to_contain_text(re.compile("checked.*Overridable", re.DOTALL))


def test_failed_check_waits_for_an_override_with_a_reason(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "checked/queue")
    page = open_as(owner)
    attach(page)
    number = enqueue(product, owner, module, "PLAN", confirm=True)
    job = runner.claim(number)
    checks = [{"id": each["id"], "verdict": "failed", "messages": [FOUND]} for each in job["payload"]["policies"]]
    runner._call("worker_record_checks", p_job=job["id"], p_attempt=job["attempt"], p_checks=checks)
    runner.finish(job, "SUCCEEDED", summary=SUMMARY)

    page.goto(f"/dashboard/jobs/{number}")
    check = page.get_by_test_id("check")
    expect(check).to_have_attribute("data-verdict", "failed")
    expect(check).to_contain_text("a.queue")
    expect(check).to_contain_text("Add the tag cost.")
    expect(page.get_by_test_id("decision")).to_contain_text("Override 1 check first.")
    expect(page.get_by_test_id("confirm")).to_be_disabled()
    check.get_by_label("Reason for the override").fill("Tag follows with release 1.5")
    check.get_by_role("button", name="Override check").click()
    expect(check).to_have_attribute("data-verdict", "overridden")
    expect(check).to_contain_text("“Tag follows with release 1.5”")
    page.get_by_test_id("confirm").click()
    expect(status(page)).to_have_attribute("data-status", "QUEUED")


def test_command_is_attached_on_the_page_and_its_cost_is_shown_with_its_findings(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "priced/queue")
    page = open_as(owner)
    page.goto("/dashboard/settings/policies")
    page.get_by_role("button", name="Add policy set").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("cost")
    dialog.get_by_label("Group or module").fill("priced")
    dialog.get_by_role("combobox", name="Made of").click()
    page.get_by_role("option", name="A command").click()
    dialog.get_by_label("Command").fill("sh -c 'price")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog).to_contain_text("A quote has no end.")
    dialog.get_by_label("Command").fill("sh -c 'price > {results}/cost.json'")
    dialog.get_by_role("checkbox", name="May reach the network").click()
    dialog.get_by_role("button", name="Add").click()
    row = page.locator("tr[data-row=cost]")
    expect(row).to_contain_text("priced")

    number = enqueue(product, owner, module, "PLAN", confirm=True)
    job = runner.claim(number)
    attempt = {"p_job": job["id"], "p_attempt": job["attempt"]}
    (policy,) = runner._call("worker_policies", **attempt)["sets"]
    command = {"argv": ["sh", "-c", "price > {results}/cost.json"], "network": True}
    assert json.loads(policy["files"]["command.json"]) == command
    warning = {
        "rule": "S-1",
        "kind": "warn",
        "text": "open port",
        "resource": "main.tf:3",
        "hint": "See https://example.org",
    }
    cost = {"monthly_before": 10, "monthly_after": 22.5, "monthly_delta": 12.5}
    found = {"id": policy["id"], "verdict": "warned", "messages": [warning], "cost": cost}
    runner._call("worker_record_checks", **attempt, p_checks=[found])
    runner.finish(job, "SUCCEEDED", summary=SUMMARY)

    page.goto(f"/dashboard/jobs/{number}")
    check = page.get_by_test_id("check")
    expect(check).to_contain_text("10.00 → 22.50 a month (+12.50), 1 finding")
    check.locator("summary").click()
    expect(check).to_contain_text(re.compile("main.tf:3.*open port.*S-1 \\(warning\\)", re.DOTALL))

    page.goto("/dashboard/settings/policies")
    row.get_by_role("button").click()
    page.get_by_role("menuitem", name="Edit").click()
    expect(dialog.get_by_label("Command")).to_have_value("sh -c 'price > {results}/cost.json'")
    expect(dialog.get_by_role("checkbox", name="May reach the network")).to_be_checked()


def test_rules_are_tested_over_earlier_plans_and_attached_from_the_result(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "tested/queue")
    planned = runner.claim(enqueue(product, owner, module, "PLAN"))
    body = {"p_body_base64": base64.b64encode(b"x").decode(), "p_sha256": hashlib.sha256(b"x").hexdigest()}
    attempt = {"p_job": planned["id"], "p_attempt": planned["attempt"]}
    runner._call("worker_put_artifact", **attempt, p_name="redacted-plan.json.gz", **body)
    runner.finish(planned, "SUCCEEDED", summary=SUMMARY)
    page = open_as(owner)
    page.goto("/dashboard/settings/policies")
    page.get_by_role("button", name="Add policy set").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("later")
    dialog.get_by_label("Group or module").fill("tested")
    dialog.get_by_label("Rules").fill(RULES)
    dialog.get_by_role("combobox", name="Level").click()
    page.get_by_role("option", name="Back-test first").click()
    dialog.get_by_role("button", name="Add").click()
    page.wait_for_url(re.compile(r"/jobs/\d+"))
    job = runner.claim(int(page.url.rstrip("/").rpartition("/")[2]))
    attempt = {"p_job": job["id"], "p_attempt": job["attempt"]}
    (plan,) = runner._call("worker_policy_test", **attempt, p_found=[])["plans"]
    found = {"plan": plan["plan"], "verdict": "failed", "messages": [FOUND]}
    runner._call("worker_policy_test", **attempt, p_found=[found])
    runner.finish(job, "SUCCEEDED")
    panel = page.get_by_test_id("policy-test")
    expect(panel).to_contain_text(re.compile("Unclear.*0.*Neither passed nor refused", re.DOTALL))
    expect(panel).to_contain_text("1 of 1")
    expect(panel.get_by_test_id("tested-rule")).to_contain_text(
        re.compile("deny.*1 plan of 1 module.*a.queue", re.DOTALL)
    )
    panel.get_by_role("button", name="Attach").click()
    expect(page.get_by_text("Plans that are requested from now on are checked with it.")).to_be_visible()
    page.goto("/dashboard/settings/policies")
    expect(page.locator("tr[data-row=later]")).to_contain_text(re.compile("tested.*Overridable", re.DOTALL))
