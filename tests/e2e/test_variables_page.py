"""Variables in a real browser: what a module is given, where it comes from, and setting one."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Page, Request, WebSocket, expect

from tests.e2e.product import Person, Product
from tests.e2e.runner import ScriptedRunner
from tests.e2e.test_work_pages import enqueue, make_module, owner
from worker.api.replies import GivenVariable
from worker.attempt.variables import Keys

__all__ = ["owner"]
pytestmark = pytest.mark.timeout(900)


def put(product: Product, owner: Person, path: str, name: str, value: Any, **more: Any) -> None:
    variables = [{"kind": "input", "name": name, "value": value, **more}]
    product.rpc(owner.token, "set_variables", {"p_org": owner.org_id, "p_path": path, "p_variables": variables})


def test_the_tab_in_the_address_of_a_group_or_module_opens_its_variables(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    make_module(product, owner, "tabbed/one")
    page = open_as(owner)
    for path in ("tabbed", "tabbed/one"):
        page.goto(f"/dashboard/modules?tab=variables&path={path}")
        page.wait_for_url(re.compile(rf"/modules/variables/?\?path={path}$"))
        tabs = page.get_by_role("navigation", name="Parts of the page")
        expect(tabs.get_by_role("link", name="Variables")).to_have_attribute("aria-current", "page")


def test_a_module_shows_its_variables_and_a_new_value_hides_the_inherited_one(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    module = make_module(product, owner, "given/one", inputs={"size": 3})
    put(product, owner, "given", "region", "eu-west-1")
    page = open_as(owner)
    page.goto(f"/dashboard/modules?module={module}")
    page.get_by_role("navigation", name="Parts of the page").get_by_role("link", name="Variables").click()
    page.wait_for_url(re.compile(r"/modules/variables\?path=given/one$"))
    expect(page.locator("tr[data-row=size]")).to_contain_text("Set here")
    inherited = page.locator("tr[data-row=region]")
    expect(inherited).to_contain_text("given")
    expect(inherited.get_by_role("button")).to_have_count(0)

    page.get_by_role("button", name="Add variable").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("region")
    dialog.get_by_label("Value").fill("us-east-1")
    dialog.get_by_role("button", name="Add").click()
    expect(inherited).to_contain_text('"us-east-1"')
    expect(inherited).to_contain_text('hides "eu-west-1" from given')

    job = enqueue(product, owner, module, "PLAN")
    page.goto(f"/dashboard/jobs/{job}")
    given = page.get_by_role("region", name="Variables")
    expect(given).to_contain_text("given/one, version 1")
    expect(given).not_to_contain_text("us-east-1")
    # The next job and the next module have variables of their own.
    other = make_module(product, owner, "given/next")
    page.goto(f"/dashboard/jobs/{enqueue(product, owner, other, 'PLAN')}")
    expect(given).to_contain_text("given, version 1")
    page.goto("/dashboard/modules/variables?path=given/next")
    expect(page.locator("tr[data-row=region]")).to_contain_text('"eu-west-1"')
    expect(page.locator("tr[data-row=region]")).to_contain_text("given")
    page.goto("/dashboard/modules/variables?path=given/one")

    page.get_by_role("button", name="More actions for region").click()
    page.get_by_role("menuitem", name="Remove").click()
    page.get_by_role("button", name="Remove variable").click()
    expect(inherited).to_contain_text('"eu-west-1"')


def make_old(product: Product, owner: Person, name: str) -> None:
    with psycopg.connect(product.stack.db_url) as connection:
        statement = (
            "update public.variables set created_at = now() - interval '31 days' where org_id = %s and name = %s"
        )
        connection.execute(statement, [owner.org_id, name])


def test_a_value_is_edited_live_and_a_token_is_warned_about(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    make_module(product, owner, "given/two", inputs={"size": 3})
    page = open_as(owner)
    page.goto("/dashboard/modules/variables?path=given/two")
    size = page.locator("tr[data-row=size]")
    expect(size).to_contain_text("3")
    put(product, owner, "given/two", "size", 4)
    expect(size).to_contain_text("4")
    page.get_by_role("button", name="More actions for size").click()
    page.get_by_role("menuitem", name="Edit").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Value")).to_have_value("4")
    dialog.get_by_label("Value").fill("AKIA" + "ABCDEFGHIJKLMNOP")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The value looks like a key or token.")).to_be_visible()
    page.goto("/dashboard/modules/variables?path=given")
    expect(page.get_by_role("heading", name="given", exact=True)).to_be_visible()
    expect(size).to_have_count(0)
    make_old(product, owner, "size")
    page.goto("/dashboard/modules/variables")
    unused = page.get_by_role("region", name="Unused variables")
    expect(unused).to_contain_text("given/two")


def record_traffic(page: Page) -> list[str]:
    """Everything that the page sends and receives from now on, as text."""
    seen: list[str] = []

    def keep(payload: bytes | str | None) -> None:
        seen.append(payload.decode("latin-1") if isinstance(payload, bytes) else payload or "")

    def listen(socket: WebSocket) -> None:
        socket.on("framesent", keep)
        socket.on("framereceived", keep)

    def note(request: Request) -> None:
        keep(request.url)
        keep(request.post_data_buffer)

    page.on("websocket", listen)
    page.on("request", note)
    return seen


def stored(product: Product, owner: Person, name: str) -> GivenVariable:
    with psycopg.connect(product.stack.db_url) as connection:
        query = """select jsonb_build_object('kind', kind, 'name', name, 'value', value, 'is_hcl', is_hcl, 'path', path,
          'is_enforced', is_enforced, 'key_id', key_id) from public.variables where org_id = %s and name = %s and ended_at is null"""
        found = connection.execute(query, [owner.org_id, name]).fetchone()
    assert found is not None
    return GivenVariable.model_validate(found[0])


def test_a_secret_is_sealed_in_the_browser_and_only_the_runners_key_opens_it(
    product: Product, owner: Person, open_as: Callable[[Person], Page], tmp_path: Path
) -> None:
    make_module(product, owner, "given/three")
    file = tmp_path / "sealing.key"
    page = open_as(owner)
    seen = record_traffic(page)
    page.goto("/dashboard/modules/variables?path=given/three")
    page.get_by_role("button", name="Add variable").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("settings")
    dialog.get_by_role("checkbox", name="Sensitive: sealed in this browser").click()
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_have_text("Create the key first.")
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Create key").click()
    download.value.save_as(file)
    expect(dialog).to_contain_text("nobody sees it again")
    (made,) = product.sql("select id from sealing_keys where org_id = %s", owner.org_id)
    expect(dialog).to_contain_text(f"sealing-key={made[0]}")
    dialog.get_by_label("Value").fill('{"token": "plover-93-ü", "size": 12345678901234567890}')
    dialog.get_by_role("button", name="Add").click()
    expect(page.locator("tr[data-row=settings]")).to_contain_text("Sealed, version 1")

    page.get_by_role("button", name="More actions for settings").click()
    page.get_by_role("menuitem", name="Who can use it").click()
    users = page.get_by_role("alertdialog")
    expect(users).to_contain_text("given/three")
    expect(users).to_contain_text(f"{owner.email} (owner)")
    users.get_by_role("button", name="Done").click()
    expect(page.locator("tr[data-row=settings]")).to_contain_text("Never")
    page.get_by_role("button", name="More actions for settings").click()
    page.get_by_role("menuitem", name="Replace value").click()
    dialog.get_by_label("Value").fill("plover-94-xyzzy")
    first = stored(product, owner, "settings")
    dialog.get_by_role("button", name="Save").click()
    expect(page.locator("tr[data-row=settings]")).to_contain_text("Sealed, version 2")

    _, opened = Keys.read([file]).open_all([first, stored(product, owner, "settings")])
    assert [each.value for each in opened] == [
        {"token": "plover-93-ü", "size": 12345678901234567890},
        "plover-94-xyzzy",
    ]
    assert any(str(first.value) in each for each in seen), "the box itself did cross"
    for secret in ("plover-93", "plover-94", file.read_text().strip()):
        forms = (
            secret,
            json.dumps(secret)[1:-1],
            base64.b64encode(secret.encode()).decode()[:11],
            secret.encode().hex(),
        )
        assert not [each for each in seen if any(form in each for form in forms)]


def test_an_identity_is_attached_shown_its_policy_and_tested_live(
    product: Product, owner: Person, open_as: Callable[[Person], Page]
) -> None:
    make_module(product, owner, "signed/app")
    page = open_as(owner)
    page.goto("/dashboard/settings/job-identities")
    page.get_by_role("button", name="Attach identity").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Group or module").fill("signed")
    dialog.get_by_label("Plan role").fill("nonsense")
    dialog.get_by_role("button", name="Attach identity").click()
    expect(page.locator("[data-sonner-toast][data-type=error]")).to_contain_text("plan_role")
    for phase in ("Plan", "Apply"):
        dialog.get_by_label(f"{phase} role").fill(f"arn:aws:iam::123456789012:role/{phase.lower()}")
    dialog.get_by_role("button", name="Attach identity").click()
    expect(dialog).to_contain_text("module:signed/*:phase:plan")
    expect(dialog).to_contain_text("module:signed/*:phase:apply")
    issuer = f"{product.stack.url.partition('://')[2]}/functions/v1/job-identity"
    expect(dialog).to_contain_text(f"arn:aws:iam::123456789012:oidc-provider/{issuer}")
    dialog.get_by_role("button", name="Cancel").click()

    row = page.locator("tr[data-row=aws]")
    expect(row).to_contain_text("Not tested")
    page.get_by_role("button", name="More actions for aws").click()
    page.get_by_role("menuitem", name="Test").click()
    expect(row).to_contain_text("Testing")
    runner = ScriptedRunner(product, owner, "identity-tester")
    asked = "select number from provision_jobs where org_id = %s and type = 'OUTPUT' order by id desc limit 1"
    job = runner.claim(product.sql(asked, owner.org_id)[0][0])
    assert job["payload"]["options"]["test_identities"] is True
    answer = "AWS answered: AccessDenied"
    runner.finish(job, "FAILED", result={"identities": {"aws": answer}})
    expect(row).to_contain_text("Refused")
    expect(row).to_contain_text(answer)
