"""Twenty modules with bindings and OpenTofu itself, in a browser: applied from empty, changed at the root, cascaded, destroyed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.product import Person, Product
from tests.integration.test_dependencies import is_quiet
from tests.integration.test_dependency_lattice import STEPS, WIDTH, expected, fill, out_of_order, seen
from tests.integration.worker_bench import Bench, open_bench
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
LONG_MS = 1_800_000


@pytest.fixture
def bench(product: Product, tmp_path: Path) -> Iterator[Bench]:
    with open_bench(product.stack, tmp_path) as made:
        yield made


@pytest.fixture
def page(product: Product, bench: Bench, chromium: Browser) -> Iterator[Page]:
    """The group's page, for the bench's owner."""
    account = bench.account
    person = Person(account["email"], account["password"], bench.org, "", bench.token)
    name, value = product.cookie(person).split("=", 1)
    context = chromium.new_context(base_url=product.url, reduced_motion="reduce")
    context.add_cookies([{"name": name, "value": value, "url": product.url}])
    page = context.new_page()
    yield page
    context.close()


def test_group_of_twenty_lives_and_ends_in_a_browser(
    product: Product, bench: Bench, page: Page, tmp_path: Path
) -> None:
    terminal = Terminal(tmp_path / "config", {**product.stack.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token})
    names = [f"n{place}" for place in range(WIDTH)]
    edges = fill(bench, names)
    bench.rpc("replace_dependencies", p_org=bench.org, p_path="grid", p_dependencies=edges)
    bench.runner(options={"capacity": 2})
    all_done = f"{STEPS * WIDTH} of {STEPS * WIDTH} done"
    page.goto("/dashboard/modules?path=grid")
    page.get_by_role("button", name="Apply all in order").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Apply all").click()
    expect(page.get_by_test_id("set-progress").first).to_have_text(all_done, timeout=LONG_MS)
    assert (seen(terminal), out_of_order(bench, "APPLY")) == (expected(names), [])

    names[1] = "changed"
    root = bench.rows("modules", org_id=bench.org, path="grid/s0-m1")[0]["id"]
    bench.rpc("update_module", p_module=root, p_spec={"inputs": {"name": names[1]}})
    bench.finished("APPLY", root)
    page.goto("/dashboard/modules/graph?path=grid")
    expect(page.get_by_text(f"{STEPS * WIDTH} modules in {STEPS} steps.")).to_be_visible()
    wait_until(lambda: seen(terminal) == expected(names), timeout_seconds=1800, every_seconds=5)
    wait_until(lambda: is_quiet(bench), timeout_seconds=600, every_seconds=1)
    expect(page.get_by_text("Inputs changed")).to_have_count(0)

    page.goto("/dashboard/modules?path=grid")
    page.get_by_role("button", name="Group actions").click()
    page.get_by_role("menuitem", name="Destroy all").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_label("Type grid to confirm").fill("grid")
    dialog.get_by_role("button", name="Destroy all").click()
    destroys = page.get_by_role("region", name="Destroy", exact=True)
    expect(destroys.get_by_test_id("set-progress")).to_have_text(all_done, timeout=LONG_MS)
    assert out_of_order(bench, "DESTROY") == []
