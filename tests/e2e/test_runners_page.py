"""The runners page in a real browser, on the real product, with a real runner."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from stack.settings import PROJECT
from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.support.browser import LATER, Tabs, settled
from tests.support.stack import clean_environment

pytestmark = pytest.mark.timeout(900)

Open = Callable[..., Page]


@pytest.fixture
def person(product: Product) -> Person:
    return product.person()


@pytest.fixture
def sign_in(product: Product, tabs: Tabs) -> Iterator[Open]:
    def open_page(person: Person, **options: object) -> Page:
        # How the form signs in is shown by tests/e2e/test_accounts.py.
        page = tabs.open(product.cookie(person), **options)
        page.goto("/dashboard/runners")
        expect(page.locator("[data-link=live]:visible")).to_be_visible()
        # Rows that are new wait while the pointer rests on their table.
        page.mouse.move(0, 0)
        return page

    yield open_page
    tabs.clear()


def row(page: Page, name: str) -> Locator:
    return page.locator("tr[data-row]", has=page.get_by_role("link", name=name, exact=True))


GATES = "gates"
# Degrees on the circle of colours, and the colour of an element's text as such a number.
RED, YELLOW, GREEN = (range(-25, 20), range(25, 60), range(100, 180))
HUE = """(el) => {
  const brush = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d');
  brush.fillStyle = getComputedStyle(el).color;
  brush.fillRect(0, 0, 1, 1);
  const [r, g, b] = brush.getImageData(0, 0, 1, 1).data;
  return Math.round(Math.atan2(Math.sqrt(3) * (g - b), 2 * r - g - b) * 180 / Math.PI);
}"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """A terminal in which `runyard-worker` is installed, and an engine that can say its version."""
    tool = tmp_path / "bin" / "runyard-worker"
    tool.parent.mkdir()
    (tmp_path / GATES).mkdir()
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m worker.cli "$@"\n')
    tool.chmod(0o755)
    engine = tool.parent / "tofu"
    engine.write_text('#!/bin/sh\necho \'{"terraform_version": "1.10.5", "platform": "linux_amd64"}\'\n')
    engine.chmod(0o755)
    started: list[subprocess.Popen[bytes]] = []

    def paste(command: str) -> subprocess.Popen[bytes]:
        environment = clean_environment() | {
            "PATH": f"{tool.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(PROJECT),
            "HOME": str(tmp_path),
            # The file that holds a job must be visible to isolated jobs.
            "RUNYARD__ENGINE__ISOLATION__READONLYPATHS": str(tmp_path / GATES),
        }
        process = subprocess.Popen(
            ["bash", "-c", command], env=environment, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL
        )
        started.append(process)
        return process

    yield paste
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_an_empty_fleet_links_to_the_docs_and_a_missing_runner_is_reported(person: Person, sign_in: Open) -> None:
    page = sign_in(person)
    expect(page.get_by_test_id("no-runners")).to_be_visible()
    expect(page.get_by_test_id("no-active-jobs")).to_have_count(0)
    assert page.get_by_role("link", name="How runners work").get_attribute("href") == "/docs/runner-agent/"
    assert page.get_by_role("link", name="Scale to zero").get_attribute("href") == "/docs/scale-to-zero/"
    page.goto("/dashboard/runners/00000000-0000-4000-8000-000000000000")
    absent = page.get_by_test_id("no-such-runner")
    expect(absent.get_by_role("heading", name="Page not found", level=1)).to_be_visible()
    expect(absent).to_contain_text("The link may be wrong, or the item was removed.")
    expect(page.locator("[data-link=live]:visible")).to_be_visible()


def test_a_reload_closes_the_sheet_in_which_no_runner_was_begun(person: Person, sign_in: Open) -> None:
    page = sign_in(person)
    expect(page.get_by_test_id("no-runners")).to_be_visible()
    page.get_by_role("button", name="Add runner").first.click()
    sheet = page.get_by_role("dialog")
    expect(sheet).to_be_visible()
    page.goto("/dashboard/runners")
    expect(page.get_by_test_id("no-runners")).to_be_visible()
    expect(sheet).to_have_count(0)


def held_job(product: Product, person: Person, hold: Path) -> int:
    """Request a plan that a hook holds before its engine begins, for as long as a file exists."""
    hold.touch()
    hook = f"while [ -e {hold} ]; do sleep 0.2; done"
    spec = {"source_kind": "inline", "source": {"files": {"main.tf": ""}}, "hooks": {"before_init": hook}}
    module = {"p_org": person.org_id, "p_group_path": "platform", "p_name": "vpc", "p_spec": spec}
    made = product.rpc(person.token, "create_module", module)
    job = {"p_org": person.org_id, "p_type": "PLAN", "p_module": made["id"], "p_options": {}}
    return int(product.rpc(person.token, "enqueue_job", job)["id"])


def let_a_minute_pass(product: Product, person: Person) -> None:
    """As if the last heartbeats of somebody's runners were so long ago that they count as lost; the sweep finds that itself."""
    of_theirs = "where worker_id in (select id from workers where org_id = %s)"
    product.sql(f"update private.heartbeats set last_seen_at = now() - interval '2 minutes' {of_theirs}", person.org_id)
    product.sql(f"update private.live_jobs set lease_until = now() - interval '1 minute' {of_theirs}", person.org_id)


