"""Paths from one group to another in an organisation: keys, jobs, records, runners and accounts that both have in common."""

import json
from typing import Any

import psycopg
import pytest

from tests.db.git_site import SEALED, URL, push
from tests.db.test_permissions import ARGUMENTS, functions
from tests.db.test_reading import guest
from tests.db.test_rights import grant
from tests.db.world import Organization, World, refused


@pytest.fixture
def tree(org: Organization) -> Organization:
    for path in ("a/x", "b/hidden"):
        org.module(path)
    return org


def test_a_key_of_a_module_finds_no_job_of_another_one(tree: Organization) -> None:
    operator, options = guest(tree, "a", role="operator"), {"idempotency_key": "nightly"}
    theirs = tree.enqueue("b/hidden", **options)
    ask = {"p_org": tree.id, "p_type": "PLAN", "p_module": tree.modules["a/x"], "p_options": options}
    mine = operator.call("enqueue_job", **ask)
    assert (mine["module_path"], mine["id"] != theirs) == ("a/x", True)
    assert operator.call("enqueue_job", **ask)["id"] == mine["id"]


def test_a_key_of_a_group_finds_no_set_of_another_one(tree: Organization) -> None:
    operator = guest(tree, "a", role="operator")
    options = {"p_org": tree.id, "p_type": "PLAN", "p_options": {"idempotency_key": "nightly"}}
    tree.owner.call("start_set", **options, p_path="b")
    mine = operator.call("start_set", **options, p_path="a")
    assert mine["path"] == "a"
    assert operator.call("start_set", **options, p_path="a")["id"] == mine["id"]


def test_a_job_does_not_name_the_modules_whose_outputs_it_uses(tree: Organization) -> None:
    ends = {"p_consumer": tree.modules["a/x"], "p_producer": tree.modules["b/hidden"]}
    tree.owner.call("set_dependency", **ends, p_options={"bindings": {"x": "y"}})
    tree.enqueue("a/x")
    reader = guest(tree, "a")
    (number,) = reader.rows("select number from public.provision_jobs")
    page = reader.call("job_page", p_org=tree.id, p_number=number)
    assert page["job"]["payload"]["module"]["bindings"] == {"x": "y"}
    assert "hidden" not in json.dumps(page)


def test_an_account_with_roles_at_paths_alone_sees_what_is_there(tree: Organization) -> None:
    """An admin of one group gives an account a role there: nobody gets to read more than that by it."""
    account = tree.account(None)
    granted = {"p_org": tree.id, "p_path": "a", "p_role": "viewer", "p_kind": "account", "p_subject": account["id"]}
    guest(tree, "a", role="admin").call("grant_role", **granted)
    acting = tree.acting(account)
    assert acting.rows("select path from public.modules") == ["a/x"]
    assert acting.call("list_modules", p_org=tree.id)["total"] == 1
    tree.owner.call("grant_role", **{**granted, "p_path": "", "p_role": "admin"})
    assert sorted(acting.rows("select path from public.modules")) == ["a/x", "b/hidden"]
    assert acting.rows("select 1 from public.audit_events")


def test_a_record_of_moved_resources_says_nothing_of_the_other_modules_job(world: World, tree: Organization) -> None:
    runner = tree.runner("one", is_assigned_to_all_modules=True)
    source = {"url": "https://git.example.com/infra/hidden.git"}
    tree.owner.call("update_module", p_module=tree.modules["b/hidden"], p_spec={"source_kind": "git", "source": source})
    variable = [{"kind": "input", "name": "hidden_size", "value": 1}]
    tree.owner.call("set_variables", p_org=tree.id, p_path="b", p_variables=variable)
    for path, module in tree.modules.items():
        body = json.dumps({"version": 4, "serial": 5, "lineage": path, "resources": []})
        tree.owner.call("push_state", p_module=module, p_body=body)
    change = {"action": "move", "addresses": ["r.b"], "to": "r.a", "module": tree.modules["a/x"]}
    tree.enqueue("b/hidden", "STATE", state_change=change)
    job = runner.claim_one()
    runner.report(job, "APPLY")
    runner.finish(job, p_result={"commit": "1" * 40})
    records = "select statement from private.change_records where module_id = %s"
    assert "hidden_size" in world.owner.one(records, tree.modules["b/hidden"])
    assert "hidden" not in world.owner.one(records, tree.modules["a/x"])
    assert guest(tree, "a").call("change_record", p_job=job["id"])["sequence"] == 1, "that of the module they see"


