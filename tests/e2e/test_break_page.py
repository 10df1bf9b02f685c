"""“Break something” in a browser: in the demo the steps and the zeros appear; elsewhere there is no button, and a reason."""

import stat
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Browser, Page, expect

from cli.launcher.demo.prepare import DEMO_EMAIL
from tests.e2e.product import Person, Product
from tests.e2e.test_accessibility import findings_in_both, sideways
from tests.faults.test_break_something import ask, owner, path_of, send, sign_in
from tests.support.browser import settled
from tests.support.stack import RunningStack

__all__ = ["owner"]
pytestmark = pytest.mark.timeout(900)
# A fault, a restart, a person's decision and a second apply.
DRILL = 400_000
PAGE = "/dashboard/break-something"
# The steps whose mark is not in the middle of their first line.
BELOW = """() => [...document.querySelectorAll('[data-testid=fault-steps] li')].filter((step) => {
    const [mark, text] = [step.querySelector('svg'), step.querySelector('span')];
    const [box, line] = [mark.getBoundingClientRect(), parseFloat(getComputedStyle(text).lineHeight)];
    return Math.abs((box.top + box.bottom) / 2 - text.getBoundingClientRect().top - line / 2) > 2;
}).map((step) => step.textContent)"""


@pytest.fixture(scope="module")
def demo_product(demo: RunningStack) -> Product:
    return Product(demo)


def open_demo(demo: Product, chromium: Browser, **options: Any) -> Page:
    """Sign in as the account that `make up` names."""
    owner = Person(DEMO_EMAIL, demo.stack.secrets.demo_password, "", "", "")
    context = chromium.new_context(base_url=demo.url, **options)
    name, _, value = demo.cookie(owner).partition("=")
    context.add_cookies([{"name": name, "value": value, "url": demo.url}])
    return context.new_page()


def test_a_runner_killed_in_its_apply_is_reported_step_by_step_and_the_ledger_stays_zero(
    demo_product: Product, chromium: Browser
) -> None:
    page = open_demo(demo_product, chromium)
    page.goto("/dashboard/runners")
    page.get_by_role("link", name="Break something").click()
    page.get_by_test_id("break-apply").click()
    expect(page.get_by_test_id("break-apply")).to_be_disabled()
    steps = page.get_by_test_id("fault-steps")
    expect(steps).to_contain_text("Killed build-host-01", timeout=DRILL)
    expect(steps).to_contain_text("never run again automatically", timeout=DRILL)
    expect(page.get_by_test_id("fault-ended")).to_have_attribute("data-ended", "recovered", timeout=DRILL)
    counts = page.locator('[data-testid^="count-"]')
    expect(counts).to_have_count(11)
    expect(page.locator('[data-testid^="count-"][data-count="0"]')).to_have_count(11)
    expect(page.get_by_test_id("count-double_applied")).to_contain_text("applies")
    expect(page.get_by_test_id("break-apply")).to_be_enabled()
    assert settled(page).evaluate(BELOW) == []
    page.context.close()


def test_the_buttons_and_the_ledger_have_no_serious_finding_and_fit_a_phone(
    demo_product: Product, chromium: Browser
) -> None:
    page = open_demo(demo_product, chromium, reduced_motion="reduce")
    page.goto(PAGE)
    expect(page.get_by_test_id("count-double_applied")).to_be_visible()
    assert findings_in_both(page) == []
    page.set_viewport_size({"width": 390, "height": 800})
    assert sideways(page) == []
    page.context.close()


def test_another_organisation_of_the_same_stack_has_no_button(demo_product: Product, chromium: Browser) -> None:
    person = demo_product.person("other")
    context = chromium.new_context(base_url=demo_product.url)
    name, _, value = demo_product.cookie(person).partition("=")
    context.add_cookies([{"name": name, "value": value, "url": demo_product.url}])
    page = context.new_page()
    page.goto(PAGE)
    expect(page.get_by_test_id("no-faults")).to_be_visible()
    expect(page.get_by_test_id("break-apply")).to_have_count(0)
    context.close()


def test_without_a_demo_no_button_exists_and_the_page_gives_the_reason(
    product: Product, open_as: Callable[[Person], Page]
) -> None:
    page = open_as(product.person("hosted"))
    page.goto("/dashboard/runners")
    expect(page.get_by_role("heading", name="Runners", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Break something")).to_have_count(0)
    page.goto(PAGE)
    expect(page.get_by_test_id("no-faults")).to_contain_text("belong to somebody")


def test_only_the_owner_of_the_demo_can_break_something(demo: RunningStack) -> None:
    other = sign_in(demo, f"{uuid.uuid4().hex[:8]}@example.org", "correct-horse-battery", "signup")
    assert "Only an owner" in ask(demo, do="break", kind="apply", token=other)["refused"]
    assert "login" in ask(demo, do="break", kind="apply", token="nonsense")["refused"]
    assert not (ask(demo, do="read")["run"] or {}).get("is_running")


def test_the_socket_is_its_users_alone(demo: RunningStack) -> None:
    assert stat.S_IMODE(path_of(demo).stat().st_mode) == 0o600


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[]", b'{"do": "anything"}', b'{"do": 1}'])
def test_an_invalid_request_is_refused_with_a_reason_and_a_hint(demo: RunningStack, line: bytes) -> None:
    answer = send(demo, line)
    assert answer["refused"]
    assert answer["hint"]


def test_an_unknown_fault_is_refused(demo: RunningStack, owner: str) -> None:
    assert "no such fault" in ask(demo, do="break", kind="everything", token=owner)["refused"]


def test_nothing_is_broken_while_somebody_s_job_runs(demo: RunningStack, owner: str) -> None:
    """Somebody's: any module that the demo did not bring, the demo organisation's own included."""
    with psycopg.connect(demo.db_url, autocommit=True) as database:
        query = """select m.org_id, m.id from public.modules as m join public.organizations as o on o.id = m.org_id
          where o.slug = 'example-platform' limit 1"""
        org, module = database.execute(query).fetchone() or ("", "")
        with database.transaction(force_rollback=False):
            job = database.execute(
                """insert into public.provision_jobs (org_id, type, module_id, module_path, created_by_label)
                  values (%s, 'PLAN', %s, 'my/own', 'somebody') returning id""",
                [org, module],
            ).fetchone()
            database.execute(
                """insert into private.live_jobs (job_id, org_id, state_key, stage, priority, attempt, claimed_at, log_day,
                    worker_id, instance_id, session_id, claim_request_id, lease_until)
                  select %s, %s, gen_random_uuid(), 'RUNNING', 100, 1, now(), current_date, gen_random_uuid(),
                    gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), now() + interval '1 hour'""",
                [job and job[0], org],
            )
        try:
            assert "Somebody's job is running" in ask(demo, do="break", kind="apply", token=owner)["refused"]
        finally:
            database.execute("delete from private.live_jobs where job_id = %s", [job and job[0]])
            database.execute("delete from public.provision_jobs where id = %s", [job and job[0]])
