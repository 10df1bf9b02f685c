"""A secret from the browser's form to the engine of a real runner: sealed on the way, in no table, and masked in the log."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.product import Person, Product
from tests.e2e.test_variables_page import record_traffic
from tests.integration.test_sealed_variables import forms_of, tables_with
from tests.integration.worker_bench import Bench, open_bench
from tests.support.terminal import Terminal

pytestmark = pytest.mark.timeout(900)
SECRET = "plover-95-xyzzy-plugh"
CODE = 'variable "password" {}\noutput "length" { value = nonsensitive(length(var.password)) }\n'


@pytest.fixture
def bench(product: Product, tmp_path: Path) -> Iterator[Bench]:
    with open_bench(product.stack, tmp_path) as made:
        yield made


def test_a_secret_of_the_form_is_opened_by_a_runner_alone(
    product: Product, bench: Bench, chromium: Browser, tmp_path: Path
) -> None:
    key = tmp_path / "sealing.key"
    terminal = Terminal(tmp_path / "config", {**product.stack.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token})
    label = terminal.json("variables", "create-key", str(key))["label"]
    module = bench.module(source={"files": {"main.tf": CODE}}, hooks={"before_plan": 'echo "it is $TOKEN"'})
    path = bench.rows("modules", id=module)[0]["path"]
    account = bench.account
    person = Person(account["email"], account["password"], bench.org, "", bench.token)
    name, value = product.cookie(person).split("=", 1)
    context = chromium.new_context(base_url=product.url, reduced_motion="reduce")
    context.add_cookies([{"name": name, "value": value, "url": product.url}])
    page = context.new_page()
    seen = record_traffic(page)
    for kind, variable in (("Input", "password"), ("Environment", "TOKEN")):
        page.goto(f"/dashboard/modules/variables?path={path}")
        page.get_by_role("button", name="Add variable").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill(variable)
        if kind != "Input":
            dialog.get_by_role("combobox", name="Kind").click()
            page.get_by_role("option", name=kind).click()
        dialog.get_by_role("checkbox", name="Sensitive: sealed in this browser").click()
        dialog.get_by_label("Value").fill(SECRET)
        dialog.get_by_role("button", name="Add").click()
        expect(page.locator(f"tr[data-row={variable}]")).to_contain_text("Sealed, version 1")
    context.close()

    runner = bench.runner(RUNYARD__SEALING__KEYFILES=str(key))
    bench.rpc("update_worker", p_worker=runner.worker_id, p_options={"labels": [label]})
    done = bench.finished("APPLY", module)
    assert done["result"]["outputs"]["length"]["value"] == len(SECRET)
    log = bench.log_of(done["id"])
    assert "it is ***" in log
    forms = forms_of(SECRET)
    assert not [text for text in (*seen, log, runner.output) if any(form in text for form in forms)]
    assert tables_with(product.stack.db_url, [SECRET]) == {}