def test_a_reading_of_a_repository_is_for_those_who_see_all_of_it(world: World, tree: Organization) -> None:
    for path in ("a/dns", "b/vpc"):
        tree.module(path, source_kind="git", source={"url": URL, "ref": "main", "subfolder": path})
    spec = {"provider": "gitea", "url": URL, "webhook_secret": SEALED}
    push(world, tree.owner.call("connect_repository", p_org=tree.id, p_spec=spec)["id"])
    runner, reader = tree.runner("one", is_assigned_to_all_modules=True), guest(tree, "a", role="admin")
    job = runner.claim_one()
    (number,) = tree.owner.rows("select number from public.provision_jobs where type = 'RESOLVE'")
    assert reader.rows("select 1 from public.provision_jobs") == reader.rows("select 1 from public.job_events") == []
    assert reader.call("job_page", p_org=tree.id, p_number=number) is None
    assert reader.call("job_by_number", p_org=tree.id, p_number=number) == []
    for call in ("explain_queue", "plan_changes"):
        with refused("RY404", "There is no such job."):
            reader.call(call, p_job=job["id"])
    assert tree.member("viewer").call("job_by_number", p_org=tree.id, p_number=number)


def test_a_guest_learns_that_a_module_drifted_and_not_which_channels_know(world: World, tree: Organization) -> None:
    rule = {"channel": "slack", "events": ["module.drift"], "path": "", "address": SEALED, "address_hint": "#ops"}
    tree.owner.call("create_notification_rule", p_org=tree.id, p_spec=rule)
    drifted = "update public.modules set drift_since = now() - interval '1 hour', drift_finding = 'f' where id = %s"
    world.owner.connection.execute(drifted, [tree.modules["a/x"]])
    world.owner.connection.execute("update public.deliveries set status = 'DELIVERED'")
    told = [
        [row["told"] for row in caller.call("drift_overview", p_org=tree.id)]
        for caller in (tree.owner, guest(tree, "a"))
    ]
    assert told == [[["slack #ops"]], [[]]]


def test_a_runner_of_two_groups_says_nothing_about_the_other_ones_jobs(world: World, tree: Organization) -> None:
    runner = tree.runner("one", is_assigned_to_all_modules=True, capacity=5)
    tree.owner.call("assign_worker", p_worker=runner.worker_id, p_path="b")
    tree.enqueue("b/hidden", "PLAN", reason="hidden reason")
    theirs = runner.claim_one()
    runner.report(theirs, "PLAN")
    runner.append(theirs, (1, "hidden line\n"))
    tree.enqueue("a/x")
    mine, reader = runner.claim_one(), guest(tree, "a", role="admin")
    things: dict[str, Any] = {
        "p_org": tree.id, "p_module": tree.modules["a/x"], "p_job": mine["id"], "p_path": "a", "p_user": reader.id,
        "p_worker": runner.worker_id, "p_workers": "{" + runner.worker_id + "}",
        "p_number": reader.one("select number from public.provision_jobs"),
        "p_slug": tree.owner.one("select slug from public.organizations where id = %s", tree.id),
    }  # fmt: skip
    assert reader.call("list_runners", p_org=tree.id)["total"] == 1
    leaks = {}
    for function, about in functions(world).items():
        if about["roles"] != ["authenticated"]:
            continue
        given = {name: things[name] for name in about["needs"] if name in things}
        given |= {key: things.get(str(value), value) for key, value in ARGUMENTS.get(function, {}).items()}
        try:
            with reader.connection.transaction(force_rollback=True):
                said = json.dumps(reader.call(function, **given), default=str)
        except psycopg.Error as error:
            said = str(error)
        if "hidden" in said or '"b"' in said:
            leaks[function] = said
    assert leaks == {}


def test_a_pin_does_not_bring_a_module_to_a_runner_of_another_group(tree: Organization) -> None:
    runner = tree.runner("theirs")
    tree.owner.call("assign_worker", p_worker=runner.worker_id, p_path="b")
    operator = tree.member("viewer")
    grant(tree, "operator", "a", operator)
    options = {"pinned_worker_id": runner.worker_id}
    ask = {"p_org": tree.id, "p_type": "PLAN", "p_module": tree.modules["a/x"], "p_options": options}
    job = operator.call("enqueue_job", **ask)["id"]
    assert runner.claim() == []
    assert operator.call("explain_queue", p_job=job)["claimable"] is False