def test_a_runner_is_registered_started_and_lost_at_work_without_a_reload(
    product: Product,
    person: Person,
    sign_in: Open,
    shell: Callable[[str], subprocess.Popen[bytes]],
    tmp_path: Path,
) -> None:
    page = sign_in(person)
    page.keyboard.press("n")
    sheet = page.get_by_role("dialog", name="Add runner")
    expect(sheet).to_be_visible()
    sheet.get_by_label("Name").fill("build-host-03")
    sheet.get_by_role("button", name="Register").click()
    expect(sheet.get_by_test_id("registered")).to_be_visible()
    shown = sheet.locator("[data-token]")
    expect(shown).to_have_text(re.compile(r"^ryw_[0-9A-Za-z]{43}$"))
    token = shown.inner_text()
    expect(sheet.get_by_test_id("token-warning")).to_be_visible()
    assert sheet.get_by_role("link", name="How tokens are checked").get_attribute("href") == "/docs/authentication/"
    assert sheet.get_by_role("link", name="Self-hosted setup").first.get_attribute("href") == "/docs/self-hosted/"
    command = sheet.get_by_role("region", name="Start it").locator("pre").inner_text()
    assert token in command
    assert "command -v runyard-worker" in command, "one paste brings it, too"

    page.keyboard.press("Escape")
    expect(page.get_by_role("alertdialog")).to_be_visible()
    page.get_by_role("button", name="Back to the token").click()

    process = shell(command)
    expect(sheet.get_by_test_id("first-heartbeat")).to_have_attribute("data-progress", "online", timeout=LATER)
    sheet.get_by_role("button", name="Done").click()
    expect(sheet).to_be_hidden()
    page.mouse.move(0, 0)
    expect(row(page, "build-host-03").locator("[data-status=ONLINE].rt-Badge")).to_be_visible()

    page.evaluate("window.stillTheSamePage = true")
    job = page.locator(f"tr[data-row='{held_job(product, person, tmp_path / GATES / 'hold')}']")
    expect(job.locator("[data-status=PROCESSING]")).to_be_visible(timeout=LATER)
    expect(job).to_contain_text("build-host-03")
    os.killpg(process.pid, signal.SIGKILL)
    (tmp_path / GATES / "hold").unlink()
    let_a_minute_pass(product, person)
    expect(row(page, "build-host-03").locator("[data-status=OFFLINE].rt-Badge")).to_be_visible(timeout=LATER)
    expect(job.locator("[data-status=QUEUED]")).to_be_visible(timeout=LATER)
    job.get_by_role("button", name="Why waiting?").click()
    expect(page.get_by_role("table", name="Active jobs")).to_contain_text("offline", ignore_case=True)
    assert page.evaluate("window.stillTheSamePage")
    page.reload()
    expect(row(page, "build-host-03")).to_be_visible()
    assert token not in page.content()


