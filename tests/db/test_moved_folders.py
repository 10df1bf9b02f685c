"""A module whose folder was removed from its branch shows it, its applies end, and it can follow the folder."""

from typing import Any

import pytest

from tests.db.git_site import Site, announce, commit, first_reading, last, open_site, push, read
from tests.db.world import Organization, World, refused

MOVED = 'main has no folder "vpc". The same content is in "network".'
GONE = 'main has no folder "vpc".'


@pytest.fixture
def site(world: World, org: Organization) -> Site:
    made = open_site(world, org)
    first_reading(made)
    return made


def read_without_vpc(
    site: Site, number: int, moved_to: str | None = "network", dns: str = "d1"
) -> list[dict[str, Any]]:
    """Report a commit without the folder of net/vpc as the runner; return the jobs that follow."""
    _, org, runner, _ = site
    job = runner.claim_one()
    assert job["type"] == "RESOLVE"
    work = runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])
    head = {"branch": "main", "commit": commit(number)}
    missing = {"id": org.modules["net/vpc"], **head, "problem": GONE, "moved_to": moved_to}
    modules = [missing, {"id": org.modules["net/dns"], **head, "fingerprint": dns, "watched": ["dns"]}]
    runner.finish(job, p_result={"git": {"digest": work["digest"], "heads": {}, "modules": modules}})
    return runner.claim(10)


def followed(site: Site) -> dict[str, Any]:
    """Return what the module's page shows of its repository."""
    _, org, _, _ = site
    page = org.owner.call("module_page", p_org=org.id, p_module=org.modules["net/vpc"])
    found: dict[str, Any] = page["repository"]
    return found


def plan_with_changes(site: Site, plan: dict[str, Any]) -> None:
    site[2].finish(plan, p_plan_summary={"has_changes": True})


def test_a_push_without_the_folder_names_it_and_where_its_content_is(site: Site) -> None:
    world, org, _, connection = site
    push(world, connection)
    (plan,) = read_without_vpc(site, 2, dns="d2")
    assert plan["module_path"] == "net/dns"
    row = last(site)
    assert (row["verdict"], row["reason"]) == ("PLANNED", f"Planned 1 of 2 modules. net/vpc: {MOVED}")
    assert {module["path"]: module["reason"] for module in row["modules"]}["net/vpc"] == MOVED
    assert (followed(site)["problem"], followed(site)["moved_to"]) == (MOVED, "network")
    (listed,) = org.owner.call("list_git_connections", p_org=org.id)
    assert [module["problem"] for module in listed["modules"]] == [None, MOVED]
    (trigger,) = org.owner.call("list_triggers", p_org=org.id, p_search="vpc", p_filters={"kind": ["push"]})["rows"]
    assert trigger["last"]["reason"] == MOVED


def test_the_poll_writes_one_row_when_it_finds_the_folder_gone(site: Site) -> None:
    _, org, _, connection = site
    org.owner.call("poll_repository", p_connection=connection)
    assert read_without_vpc(site, 2, moved_to=None) == []
    row = last(site)
    assert (row["event"], row["verdict"], row["reason"]) == ("poll", "NOTHING", f"net/vpc: {GONE}")
    org.owner.call("poll_repository", p_connection=connection)
    read_without_vpc(site, 3, moved_to=None)
    assert last(site)["id"] == row["id"]


def test_a_later_push_names_the_folder_also_where_no_head_has_moved(site: Site) -> None:
    world, _, runner, connection = site
    push(world, connection)
    read_without_vpc(site, 2)
    push(world, connection)
    job = runner.claim_one()
    runner.finish(job, p_result={"git": {"digest": "d", "heads": {}}})
    assert last(site)["reason"] == f"net/vpc: {MOVED}"


@pytest.mark.parametrize("approvals", [0, 2])
def test_an_apply_that_waits_ends_with_the_folder(site: Site, approvals: int) -> None:
    world, org, _, connection = site
    org.owner.call("update_module", p_module=org.modules["net/vpc"], p_spec={"approvals_required": approvals})
    push(world, connection)
    (plan,) = read(site, 2, dns="d1", vpc="v2")
    plan_with_changes(site, plan)
    waiting = (
        "select id from public.provision_jobs where org_id = %s and type = 'APPLY' and status = 'AWAITING_APPROVAL'"
    )
    apply = org.owner.one(waiting, org.id)
    if approvals:
        org.member("operator").call("approve_job", p_job=apply, p_decision="approve")
    push(world, connection)
    assert read_without_vpc(site, 3) == []
    told = "select j.status, e.reason from public.provision_jobs j join public.job_events e on e.job_id = j.id where j.id = %s"
    ended = org.owner.rows(f"{told} and e.to_status = 'CANCELLED'", apply)
    assert ended == [("CANCELLED", "Its branch has its folder no more.")]


