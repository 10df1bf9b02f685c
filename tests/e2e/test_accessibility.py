"""Every page under axe, light and dark: no finding that is serious or critical."""

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_work_pages import STEP, SUMMARY, enqueue, make_module

pytestmark = pytest.mark.timeout(900)
SOON = 30_000
MODES = ("light", "dark")
PUBLIC = ("/login", "/sign-up", "/forgotten", "/reset-password", "/invite")
PAGES = {
    "/dashboard/runners": "lively",
    "/dashboard/runners/{runner}": "Assignments",
    "/dashboard/jobs": "payments/ledger",
    "/dashboard/jobs/{waiting}": "Why is it waiting?",
    "/dashboard/jobs/{running}": "Timeline",
    "/dashboard/jobs/{lost}": "nobody knows how far it got",
    "/dashboard/jobs/{review}": "Confirm and apply",
    "/dashboard/modules?module={module}": "ledger",
    "/dashboard/modules?path=payments": "in the order they are tried",
    "/dashboard/account": "Sign-in",
    "/dashboard/settings/members": "Members",
    "/dashboard/settings/cloud-identities": "Cloud identities",
    "/dashboard/settings/service-accounts": "k8s-runner",
    "/dashboard/settings/releases": "Releases",
    "/dashboard/settings/audit": "Audit log",
    "/dashboard/settings/organisation": "Organisation",
    "/welcome": "organisation",
}


@pytest.fixture(scope="module")
def person(product: Product) -> Person:
    return product.person("axe")


@pytest.fixture(scope="module")
def things(product: Product, person: Person) -> dict[str, Any]:
    """One of everything that a page can show: a waiting job, a running one with a log and a plan, a lost one."""
    runner = ScriptedRunner(product, person, "lively")
    module = make_module(product, person, "payments/ledger")
    lost = runner.claim(enqueue(product, person, make_module(product, person, "payments/db"), "APPLY"))
    runner.report(lost, "APPLY", [{**STEP, "name": "apply", "title": "Apply", "phase": "APPLY"}])
    runner.lock(lost)
    runner.vanish(lost)
    running = runner.claim(enqueue(product, person, module, "PLAN"))
    runner.report(running, "PLAN", [STEP])
    runner.log(running, 1, "plan", "\x1b[32mterraform_data.one\x1b[0m will be created\n\x1b[31mError\x1b[0m: none\n")
    planned = runner.claim(enqueue(product, person, make_module(product, person, "payments/cdn"), "PLAN"))
    runner.finish(planned, "SUCCEEDED", summary=SUMMARY)
    to_review = runner.claim(
        enqueue(product, person, make_module(product, person, "payments/queue"), "PLAN", confirm=True)
    )
    runner.finish(to_review, "SUCCEEDED", summary=SUMMARY)
    ((review,),) = product.sql("select id from public.provision_jobs where plan_job_id = %s", to_review["id"])
    waiting = enqueue(product, person, make_module(product, person, "payments/gpu", labels=["gpu=true"]), "PLAN")
    spec = {
        "name": "k8s-runner",
        "trusts": [{"issuer": "https://oidc.example.com", "audience": "runyard", "bound_claims": {"sub": "x"}}],
    }
    product.rpc(person.token, "create_service_account", {"p_org": person.org_id, "p_spec": spec})
    product.runner(person, "silent")
    return {
        "runner": runner.worker["id"],
        "module": module,
        "lost": lost["id"],
        "running": running["id"],
        "waiting": waiting,
        "review": review,
    }


@pytest.fixture(scope="module", params=MODES)
def context(
    request: pytest.FixtureRequest, product: Product, person: Person, chromium: Browser
) -> Iterator[BrowserContext]:
    made = chromium.new_context(base_url=product.url, color_scheme=request.param, reduced_motion="reduce")
    name, value = product.cookie(person).split("=", 1)
    made.add_cookies([{"name": name, "value": value, "url": product.url}])
    yield made
    made.close()


def findings(page: Page) -> list[str]:
    """What axe calls serious or critical, one line for each place."""
    told = Axe().run(page).response["violations"]
    return [
        f"{item['impact']} {item['id']}: {node['target']} {node['html'][:200]} {node['any'][:1]}"
        for item in told
        if item["impact"] in ("serious", "critical")
        for node in item["nodes"]
    ]


@pytest.mark.parametrize("path", PUBLIC)
def test_a_page_for_everybody_has_no_serious_finding(context: BrowserContext, path: str) -> None:
    page = context.new_page()
    page.goto(path)
    expect(page.get_by_role("heading").first).to_be_visible(timeout=SOON)
    assert findings(page) == []
    page.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_behind_the_sign_in_has_no_serious_finding(
    context: BrowserContext, things: dict[str, Any], path: str
) -> None:
    page = context.new_page()
    page.goto(path.format(**things))
    expect(page.get_by_text(PAGES[path]).first).to_be_visible(timeout=SOON)
    assert findings(page) == []
    page.close()


def test_the_add_runner_sheet_has_no_serious_finding(context: BrowserContext, things: dict[str, Any]) -> None:
    page = context.new_page()
    page.goto("/dashboard/runners")
    page.get_by_role("button", name="Add runner").click()
    expect(page.get_by_role("dialog", name="Add runner").get_by_label("Capacity")).to_be_visible(timeout=SOON)
    assert findings(page) == []
    page.close()


def test_the_form_of_a_runner_has_no_serious_finding(context: BrowserContext, things: dict[str, Any]) -> None:
    page = context.new_page()
    page.goto(f"/dashboard/runners/{things['runner']}")
    page.get_by_role("button", name="Edit", exact=True).click()
    expect(page.get_by_role("dialog").get_by_label("Capacity")).to_be_visible(timeout=SOON)
    assert findings(page) == []
    page.close()


def test_the_run_dialog_with_its_options_has_no_serious_finding(
    context: BrowserContext, things: dict[str, Any]
) -> None:
    page = context.new_page()
    page.goto(f"/dashboard/modules?module={things['module']}")
    page.get_by_role("button", name="Apply", exact=True).click()
    page.get_by_test_id("run-options").click()
    expect(page.get_by_label("Targets")).to_be_visible(timeout=SOON)
    assert findings(page) == []
    page.close()
