"""A job's page in a real browser: its facts stay true while it runs, and after it ended."""

import json
import os
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_work_pages import STEP, enqueue, id_of, make_module, owner, runner, status
from wire.records import read_keys, verify

__all__ = ["owner", "runner"]
pytestmark = pytest.mark.timeout(900)


def test_the_state_panel_follows_the_lock_of_a_running_apply(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "panel/db")
    job = runner.claim(enqueue(product, owner, module, "APPLY"))
    runner.report(job, "APPLY", [{**STEP, "name": "apply", "title": "Apply", "phase": "APPLY"}])
    page = open_as(owner)
    page.goto(f"/dashboard/jobs/{job['number']}")
    expect(status(page)).to_have_attribute("data-status", "PROCESSING")
    expect(page.get_by_test_id("state")).to_contain_text("Not locked")
    runner.lock(job)
    expect(page.get_by_test_id("state")).to_contain_text("Locked by this job")
    runner.finish(job, "FAILED")


def test_a_job_cancelled_in_the_queue_waited_and_never_ran(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    number = enqueue(product, owner, make_module(product, owner, "panel/never"), "APPLY")
    product.rpc(owner.token, "cancel_job", {"p_job": id_of(product, owner, number)})
    page = open_as(owner)
    page.goto(f"/dashboard/jobs/{number}")
    expect(status(page)).to_have_attribute("data-status", "CANCELLED")
    expect(page.get_by_text("Waited", exact=True)).to_be_visible()
    expect(page.get_by_text("No runner took this job.")).to_be_visible()
    expect(page.get_by_text("Ran for")).to_have_count(0)


def test_a_job_shows_that_its_runner_has_no_sandbox_and_that_old_details_were_removed(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    product.sql(
        'update worker_instances set facts = facts || \'{"isolation": "none"}\' where worker_id = %s',
        runner.worker["id"],
    )
    job = runner.claim(enqueue(product, owner, make_module(product, owner, "panel/open"), "PLAN"))
    runner.finish(job, "FAILED")
    page = open_as(owner)
    page.goto(f"/dashboard/jobs/{job['number']}")
    expect(page.get_by_test_id("not-isolated")).to_be_visible()
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    product.sql("update provision_jobs set slimmed_at = now(), payload = '{}', steps = '[]' where id = %s", job["id"])
    page.reload()
    expect(page.get_by_test_id("slimmed")).to_contain_text("Details were removed 90 days after it ended.")
    expect(page.get_by_role("button", name="Run again")).to_have_count(0)


def test_the_log_of_an_attempt_that_ended_too_late_can_be_downloaded(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    job = runner.claim(enqueue(product, owner, make_module(product, owner, "panel/late"), "PLAN"))
    runner.log(job, 1, "plan", "written in time\n")
    runner.vanish(job)
    runner.finish(job, "SUCCEEDED", last_seq=1)
    page = open_as(owner)
    page.goto(f"/dashboard/jobs/{job['number']}")
    with page.expect_download() as download:
        page.get_by_test_id("late-log").click()
    assert download.value.suggested_filename == f"job-{job['number']}-plan-attempt-1.log"
    assert "written in time" in download.value.path().read_text()


def test_a_change_has_a_record_that_is_signed_while_the_page_is_open(
    product: Product, owner: Person, runner: ScriptedRunner, open_as: Callable[[Person], Page]
) -> None:
    job = runner.claim(enqueue(product, owner, make_module(product, owner, "panel/recorded"), "APPLY"))
    page = open_as(owner)
    page.goto(f"/dashboard/jobs/{job['number']}")
    expect(status(page)).to_be_visible()
    expect(page.get_by_test_id("record-status")).to_have_count(0)
    runner.finish(job, "SUCCEEDED")
    expect(page.get_by_test_id("record-status")).to_contain_text("Signed, chain complete since")
    with page.expect_download() as download:
        page.get_by_test_id("signed-record").click()
    assert download.value.suggested_filename == f"record-{job['id']}.dsse.json"
    keys = httpx.get(f"{product.stack.url}/functions/v1/job-identity/.well-known/record-keys", timeout=60).json()
    record = verify(json.loads(download.value.path().read_text()), read_keys(keys))
    assert (record.path, record.operation, record.status) == ("panel/recorded", "apply", "SUCCEEDED")
    if os.environ.get("RECORD_SHOT"):
        page.screenshot(path=os.environ["RECORD_SHOT"], full_page=True)
