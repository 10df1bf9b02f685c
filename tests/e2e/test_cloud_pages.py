"""Cloud-hosted runners in a real browser: the sheet's first tab, the alert, the waves, scaling; AWS is moto's server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import TOKEN, ScriptedRunner
from tests.e2e.test_runners_page import Open, person, row, sign_in
from tests.integration.cloud.conftest import aws, aws_endpoint
from tests.integration.cloud.fargate import Fargate
from tests.integration.worker_bench import Bench, find_tofu
from tests.support.browser import LATER
from tests.support.waiting import wait_until

__all__ = ["aws", "aws_endpoint", "person", "sign_in"]
pytestmark = pytest.mark.timeout(900)
REGION = "eu-west-1"
ROLE = "arn:aws:iam::123456789012:role/runyard-deployer"
TYPES = ["DEPLOY_WORKER", "UPDATE_WORKER", "REMOVE_WORKER", "VERIFY_IDENTITY"]
Publish = Callable[[str], None]
BESIDE = """(code) => {
  const [text, copy] = ["pre", ".cp"].map((at) => code.querySelector(at).getBoundingClientRect());
  return text.right <= copy.left;
}"""


@pytest.fixture
def publish(product: Product) -> Iterator[Publish]:
    """Publish releases that no other test sees afterwards."""
    made: list[str] = []

    def one(version: str) -> None:
        made.append(version)
        product.sql("insert into worker_releases (version, notes) values (%s, %s)", version, f"What {version} brings")

    yield one
    for version in made:
        product.sql("delete from worker_releases where version = %s", version)


@pytest.fixture
def cloud(product: Product, person: Person, aws: str, tmp_path: Path) -> Iterator[Bench]:
    """A runner with rights in the cloud, and somebody who starts the tasks."""
    tofu = find_tofu()
    if tofu is None:
        pytest.skip("OpenTofu is not there; `make engines` provides it")
    bench = Bench(product.stack, tmp_path, tofu, person.token, person.org_id)
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    with Fargate(tasks, tofu):
        bench.runner(
            options={"name": "deployer", "accepted_job_types": TYPES},
            RUNYARD__SCALING__POLLSECONDS="0.5",
            RUNYARD__SCALING__IMAGEREPOSITORY="registry.test/runyard-worker",
        )
        yield bench
        bench.close()


def open_cloud_form(page: Page) -> Locator:
    """The sheet, once the tab is shown: both forms have a name, and what is typed before goes to the other one."""
    page.get_by_role("button", name="Add runner").click()
    sheet = page.get_by_role("dialog", name="Add runner")
    sheet.get_by_role("tab", name="Cloud-hosted").click()
    expect(sheet.get_by_role("tabpanel", name="Cloud-hosted")).to_be_visible()
    return sheet


def identity(product: Product, person: Person, **more: Any) -> str:
    spec = {"name": "aws-production", "role_arn": ROLE, "regions": [REGION], **more}
    made = product.rpc(person.token, "create_cloud_identity", {"p_org": person.org_id, "p_spec": spec})
    return str(made["id"])


@pytest.mark.slow
def test_an_identity_is_tested_deployed_with_updated_and_scaled_to_zero(
    product: Product, person: Person, sign_in: Open, cloud: Bench, publish: Publish
) -> None:
    publish("902.1.0")
    identity(product, person)
    page = sign_in(person)
    sheet = open_cloud_form(page)
    expect(sheet.get_by_text("Not tested yet")).to_be_visible()
    deploy = sheet.get_by_role("button", name="Deploy")
    expect(deploy).to_be_disabled()
    sheet.get_by_role("button", name="Test connection").click()
    expect(deploy).to_be_enabled(timeout=LATER)

    sheet.get_by_label("Name").fill("prod-eu")
    deploy.click()
    expect(sheet.get_by_role("heading", name="Deploying prod-eu")).to_be_visible()
    for title in ("IAM roles", "Network and security group", "Task definition", "First heartbeat"):
        expect(sheet.get_by_role("listitem").filter(has_text=title)).to_have_count(1)
    expect(sheet.get_by_text("prod-eu is online.")).to_be_visible(timeout=LATER)
    sheet.get_by_role("button", name="Close").last.click()
    expect(row(page, "prod-eu").locator("[data-status=ONLINE].rt-Badge")).to_be_visible()
    expect(row(page, "prod-eu")).to_contain_text(REGION)

    update_all(page, publish)
    sleep_and_say_why(product, person, page)
    secret_is_nowhere(product, page)


def update_all(page: Page, publish: Publish) -> None:
    """The alert appears automatically; the waves proceed automatically."""
    publish("902.2.0")
    expect(page.get_by_text("2 runners are older than 902.2.0")).to_be_visible()
    page.get_by_role("button", name="What is new").click()
    notes = page.get_by_role("dialog", name="Release notes")
    expect(notes).to_contain_text("What 902.2.0 brings")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Update all (1)").click()
    page.get_by_role("alertdialog", name="Update all?").get_by_role("button", name="Update all").click()
    # How a rollout looks on its way is another test's: this one may be over before it was seen.
    expect(row(page, "prod-eu")).to_contain_text("902.2.0", timeout=LATER)
    expect(page.get_by_role("status", name="Rollout")).to_be_hidden(timeout=LATER)
    # The remaining one runs on a machine of ours: it is notified, and the page names the next step there.
    expect(page.get_by_text("1 runner is older than 902.2.0")).to_be_visible()
    page.get_by_role("button", name="How to update").click()
    question = page.get_by_role("alertdialog", name="Update on your machines")
    expect(question.locator(".ry-code pre")).to_contain_text("902.2.0")
    assert question.locator(".ry-code").evaluate(BESIDE), "the copy button covers no text"
    question.get_by_role("button", name="Done").click()


def sleep_and_say_why(product: Product, person: Person, page: Page) -> None:
    """Limits are set on the runner's page; the decision appears there with its reason."""
    row(page, "prod-eu").get_by_role("link", name="prod-eu", exact=True).click()
    expect(page.locator(".ry-facts")).to_contain_text("Jobs may protect their own task")
    limits = page.get_by_role("region", name="Scaling", exact=True)
    limits.get_by_label("Minimum tasks").fill("3")
    limits.get_by_role("button", name="Save").click()
    expect(limits.get_by_text("No more than the maximum.")).to_be_visible()
    limits.get_by_label("Minimum tasks").fill("0")
    limits.get_by_label("Idle time, seconds").fill("30")
    limits.get_by_role("button", name="Save").click()
    saved = "select scaling ->> 'idle_seconds' from workers where org_id = %s and name = 'prod-eu'"
    wait_until(lambda: product.sql(saved, person.org_id) == [("30",)])
    # The least that the form takes; nobody waits for it here.
    hurry = """update workers set scaling = scaling || '{"idle_seconds": 1}' where org_id = %s and name = 'prod-eu'"""
    product.sql(hurry, person.org_id)
    ledger = page.get_by_role("region", name="Scaling decisions")
    expect(ledger).to_contain_text("1 → 0", timeout=LATER)
    expect(page.locator("[data-status=OFFLINE].rt-Badge", has_text="Scaled to zero")).to_be_visible(timeout=LATER)


