"""Pushes, pull requests and schedules that start jobs, in one list."""

from typing import Any

from tests.db.git_site import announce, commit, first_reading, merged, open_site, push, read
from tests.db.world import Organization, World, refused


def listed(org: Organization, **more: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = org.owner.call("list_triggers", p_org=org.id, **more)["rows"]
    return rows


def last(org: Organization, kind: str, path: str) -> dict[str, Any]:
    (row,) = [row for row in listed(org) if (row["kind"], row["path"]) == (kind, path)]
    found: dict[str, Any] = row["last"]
    return found


def test_each_trigger_is_listed_with_its_last_event_and_the_result(world: World, org: Organization) -> None:
    site = open_site(world, org)
    _, _, runner, connection = site
    org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec={"apply": "before_merge"})
    schedule = {"path": "net", "type": "DRIFT", "cron": "0 2 * * *"}
    org.owner.call("create_schedule", p_org=org.id, p_spec=schedule)
    before = listed(org)
    assert [(row["path"], row["kind"]) for row in before] == [
        ("net", "schedule"),
        ("net/dns", "push"),
        ("net/dns", "pull_request"),
        ("net/vpc", "push"),
        ("net/vpc", "pull_request"),
    ]
    assert [row["words"] for row in before if row["kind"] == "schedule"] == ["Every day at 02:00"]
    vpc = before[3]
    assert (vpc["branch"], vpc["folder"], vpc["apply"], vpc["last"]) == ("main", "vpc", "before_merge", None)
    assert vpc["repository"] == "git.example.com/infra/edge"

    first_reading(site)
    push(world, connection)
    (plan,) = read(site, 2, dns="d1", vpc="v2")
    pushed = last(org, "push", "net/vpc")
    assert (pushed["verdict"], pushed["job_number"], pushed["after_commit"]) == ("PLANNED", plan["number"], commit(9))
    same = last(org, "push", "net/dns")
    assert (same["id"], same["verdict"], same["job_number"]) == (pushed["id"], "NOTHING", None)
    assert same["reason"] == f"Same content as {commit(1)[:7]}."
    runner.finish(plan)

    push(world, connection, ref="refs/heads/other")
    read(site, 2, dns="d1", vpc="v2")
    assert last(org, "push", "net/vpc") == pushed, "a push to a branch that it does not follow is none of its events"
    assert last(org, "pull_request", "net/vpc") is None
    announce(site, 3)
    assert last(org, "pull_request", "net/vpc")["verdict"] == "PENDING"
    (plan,) = merged(site, 3, vpc="v3")
    pulled = last(org, "pull_request", "net/vpc")
    assert (pulled["pull_request"], pulled["verdict"], pulled["job_number"]) == (7, "PLANNED", plan["number"])
    announce(site, 4, is_draft=True)
    assert last(org, "pull_request", "net/dns")["reason"] == "It is a draft."
    announce(site, 4, number=8, base="release")
    assert last(org, "pull_request", "net/dns")["pull_request"] == 7, "its pull request is into another branch"


def test_a_module_created_after_an_event_was_not_planned_by_it(world: World, org: Organization) -> None:
    site = open_site(world, org)
    first_reading(site)
    push(world, site[3])
    read(site, 2, dns="d2", vpc="v2")
    org.module("net/new", source_kind="git", source={"url": "https://git.example.com/infra/edge", "ref": "main"})
    found = last(org, "push", "net/new")
    assert (found["verdict"], found["job_number"]) == ("NOTHING", None)
    assert found["reason"] == "The repository had no module at this path then."


def test_a_schedule_of_one_module_names_the_job_that_it_started(world: World, org: Organization) -> None:
    org.module("a/one")
    org.module("a/two")
    for path in ("a", "a/one"):
        made = org.owner.call("create_schedule", p_org=org.id, p_spec={"path": path, "type": "PLAN", "cron": "@daily"})
        org.owner.call("run_schedule", p_schedule=made["id"])
    number = org.owner.one("select max(number) from public.provision_jobs where org_id = %s", org.id)
    assert [(row["last_run"]["total"], row["job_number"]) for row in listed(org)] == [(2, None), (1, number)]


def test_the_list_is_searched_paged_and_for_members_only(world: World, org: Organization) -> None:
    open_site(world, org)
    org.owner.call("create_schedule", p_org=org.id, p_spec={"path": "", "type": "DRIFT", "cron": "@daily"})
    assert [row["path"] for row in listed(org, p_search="DNS")] == ["net/dns"] * 2
    assert len(listed(org, p_search="infra/edge")) == 4
    assert [row["kind"] for row in listed(org, p_filters={"kind": ["schedule"]})] == ["schedule"]
    page = org.owner.call("list_triggers", p_org=org.id, p_limit=2, p_offset=2)
    assert (page["total"], [row["id"] for row in page["rows"]]) == (5, [row["id"] for row in listed(org)[2:4]])
    with refused("RY422"):
        listed(org, p_filters={"path": "net"})
    viewer = org.member("viewer")
    assert viewer.call("list_triggers", p_org=org.id)["total"] == 5
    stranger = world.organization("other").owner
    with refused("RY404"):
        stranger.call("list_triggers", p_org=org.id)
    org.owner.call("disconnect_repository", p_connection=listed(org, p_search="dns")[0]["connection_id"])
    assert [row["kind"] for row in listed(org)] == ["schedule"]