def test_filters_and_search_have_live_counts(product: Product, person: Person, sign_in: Open) -> None:
    for name in ("prod-eu", "prod-us", "staging"):
        product.runner(person, name)
    page = sign_in(person)
    expect(page.locator("tr[data-row]")).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type("prod")
    expect(page.locator("tr[data-row]")).to_have_count(2)
    product.runner(person, "prod-apac")
    expect(page.locator("tr[data-row]")).to_have_count(3)
    expect(page.get_by_role("radio", name=re.compile("All"))).to_contain_text("3")
    page.wait_for_url(re.compile(r"\?q=prod$"))
    page.keyboard.press("Control+A")
    page.keyboard.type("prdo")
    page.get_by_test_id("show-all").click()
    expect(page.locator("tr[data-row]")).to_have_count(4)
    page.get_by_role("radio", name=re.compile("ONLINE")).click()
    expect(page.get_by_test_id("show-all")).to_be_visible()
    page.wait_for_url(re.compile(r"\?status=ONLINE$"))
    ScriptedRunner(product, person, "prod-live")
    expect(row(page, "prod-live")).to_be_visible()
    page.get_by_role("radio", name=re.compile("All")).click()
    show_colours_and_dates(product, person, page)


def show_colours_and_dates(product: Product, person: Person, page: Page) -> None:
    """A badge has the colour of its status, and a row the date on which the runner was registered."""
    leaving = ScriptedRunner(product, person, "prod-leaving").worker["id"]
    # Its heartbeat stays recent for the whole test.
    heard = "update private.heartbeats set last_seen_at = now() + interval '1 hour' where worker_id in "
    product.sql(f"{heard} (select id from workers where org_id = %s)", person.org_id)
    product.rpc(person.token, "drain_worker", {"p_worker": leaving})
    expect(row(page, "staging").locator("[data-status=OFFLINE].rt-Badge")).to_have_text("Not started")
    product.sql("update workers set never_contacted = false where org_id = %s and name = 'staging'", person.org_id)
    shown = (("prod-live", "ONLINE", GREEN), ("prod-leaving", "DRAINING", YELLOW), ("staging", "OFFLINE", RED))
    for name, status, hue in shown:
        badge = row(page, name).locator(f"[data-status={status}].rt-Badge")
        expect(badge).to_have_text(status)
        assert badge.evaluate(HUE) in hue, f"{status} is shown in another colour"
    page.set_viewport_size({"width": 1800, "height": 900})
    registered = "update workers set created_at = '2025-03-12 12:00+00' where org_id = %s and name = 'staging'"
    product.sql(registered, person.org_id)
    expect(row(page, "staging").get_by_role("cell", name="12 Mar 2025")).to_be_visible()


@pytest.fixture
def no_release_left(product: Product) -> Iterator[None]:
    """Leave no runner behind that is older than those of the next test."""
    yield
    product.sql("delete from worker_releases where version like '901.%%'")


@pytest.mark.usefixtures("no_release_left")
def test_an_older_runner_brings_the_alert_and_notes_are_only_text(
    product: Product, person: Person, sign_in: Open
) -> None:
    hostile = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    notes = f"### Fixed\n- A lease survives a sleep.\n\n{hostile}"
    file = {"name": "runyard-worker-linux-x86_64", "url": "https://example.com/w", "sha256": "ab" * 32}
    product.sql(
        "insert into worker_releases (version, notes, artifacts) values ('901.2.0', %s, '[]'), ('901.10.0', 'Newer', %s) "
        "on conflict do nothing",
        notes,
        json.dumps([file]),
    )
    product.runner(person, "old-one")
    product.sql("update workers set version = '901.2.0' where org_id = %s", person.org_id)
    page = sign_in(person)
    expect(page.get_by_test_id("outdated")).to_contain_text("1 runner is older than 901.10.0")
    page.get_by_role("button", name="What is new").click()
    dialog = page.get_by_role("dialog", name="Release notes")
    expect(dialog).to_contain_text("Newer")
    expect(dialog.get_by_role("link", name=file["name"])).to_have_attribute("href", file["url"])
    expect(dialog).to_contain_text(file["sha256"])
    dialog.get_by_role("button", name="901.2.0").click()
    expect(dialog).to_contain_text("A lease survives a sleep.")
    expect(dialog).to_contain_text("<script>")
    assert page.title() != "owned"
    page.keyboard.press("Escape")
    product.sql("update workers set version = '901.10.0' where org_id = %s", person.org_id)
    expect(page.get_by_test_id("outdated")).to_have_count(0)