def secret_is_nowhere(product: Product, page: Page) -> None:
    """The deployed runner's token is in its secret, and in nothing that a person or a table shows."""
    client = boto3.client("secretsmanager")
    [name] = [entry["Name"] for entry in client.list_secrets()["SecretList"]]
    token = client.get_secret_value(SecretId=name)["SecretString"]
    assert token.startswith("ryw_")
    assert token not in page.content()
    assert product.sql("select count(*) from job_log_chunks as c where strpos(c::text, %s) > 0", token) == [(0,)]
    assert product.sql("select count(*) from provision_jobs as j where strpos(j::text, %s) > 0", token) == [(0,)]


def test_testing_an_identity_that_does_not_work_names_the_missing_subnet(
    product: Product, person: Person, sign_in: Open, cloud: Bench
) -> None:
    identity(product, person, network={"subnets": ["subnet-0a1b2c3d"]})
    page = sign_in(person)
    page.goto("/dashboard/settings/cloud-identities")
    entry = page.locator("tr[data-row]", has_text="aws-production")
    expect(entry).to_contain_text("Not tried yet")
    page.get_by_role("button", name="More actions for aws-production").click()
    page.get_by_role("menuitem", name="Test connection").click()
    expect(entry).to_contain_text("subnet-0a1b2c3d", timeout=LATER)
    expect(entry).to_contain_text("The network cannot be used in eu-west-1")


