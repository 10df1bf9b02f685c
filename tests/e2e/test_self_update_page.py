"""An outdated runner of one's own: one that updates itself receives the request, the other's command is shown."""

import json

from playwright.sync_api import expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_runners_page import Open, person, row, sign_in

__all__ = ["person", "sign_in"]
FILE = "runyard-worker-linux-x86_64.pex"
VERSION = "904.1.0"


def test_one_runner_updates_itself_and_the_other_shows_the_command_for_its_update(
    product: Product, person: Person, sign_in: Open
) -> None:
    mine = ScriptedRunner(product, person, "mine")
    ScriptedRunner(product, person, "by-hand")
    facts = json.dumps({"self_update": FILE})
    may = "update worker_instances set facts = facts || %s::jsonb where worker_id = %s"
    product.sql(may, facts, mine.worker["id"])
    files = json.dumps([{"name": FILE, "url": f"https://example.org/{FILE}", "sha256": "0" * 64}])
    product.sql("insert into worker_releases (version, artifacts) values (%s, %s::jsonb)", VERSION, files)
    try:
        page = sign_in(person)
        mine.heartbeat()
        expect(page.get_by_role("button", name="Update all (1)")).to_be_visible()
        row(page, "by-hand").get_by_role("button", name="Update", exact=True).click()
        command = page.get_by_role("alertdialog", name="Update by-hand on its machine")
        expect(command).to_contain_text("it is updated there")
        shown = command.locator("pre")
        for way, own in (("Compose", "docker compose"), ("Kubernetes", "helm upgrade"), ("systemd", "systemctl")):
            command.get_by_role("radio", name=way).click()
            expect(shown).to_contain_text(own)
            others = {"docker compose", "helm upgrade", "systemctl"} - {own}
            assert not [other for other in others if other in shown.inner_text()], "one way at a time"
        command.get_by_role("button", name="Done").click()

        # However long it took until here: who is silent for a minute does not update itself.
        mine.heartbeat()
        row(page, "mine").get_by_role("button", name="Update", exact=True).click()
        question = page.get_by_role("alertdialog", name="Update mine?")
        expect(question).to_contain_text("It updates itself.")
        question.get_by_role("button", name="Update", exact=True).click()
        expect(question).to_be_hidden()
        job = mine.claim()
        assert (job["type"], job["payload"]["lifecycle"]["version"]) == ("UPDATE_WORKER", VERSION)
        mine.finish(job, "SUCCEEDED")
    finally:
        product.sql("delete from worker_releases where version = %s", VERSION)