def test_an_apply_of_another_module_goes_on_waiting(site: Site) -> None:
    world, org, _, connection = site
    push(world, connection)
    (plan,) = read(site, 2, dns="d2", vpc="v1")
    plan_with_changes(site, plan)
    push(world, connection)
    read_without_vpc(site, 3, dns="d2")
    assert (
        org.owner.one("select status from public.provision_jobs where plan_job_id = %s", plan["id"])
        == "AWAITING_APPROVAL"
    )


def test_a_move_that_is_accepted_changes_the_folder_and_plans_the_same_module(site: Site) -> None:
    world, org, runner, connection = site
    module = org.modules["net/vpc"]
    push(world, connection)
    read_without_vpc(site, 2)
    org.owner.call("move_module_folder", p_module=module, p_folder="network")
    view = followed(site)
    assert (view["folder"], view["problem"], view["moved_to"]) == ("network", None, None)
    job = runner.claim_one()
    work = runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])
    assert {each["id"]: each["folder"] for each in work["modules"]}[module] == "network"
    found = {"id": module, "branch": "main", "commit": commit(2), "fingerprint": "v1 elsewhere", "watched": ["network"]}
    runner.finish(job, p_result={"git": {"digest": "d", "heads": {}, "modules": [found]}})
    assert [(each["type"], each["module_id"]) for each in runner.claim(10)] == [("PLAN", module)]
    count = "select count(*) from public.modules where org_id = %s and deleted_at is null"
    assert org.owner.one(count, org.id) == 2
    assert (
        org.owner.one("select count(*) from public.provision_jobs where org_id = %s and type = 'DESTROY'", org.id) == 0
    )


def test_only_the_folder_that_was_found_is_accepted_and_only_by_operators(site: Site) -> None:
    world, org, _, connection = site
    module = org.modules["net/vpc"]
    push(world, connection)
    read_without_vpc(site, 2)
    with refused("RY409", 'The content of "net/vpc" was not found in "elsewhere".'):
        org.owner.call("move_module_folder", p_module=module, p_folder="elsewhere")
    with refused("RY403"):
        org.member("viewer").call("move_module_folder", p_module=module, p_folder="network")
    push(world, connection)
    read(site, 3, dns="d1", vpc="v1")
    assert (followed(site)["problem"], followed(site)["moved_to"]) == (None, None)
    with refused("RY409"):
        org.owner.call("move_module_folder", p_module=module, p_folder="network")


def test_the_runner_gets_the_content_that_was_seen_without_a_new_digest(site: Site) -> None:
    world, org, runner, connection = site
    digests = []
    for number in (2, 3):
        push(world, connection)
        job = runner.claim_one()
        work = runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])
        digests.append(work["digest"])
        module = {"id": org.modules["net/vpc"], "branch": "main", "commit": commit(number), "fingerprint": f"v{number}"}
        runner.finish(job, p_result={"git": {"digest": "d", "heads": {}, "modules": [{**module, "watched": ["vpc"]}]}})
        for plan in runner.claim(10):
            runner.finish(plan)
    assert digests[0] == digests[1]
    assert work["seen"][org.modules["net/vpc"]] == {"fingerprint": "v2", "watched": ["vpc"], "moved_to": None}


def test_a_pull_request_that_moves_a_folder_says_so(site: Site) -> None:
    _, org, runner, _ = site
    announce(site, 5)
    job = runner.claim_one()
    runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])
    modules = [{"id": org.modules["net/vpc"], "is_missing": True, "moved_to": "network"}]
    pull = {
        "number": 7,
        "ref": "refs/pull/7/head",
        "base_commit": commit(1),
        "head_commit": commit(5),
        "modules": modules,
    }
    runner.finish(job, p_result={"git": {"digest": "d", "modules": [], "pull_requests": [pull]}})
    assert runner.claim(10) == []
    words = 'The merge has no folder "vpc". The same content is in "network".'
    assert last(site)["reason"] == f"net/vpc: {words}"
    assert followed(site)["problem"] is None, "its branch has it still"