def fleet(product: Product, person: Person, names: list[str], version: str) -> ScriptedRunner:
    """Cloud-hosted runners as their records say, and a runner that takes the jobs about them."""
    hand = ScriptedRunner(product, person, "hand")
    key = identity(product, person)
    product.sql("update cloud_identities set verified_at = now() where org_id = %s", person.org_id)
    for name in names:
        arguments = {"p_org": person.org_id, "p_name": name, "p_cloud_identity": key, "p_region": REGION}
        product.rpc(person.token, "deploy_worker", arguments)
        hand.finish(hand.claim(), "SUCCEEDED")
    product.sql("update workers set version = %s where org_id = %s and type = 'cloud-hosted'", version, person.org_id)
    return hand


def test_a_rollout_proceeds_in_waves_pauses_at_a_failure_and_is_resumed_and_aborted(
    product: Product, person: Person, sign_in: Open, publish: Publish
) -> None:
    publish("903.1.0")
    hand = fleet(product, person, [f"cloud-{number}" for number in range(6)], "903.1.0")
    publish("903.2.0")
    page = sign_in(person)
    page.get_by_role("button", name="Update all (6)").click()
    page.get_by_role("alertdialog", name="Update all?").get_by_role("button", name="Update all").click()
    rollout = page.get_by_role("status", name="Rollout")
    expect(rollout).to_contain_text("wave 1 of 3, 0 of 6 updated")

    hand.finish(hand.claim(), "SUCCEEDED")
    expect(rollout).to_contain_text("wave 2 of 3, 1 of 6 updated")
    rollout.get_by_role("button", name="Pause").click()
    expect(rollout).to_contain_text("Paused")
    rollout.get_by_role("button", name="Resume").click()
    expect(rollout.get_by_role("button", name="Pause")).to_be_visible()

    hand.finish(hand.claim(), "FAILED")
    expect(rollout).to_contain_text("Paused")
    expect(rollout).to_contain_text("did not succeed")
    expect(rollout.get_by_role("listitem").filter(has_text="Wave 2")).to_contain_text("1 failed")

    rollout.get_by_role("button", name="Abort").click()
    question = page.get_by_role("alertdialog", name="Abort the rollout?")
    question.get_by_role("button", name="Abort").click()
    # What is behind an open question is hidden from everybody's readers, and found by no role.
    expect(question).to_be_hidden()
    expect(rollout).to_be_hidden()
    waiting = "select count(*) from provision_jobs where org_id = %s and status = 'QUEUED'"
    assert product.sql(waiting, person.org_id) == [(0,)]

    row(page, "cloud-0").get_by_role("button", name="Deploy", exact=True).click()
    again = page.get_by_role("alertdialog", name="Deploy cloud-0?")
    again.get_by_role("button", name="Deploy").click()
    expect(again).to_be_hidden()
    assert hand.claim()["type"] == "DEPLOY_WORKER"


