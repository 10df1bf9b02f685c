"""Moving in and changing a state, in a real browser on the real product."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_work_pages import SUMMARY, make_module

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def owner(product: Product) -> Person:
    return product.person("owner")


@pytest.fixture(scope="module")
def runner(product: Product, owner: Person) -> ScriptedRunner:
    return ScriptedRunner(product, owner)


def test_a_state_is_changed_from_its_panel(product: Product, owner: Person, open_as: Callable[[Person], Page]) -> None:
    module, other = make_module(product, owner, "apps/split"), make_module(product, owner, "apps/rest")
    body = json.dumps({"version": 4, "serial": 1, "lineage": "l", "resources": []})
    product.rpc(owner.token, "push_state", {"p_module": module, "p_body": body})
    page = open_as(owner)
    page.goto(f"/dashboard/modules?tab=state&module={module}")
    page.get_by_role("region", name="State versions").get_by_role("button", name="Change").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_label("From address").fill("terraform_data.a")
    dialog.get_by_label("To address").fill("terraform_data.b")
    dialog.get_by_label("Into another module").fill("apps/rest")
    dialog.get_by_role("button", name="Queue the change").click()
    page.wait_for_url(re.compile(r"/jobs/\d+"))
    expect(page.get_by_text("Move terraform_data.a to terraform_data.b of apps/rest").first).to_be_visible()
    (asked,) = product.sql(
        "select type::text, payload #> '{options,state_change}' from public.provision_jobs where module_id = %s", module
    )
    change = {"action": "move", "addresses": ["terraform_data.a"], "to": "terraform_data.b", "module": other}
    assert asked == ("STATE", change)


def test_a_repository_moves_in_with_its_state(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page], tmp_path: Path
) -> None:
    page = open_as(owner)
    page.goto("/dashboard/modules/move-in")
    page.get_by_label("Git URL", exact=True).fill("https://git.example.com/infra/legacy.git")
    page.get_by_label("Group").fill("legacy")
    page.get_by_role("button", name="Read").click()
    page.wait_for_url(re.compile(r"move-in\?job=\d+"))
    reading = runner.claim(int(page.url.rpartition("=")[2]))
    assert reading["payload"]["survey"]["group"] == "legacy"
    root = {"engine": "tofu", "required_version": "", "workspaces": [], "problem": ""}
    roots = [
        {**root, "folder": "core", "path": "legacy/core", "backend": "s3"},
        {**root, "folder": "edge", "path": "legacy/edge", "backend": "s3"},
        {**root, "folder": "live", "path": "legacy/live", "engine": "terragrunt", "backend": "", "problem": "Not yet."},
    ]
    runner.finish(reading, "SUCCEEDED", result={"roots": roots})
    table = page.get_by_role("table", name="Root modules")
    expect(table.get_by_role("row", name=re.compile("core"))).to_contain_text("S3")
    expect(table.get_by_role("checkbox", name="Bring live")).to_be_disabled()
    table.get_by_role("checkbox", name="Bring edge").click()
    page.get_by_test_id("bring").click()
    moved = page.get_by_role("table", name="State and first plan").get_by_role("row", name="legacy/core")
    expect(moved).to_contain_text("Copying and planning")
    (plan,) = product.sql(
        "select number, payload -> 'options' from public.provision_jobs where module_path = 'legacy/core' and org_id = %s",
        owner.org_id,
    )
    assert plan[1] == {"bring_state": True}
    state = {"serial": 212, "lineage": "l", "resources": 64, "backend": "s3"}
    summary = {**SUMMARY, "create": 0, "update": 0, "has_changes": False, "resources": []}
    runner.finish(runner.claim(plan[0]), "SUCCEEDED", result={"brought_state": state}, summary=summary)
    expect(moved).to_contain_text("serial 212, 64 resources, from S3")
    expect(moved.get_by_text("No changes")).to_have_attribute("data-accent-color", "green")
    expect(table.get_by_role("row")).to_have_count(3)
    page.get_by_role("radio", name="Upload").click()
    (tmp_path / "infra.tar.gz").write_bytes(b"packed")
    page.get_by_label("Archive").set_input_files(tmp_path / "infra.tar.gz")
    page.get_by_label("Group").fill("packed")
    before = page.url
    page.get_by_role("button", name="Read").click()
    page.wait_for_url(lambda url: url != before and "job=" in url)
    sent = runner.claim(int(page.url.rpartition("=")[2]))
    assert (sent["payload"]["survey"]["name"], sent["payload"]["survey"]["group"]) == ("infra", "packed")
    runner.finish(sent, "FAILED")
    expect(page.get_by_test_id("not-read")).to_be_visible()
    expect(page.get_by_text("Read: infra")).to_be_visible()
