"""A fleet that does not fit a page: filters that stay in the address, one change to many, files, and the palette."""

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from app.runners.state.add_runner import TEST_SPEC
from tests.e2e.product import Person, Product
from tests.e2e.test_runners_page import Open, person, row, sign_in
from tests.support.browser import LATER

__all__ = ["person", "sign_in"]
pytestmark = pytest.mark.timeout(600)
MANY = 1203


@pytest.fixture
def fleet(product: Product, person: Person) -> Person:
    """More runners than REST answers at once, two of them special."""
    product.sql(
        "insert into workers (org_id, name, labels, version, never_contacted, status, status_reason)"
        " select %s, 'edge-' || lpad(n::text, 4, '0'), array['tier=edge'], '1.8.2', false, 'OFFLINE', 'Stopped: it left'"
        " from generate_series(1, %s) as n",
        person.org_id,
        MANY,
    )
    product.sql(
        "update workers set labels = array['tier=edge', 'gpu=true'], region = 'eu-west-1', never_contacted = true"
        " where org_id = %s and name in ('edge-0777', 'edge-1200')",
        person.org_id,
    )
    return person


def test_runners_beyond_the_first_thousand_are_counted_found_and_sorted(fleet: Person, sign_in: Open) -> None:
    page = sign_in(fleet)
    expect(page.get_by_role("radio", name=re.compile("All"))).to_contain_text(str(MANY))
    page.locator("#runner-search").fill("edge-1203")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    page.locator("#runner-search").fill("")
    expect(row(page, "edge-0001")).to_be_visible()
    page.get_by_role("button", name="Name").click()
    expect(row(page, f"edge-{MANY}")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(row(page, f"edge-{MANY - 50}")).to_be_visible()


def test_filters_stay_in_the_address_and_apply_to_live_changes(product: Product, fleet: Person, sign_in: Open) -> None:
    page = sign_in(fleet)
    page.get_by_test_id("chip-label").click()
    page.locator("[role=menuitem][data-value='gpu=true']").click()
    expect(page.locator("tr[data-row]")).to_have_count(2)
    page.get_by_test_id("health-never_contacted").click()
    page.wait_for_url(re.compile(r"label=gpu%3Dtrue&health=never_contacted"))
    page.reload()
    expect(page.locator("tr[data-row] a[data-open]")).to_have_text(["edge-0777", "edge-1200"])
    product.sql("update workers set labels = '{gpu=true}' where org_id = %s and name = 'edge-0001'", fleet.org_id)
    product.sql("update workers set never_contacted = true where org_id = %s and name = 'edge-0001'", fleet.org_id)
    expect(row(page, "edge-0001")).to_be_visible()
    page.get_by_test_id("clear-all").click()
    expect(page.locator("tr[data-row]")).to_have_count(50)


def test_many_runners_are_drained_at_once(product: Product, fleet: Person, sign_in: Open) -> None:
    page = sign_in(fleet)
    page.get_by_role("checkbox", name="Select edge-0001").click()
    bar = page.get_by_test_id("bulk-bar")
    expect(bar).to_contain_text("1 selected")
    page.get_by_role("checkbox", name="Select this page").click()
    expect(bar).to_contain_text("50 selected")
    page.get_by_test_id("select-all").click()
    expect(bar).to_contain_text(f"{MANY} selected")
    page.get_by_test_id("bulk-drain").click()
    question = page.get_by_test_id("bulk-question")
    question.get_by_label("Reason").fill("Host maintenance")
    page.get_by_test_id("bulk-confirm").click()
    expect(bar).to_be_hidden(timeout=LATER)
    drained = "select count(*) from workers where org_id = %s and is_draining and drain_reason = 'Host maintenance'"
    assert product.sql(drained, fleet.org_id) == [(MANY,)]


def test_a_bulk_update_names_each_runner_that_refuses_it(product: Product, person: Person, sign_in: Open) -> None:
    product.runner(person, "by-hand")
    page = sign_in(person)
    page.get_by_role("checkbox", name="Select by-hand").click()
    page.get_by_test_id("bulk-update").click()
    page.get_by_test_id("bulk-confirm").click()
    expect(page.get_by_test_id("bulk-refused")).to_contain_text("by-hand")


@pytest.fixture
def queue(product: Product, person: Person) -> Iterator[Person]:
    """A long queue behind one job that runs."""
    module = {"p_org": person.org_id, "p_group_path": "bulk", "p_name": "many"}
    made = product.rpc(person.token, "create_module", {**module, "p_spec": TEST_SPEC})
    jobs = (
        "insert into provision_jobs (org_id, type, status, module_id, module_path, group_path, started_at, claimed_at)"
        " select %s, 'PLAN', %s, %s, %s, 'bulk', now(), now() from generate_series(1, %s)"
    )
    product.sql(jobs, person.org_id, "PROCESSING", made["id"], "first/of-all", 1)
    product.sql(jobs, person.org_id, "QUEUED", made["id"], "bulk/many", 1100)
    yield person
    product.sql("delete from provision_jobs where org_id = %s", person.org_id)


def test_a_running_job_is_first_among_active_jobs_and_the_csv_file_has_all_jobs(
    product: Product, queue: Person, sign_in: Open
) -> None:
    page = sign_in(queue)
    expect(page.locator("table[aria-label='Active jobs'] tr[data-row]").first).to_contain_text("first/of-all")
    page.goto("/dashboard/jobs")
    expect(page.locator("tr[data-row]").first).to_contain_text("bulk/many")
    active = page.get_by_role("radio", name=re.compile("Active"))
    expect(active).to_contain_text("1101")
    active.click()
    expect(page.locator("tr[data-row]").first).to_contain_text("first/of-all")
    with page.expect_download() as download:
        page.get_by_test_id("jobs-csv").click()
    lines = download.value.path().read_text().splitlines()
    assert len(lines) == 1102
    assert lines[0].startswith("number,type,status,module_path")
    refused = httpx.get(f"{product.url}/api/jobs.csv", timeout=60)
    assert refused.status_code == 401


def test_figures_show_an_outage_and_can_be_downloaded(product: Product, person: Person, sign_in: Open) -> None:
    outage = "insert into private.outages values (now() - interval '20 minutes', now() - interval '10 minutes')"
    product.sql(outage)
    page = sign_in(person)
    page.goto("/dashboard/figures?range=1h")
    expect(page.locator("[data-mark=outage]").first).to_be_visible()
    with page.expect_download() as download:
        page.get_by_test_id("figures-csv").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "at,jobs,succeeded,failed,p50,p95,p99,share"
    assert len(lines) == 61
    for hours in ("x", "", "5"):
        assert page.request.get(f"/api/figures.csv?hours={hours}").status == 400
    assert httpx.get(f"{product.url}/api/figures.csv", timeout=60).status_code == 401


def test_the_palette_finds_runners_and_actions_by_keys_alone(product: Product, person: Person, sign_in: Open) -> None:
    product.runner(person, "payments-eu")
    page = sign_in(person)
    expect(row(page, "payments-eu")).to_be_visible()
    page.keyboard.press("Control+k")
    dialog = page.get_by_test_id("palette")
    expect(dialog.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("payments")
    expect(dialog.get_by_role("option", name=re.compile("payments-eu"))).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/runners/[0-9a-f-]{36}"))
    expect(dialog).to_be_hidden()
    # The address changes before the page does, and each page has a palette of its own.
    expect(page.get_by_role("heading", name="payments-eu")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(dialog.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("add runner")
    expect(dialog.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Add runner")).to_be_visible()


def test_metrics_require_the_monitoring_credential(product: Product) -> None:
    assert httpx.get(f"{product.url}/metrics", timeout=60).status_code == 401
    wrong = httpx.get(f"{product.url}/metrics", headers={"Authorization": "Bearer wrong"}, timeout=60)
    assert wrong.status_code == 401