def test_a_failed_deployment_is_tried_again_or_rolled_back(product: Product, person: Person, sign_in: Open) -> None:
    hand = fleet(product, person, [], "1.0.0")
    page = sign_in(person)
    sheet = open_cloud_form(page)
    sheet.get_by_label("Name").fill("half-made")
    sheet.get_by_role("button", name="Deploy").click()
    expect(sheet.get_by_role("heading", name="Deploying half-made")).to_be_visible()
    hand.finish(hand.claim(), "FAILED")
    sheet.get_by_role("button", name="Try again").click()
    expect(sheet.get_by_role("button", name="Try again")).to_be_hidden()
    second = hand.claim()
    assert second["type"] == "DEPLOY_WORKER"
    hand.finish(second, "FAILED")
    sheet.get_by_role("button", name="Roll back").click()
    expect(sheet.get_by_role("heading", name="Rolling back half-made")).to_be_visible()
    removal = hand.claim()
    assert removal["type"] == "REMOVE_WORKER"
    hand.finish(removal, "SUCCEEDED")
    expect(sheet.get_by_text("Everything it created was removed.")).to_be_visible()
    sheet.get_by_role("button", name="Close").last.click()
    expect(sheet).to_be_hidden()
    # What the heartbeats of living runners do every few seconds; here there is none.
    product.sql("select private.sweep()")
    expect(row(page, "half-made")).to_be_hidden()


def test_role_image_version_and_count_of_the_sheet_reach_the_deployment(
    product: Product, person: Person, sign_in: Open
) -> None:
    hand = fleet(product, person, [], "1.0.0")
    page = sign_in(person)
    sheet = open_cloud_form(page)
    sheet.get_by_label("Name").fill("with-a-role")
    sheet.get_by_text("Role, image, version and count").click()
    role = "arn:aws:iam::123456789012:role/what-jobs-may-do"
    given = {"Task role": role, "Image": "registry.test/runner", "Version": "7.8.9", "Tasks": "many"}
    for label, text in given.items():
        sheet.get_by_role("textbox", name=label, exact=True).fill(text)
    sheet.get_by_role("button", name="Deploy").click()
    expect(page.locator("[data-sonner-toast]", has_text="That is not a number of tasks.")).to_be_visible()

    sheet.get_by_role("textbox", name="Tasks", exact=True).fill("2")
    sheet.get_by_role("button", name="Deploy").click()
    expect(sheet.get_by_role("heading", name="Deploying with-a-role")).to_be_visible()
    told = hand.claim()["payload"]["lifecycle"]
    assert {key: told[key] for key in ("task_role_arn", "image", "version", "desired_count")} == {
        "task_role_arn": role, "image": "registry.test/runner", "version": "7.8.9", "desired_count": 2,
    }  # fmt: skip


def test_starting_and_scaled_to_zero_are_shown_instead_of_offline(
    product: Product, person: Person, sign_in: Open, chromium: Browser
) -> None:
    fleet(product, person, ["sleeper"], "1.0.0")
    product.sql("update workers set is_scaled_to_zero = true where org_id = %s and name = 'sleeper'", person.org_id)
    page = sign_in(person)
    expect(row(page, "sleeper")).to_contain_text("Scaled to zero")
    waking = (
        "update workers set is_scaled_to_zero = false, desired_count = 1, status_reason = 'Starting',"
        " cloud = cloud || jsonb_build_object('starting_at', now()) where org_id = %s and name = 'sleeper'"
    )
    product.sql(waking, person.org_id)
    expect(row(page, "sleeper").locator("[data-status=OFFLINE].rt-Badge")).to_have_text("Starting")


def test_a_record_s_processes_are_under_it_each_with_its_own_badge(
    product: Product, person: Person, sign_in: Open
) -> None:
    first = ScriptedRunner(product, person, "twins")
    several = {"p_worker": first.worker["id"], "p_options": {"allow_multiple_instances": True}}
    product.rpc(person.token, "update_worker", several)
    second = ScriptedRunner(product, person, "twins", token=TOKEN, instance="second")
    page = sign_in(person)
    # However long it took until here: who is silent for a minute is not online.
    first.heartbeat()
    second.heartbeat()
    row(page, "twins").get_by_role("button", name="Instances of twins").click()
    under = page.locator("tr.sub")
    expect(under).to_have_count(2)
    expect(under.locator("[data-status=ONLINE].rt-Badge")).to_have_count(2)
    second.leave()
    first.heartbeat()
    expect(under.locator("[data-status=ONLINE].rt-Badge")).to_have_count(1)
    expect(row(page, "twins").locator("[data-status=ONLINE].rt-Badge")).to_be_visible()
