"""Pages show true facts while a runner is out of contact in the middle of an apply: on the job, on the runner, live."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_trust import APPLYING
from tests.e2e.test_work_pages import enqueue, make_module, status
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)
WORDS = re.compile(r"Out of contact since \d\d:\d\d:\d\d")


def silence(product: Product, worker: str, seconds: int) -> None:
    """As if the runner's last word were so long ago."""
    silence = "update private.heartbeats set last_seen_at = now() - make_interval(secs => %s) where worker_id = %s"
    product.sql(silence, seconds, worker)


def end_leases(product: Product, worker: str) -> None:
    """As if what it was trusted with were so long ago, too."""
    product.sql("update private.live_jobs set lease_until = now() - interval '1 minute' where worker_id = %s", worker)


@pytest.fixture(scope="module")
def owner(product: Product) -> Person:
    return product.person("owner")


def test_an_apply_out_of_contact_shows_its_last_contact_its_runner_and_its_kept_state(
    product: Product, owner: Person, open_as: Callable[..., Page]
) -> None:
    runner = ScriptedRunner(product, owner, "build-host-01")
    module = make_module(product, owner, "away/apply")
    number = enqueue(product, owner, module, "APPLY")
    job = runner.claim(number)
    runner.lock(job)
    runner.report(job, "APPLY", [APPLYING])
    page = open_as(owner, timezone_id=zone_at_noon())
    page.goto(f"/dashboard/jobs/{number}")
    expect(status(page)).to_have_attribute("data-status", "PROCESSING")

    silence(product, runner.worker["id"], 45)
    note = page.get_by_test_id("out-of-contact")
    expect(note).to_contain_text(WORDS)

    def is_said() -> bool:
        said = datetime.fromisoformat(str(note.locator("ry-ago").get_attribute("at")))
        return abs((said - last_word(product, runner)).total_seconds()) < 1

    # The time is that of the runner's last word, not of when somebody noticed.
    wait_until(is_said)
    expect(note).to_contain_text("may still be running on build-host-01; its state is kept there.")

    silence(product, runner.worker["id"], 130)
    end_leases(product, runner.worker["id"])
    product.sql("select private.sweep_leases(), private.sweep_workers()")
    expect(status(page)).to_have_attribute("data-status", "NEEDS_ATTENTION")
    since = f"Out of contact since {last_word(product, runner).astimezone(UTC):%H:%M:%S}"
    expect(page.get_by_text(since).first).to_be_visible()
    expect(page.get_by_text("may still be running on build-host-01; its state is kept there.").first).to_be_visible()
    other = open_as(owner)
    other.goto(f"/dashboard/runners/{runner.worker['id']}")
    expect(status(other)).to_have_attribute("data-status", "OFFLINE")

    come_back(runner, job)
    expect(status(page)).to_have_attribute("data-status", "PROCESSING")


def zone_at_noon() -> str:
    """A time zone in which it is about noon: a page shows times of yesterday differently, and no test waits for midnight to pass."""
    return f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"


def last_word(product: Product, runner: ScriptedRunner) -> datetime:
    [(seen,)] = product.sql("select last_seen_at from private.heartbeats where worker_id = %s", runner.worker["id"])
    assert isinstance(seen, datetime)
    return seen


def come_back(runner: ScriptedRunner, job: dict[str, Any]) -> None:
    """The runner's first word: it still has the attempt."""
    running = [{"job": job["id"], "attempt": job["attempt"]}]
    runner._call("worker_heartbeat", p_status="ONLINE", p_version="1.8.2", p_running=running)