def test_a_breaking_release_is_read_about_before_everything_is_updated(
    product: Product, person: Person, sign_in: Open
) -> None:
    product.sql("insert into worker_releases (version, notes, is_breaking) values ('902.0.0', 'Move the file', true)")
    try:
        product.runner(person, "in-the-cloud")
        product.sql("update workers set version = '1.0.0', type = 'cloud-hosted' where org_id = %s", person.org_id)
        page = sign_in(person)
        page.get_by_role("button", name="Update all (1)").click()
        question = page.get_by_role("alertdialog", name="Update all?")
        expect(question).to_contain_text("902.0.0 changes something that you may rely on.")
        act = question.get_by_role("button", name="Update all")
        expect(act).to_be_disabled()
        question.get_by_role("button", name="Read the notes").click()
        notes = page.get_by_role("dialog", name="Release notes")
        expect(notes).to_contain_text("Move the file")
        # To the notes: a key that comes before they have the focus would close the question.
        notes.press("Escape")
        expect(notes).to_be_hidden()
        question.get_by_role("checkbox").click()
        expect(act).to_be_enabled()
    finally:
        product.sql("delete from worker_releases where version = '902.0.0'")


def test_two_people_of_two_organisations_see_only_their_own(product: Product, sign_in: Open) -> None:
    mine, theirs = product.person("mine"), product.person("theirs")
    here, there = sign_in(mine), sign_in(theirs)
    product.runner(mine, "only-mine")
    expect(row(here, "only-mine")).to_be_visible()
    expect(there.get_by_test_id("no-runners")).to_be_visible()
    assert "only-mine" not in there.content()


def test_a_runners_page_shows_its_facts_and_saves_changes(product: Product, person: Person, sign_in: Open) -> None:
    product.rpc(person.token, "upsert_group", {"p_org": person.org_id, "p_path": "platform"})
    product.runner(person, "k8s-platform", labels=["env=prod"])
    page = sign_in(person)
    row(page, "k8s-platform").get_by_role("link", name="k8s-platform").click()
    expect(page.get_by_role("heading", name="k8s-platform")).to_be_visible()
    expect(page.get_by_text("env=prod")).to_be_visible()
    page.get_by_role("button", name="Assign").click()
    page.get_by_label("Group or module").fill("plat")
    expect(page.locator("#offered option[value=platform]")).to_have_count(1)
    page.get_by_label("Group or module").fill("platform")
    page.get_by_role("dialog").get_by_role("button", name="Assign").click()
    expect(page.locator("[data-assignment=platform]")).to_contain_text("Group, 0 modules")
    page.get_by_role("switch", name="Several instances").click()
    expect(page.get_by_role("switch", name="Several instances")).to_be_checked()
    saved = "select allow_multiple_instances from workers where org_id = %s"
    assert product.sql(saved, person.org_id) == [(True,)]


