"""A guest's websocket inside the organisation: every handler, with the ids of another group, shows nothing of it and changes nothing."""

import uuid
from typing import Any

import pytest

from app.guard.events import hints_of
from tests.e2e.product import Person, Product, Tab, open_tab
from tests.e2e.test_access_pages import give, viewer
from tests.e2e.test_socket_abuse import LOAD, shows
from tests.e2e.test_work_pages import make_module
from tests.unit.app.guard.test_events import HANDLERS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]
# What a guest's tab may receive after it sent an id is that id; a name never.
HIDDEN = f"hidden{uuid.uuid4().hex[:8]}"


def fill(product: Product, owner: Person) -> dict[str, Any]:
    """A group with one of everything, each with the hidden word in its name."""
    module = make_module(product, owner, f"{HIDDEN}/db")
    at = {"p_org": owner.org_id, "p_path": HIDDEN}
    job = product.rpc(owner.token, "enqueue_job", {"p_org": owner.org_id, "p_type": "PLAN", "p_module": module})
    runner = product.runner(owner, HIDDEN)
    product.rpc(owner.token, "assign_worker", {"p_worker": runner["id"], "p_path": HIDDEN})
    spec = {"path": HIDDEN, "type": "DRIFT", "cron": "0 2 * * *"}
    product.rpc(owner.token, "create_schedule", {"p_org": owner.org_id, "p_spec": spec})
    value = [{"kind": "input", "name": HIDDEN, "value": HIDDEN}]
    product.rpc(owner.token, "set_variables", {**at, "p_variables": value})
    product.rpc(owner.token, "create_team", {"p_org": owner.org_id, "p_name": HIDDEN})
    started = product.rpc(owner.token, "start_set", {**at, "p_type": "DRIFT"})
    return {"module": module, "job": job, "runner": runner["id"], "set": started["id"]}


async def guests_tab(product: Product, owner: Person) -> Tab:
    """The tab of a guest of another group, whose only organisation is the owner's."""
    make_module(product, owner, "open/db")
    guest, user = viewer(product, owner, "guest", "guest")
    give(product, owner, "open", "admin", user)
    tab = await open_tab(product, product.cookie(guest))
    await tab.send(LOAD, path="/dashboard/runners")
    await tab.until(lambda found: shows(found, owner))
    return tab


async def test_every_handler_shows_a_guest_nothing_of_another_group(product: Product) -> None:
    owner = product.person("owner")
    things = fill(product, owner)
    tab = await guests_tab(product, owner)
    numbers = {"int": things["job"]["id"], "bool": True, "org_id": owner.org_id}
    pages = [
        f"/dashboard/jobs/{things['job']['number']}",
        f"/dashboard/modules?module={things['module']}",
        f"/dashboard/runners/{things['runner']}",
        f"/dashboard/sets/{things['set']}",
        "/dashboard/settings",
    ]
    ids = [str(things["job"]["number"]), things["module"], things["runner"], things["set"], owner.org_id]
    for page, text in zip(pages, ids, strict=True):
        for name in sorted(HANDLERS):
            hints = hints_of(HANDLERS[name].handler.fn)
            given = {
                key: numbers.get(key, numbers.get(getattr(hint, "__name__", ""), text)) for key, hint in hints.items()
            }
            given = {key: {"id": text} if "dict" in str(hints[key]) else value for key, value in given.items()}
            await tab.send(name, given, page)
        await tab.answers(1.0)
    await tab.send(LOAD, path="/dashboard/runners")
    await tab.until(lambda found: shows(found, owner))
    leaks = [
        frame[max(0, frame.index(HIDDEN) - 300) : frame.index(HIDDEN) + 100] for frame in tab.frames if HIDDEN in frame
    ]
    assert len(tab.frames) > 50, "little was answered, so this shows little"
    assert leaks == []
    acts = "select action from audit_events where org_id = %s and target_label like %s and actor_label <> %s"
    assert product.sql(acts, owner.org_id, f"%{HIDDEN}%", owner.email) == [], "nothing of it was changed"