def test_a_runner_is_added_without_a_token_and_its_commands_contain_no_secret(
    product: Product, person: Person, sign_in: Open
) -> None:
    trust = {"issuer": "https://oidc.example.com", "audience": "runyard", "bound_claims": {"sub": "pods"}}
    spec = {"p_org": person.org_id, "p_spec": {"name": "k8s-runner", "trusts": [trust]}}
    client_id = product.rpc(person.token, "create_service_account", spec)["client_id"]
    page = sign_in(person)
    page.get_by_role("button", name="Add runner").first.click()
    sheet = page.get_by_role("dialog", name="Add runner")
    sheet.get_by_label("Name", exact=True).fill("of-an-account")
    sheet.get_by_role("combobox", name="Service account").click()
    page.get_by_role("option", name="k8s-runner").click()
    sheet.get_by_role("button", name="Register").click()
    expect(sheet.get_by_test_id("account-credentials")).to_be_visible()
    expect(sheet.get_by_text("issuer: https://oidc.example.com")).to_be_visible()
    for way in ("Shell", "Docker", "Compose", "systemd", "Kubernetes"):
        sheet.get_by_role("radio", name=way).click()
        expect(sheet.get_by_role("radio", name=way)).to_be_checked()
        command = sheet.get_by_label("Start it", exact=True)
        expect(command).to_contain_text(client_id)
        expect(command).not_to_contain_text("ryw_")
        if way in ("Docker", "Compose"):
            expect(command).not_to_contain_text("127.0.0.1")
    expect(command).to_contain_text("put an address there that the cluster reaches")
    sheet.get_by_role("button", name="Done").click()
    expect(sheet).to_be_hidden()
    made = "select count(*) from private.worker_tokens as t join workers as w on w.id = t.worker_id where w.name = %s"
    assert product.sql(made, "of-an-account") == [(0,)]


def test_an_admin_edits_a_runners_record_and_the_database_can_refuse_the_change(
    product: Product, person: Person, sign_in: Open
) -> None:
    spec = {
        "name": "k8s-runner",
        "trusts": [{"issuer": "https://oidc.example.com", "audience": "runyard", "bound_claims": {"sub": "x"}}],
    }
    product.rpc(person.token, "create_service_account", {"p_org": person.org_id, "p_spec": spec})
    product.runner(person, "taken")
    product.runner(person, "build-host-07")
    page = sign_in(person)
    page.get_by_role("button", name="More actions for build-host-07").click()
    page.get_by_role("menuitem", name="Edit").click()
    form = page.get_by_role("dialog", name="Edit build-host-07")
    form.get_by_label("Capacity").fill("0")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_test_id("error-capacity")).to_have_text("A whole number from 1 to 256.")
    form.get_by_label("Capacity").fill("6")
    form.get_by_label("Name", exact=True).fill("taken")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_test_id("error-form")).to_contain_text("There is already a runner called")
    form.get_by_label("Name", exact=True).fill("build-host-08")
    form.get_by_label("Labels").fill("gpu=true zone=eu")
    form.get_by_role("checkbox", name="Destroy").click()
    form.get_by_role("combobox", name="Service account").click()
    page.get_by_role("option", name="k8s-runner").click()
    form.get_by_role("button", name="Save").click()
    expect(form).to_be_hidden()
    row(page, "build-host-08").get_by_role("link", name="build-host-08").click()
    expect(page.get_by_text("zone=eu")).to_be_visible()
    expect(page.get_by_text("k8s-runner")).to_be_visible()
    saved = "select capacity, labels, 'DESTROY' = any(accepted_job_types) from workers where name = 'build-host-08' and org_id = %s"
    assert product.sql(saved, person.org_id) == [(6, ["gpu=true", "zone=eu"], False)]
    page.get_by_role("button", name="Edit", exact=True).click()
    expect(page.get_by_role("dialog", name="Edit build-host-08").get_by_label("Capacity")).to_have_value("6")


def test_a_narrow_screen_has_cards_tabs_the_account_menu_and_nothing_to_scroll_sideways(
    product: Product, person: Person, sign_in: Open
) -> None:
    product.runner(person, "a-runner-with-a-rather-long-name-for-a-phone")
    page = sign_in(person, viewport={"width": 390, "height": 844})
    expect(row(page, "a-runner-with-a-rather-long-name-for-a-phone")).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs")).to_be_visible()
    assert settled(page).evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Organisation and account").click()
    for name in ("New organisation", "Documentation", "Release notes", "Sign out"):
        expect(page.get_by_role("menuitem", name=name)).to_be_visible()
    page.get_by_role("menuitem", name="Sign out").click()
    page.wait_for_url(re.compile("/login"))
