"""Changes as people see them: modules with results, events with job numbers, and pull requests that the poll finds."""

from typing import Any

import pytest

from tests.db.git_site import SEALED, Site, announce, commit, first_reading, last, merged, open_site, push, read
from tests.db.test_git_reports import TOKEN, end, lease, sent
from tests.db.world import Organization, World, refused, sha256

CHANGES = {"has_changes": True, "create": 2, "update": 1}


@pytest.fixture
def site(world: World, org: Organization) -> Site:
    made = open_site(world, org)
    first_reading(made)
    org.owner.call("update_git_connection", p_connection=made[3], p_spec={"token": TOKEN})
    return made


def change(site: Site, **which: Any) -> dict[str, Any]:
    found: dict[str, Any] = site[1].member("viewer").call("git_change", p_connection=site[3], **which)
    return found


def test_a_pull_request_shows_its_modules_and_whether_its_base_moved(site: Site) -> None:
    world, org, runner, connection = site
    announce(site, 5, head_branch="feature")
    assert change(site, p_number=7)["report"]["state"] == "pending"
    (plan,) = merged(site, 5, dns="d1", vpc="v2")
    runner.finish(plan, p_plan_summary=CHANGES)
    org.owner.call("approve_job", p_job=plan["id"], p_decision="approve")
    found = change(site, p_number=7)
    (row,) = found["rows"]
    assert (row["path"], row["result"], row["to_add"], row["job"], row["reviews"]) == (
        "net/vpc", "planned", 2, plan["number"], 1,
    )  # fmt: skip
    assert (found["pull"]["head_branch"], found["commit"], found["is_behind"]) == ("feature", commit(5), False)
    assert found["deliveries"][0]["jobs"] == [plan["number"]]
    assert {each["title"] for each in found["reports"]} == {"Comment on #7", f"Status of {commit(5)[:7]}"}
    push(world, connection)
    job = runner.claim_one()
    runner.finish(job, p_result={"git": {"modules": [], "heads": {"refs/heads/main": commit(2)}}})
    assert change(site, p_number=7)["is_behind"] is True


def test_a_commit_shows_its_modules_and_the_pull_request_that_it_merged(site: Site) -> None:
    world, _, runner, connection = site
    announce(site, 5, is_open=False, merge_commit=commit(6))
    push(world, connection, after=commit(6))
    (plan,) = read(site, 6, vpc="v2")
    runner.finish(plan, "FAILED", p_error={"code": "engine_failed", "message": "no such size"})
    found = change(site, p_commit=commit(6))
    assert [(row["path"], row["result"], row["problem"]) for row in found["rows"]] == [
        ("net/vpc", "plan failed", "no such size")
    ]
    assert (found["pull"]["number"], found["report"]["state"], found["git"]["branch"]) == (7, "failure", "main")
    row = last(site)
    assert row["jobs"] == [plan["number"]]
    assert row["job_number"] is not None


def test_unknown_changes_and_changes_of_others_are_not_found(site: Site) -> None:
    with refused("RY404", "There is no such change."):
        change(site, p_number=99)
    with refused("RY404"):
        site[0].user().call("git_change", p_connection=site[3], p_number=7)


def listed(site: Site, *pulls: dict[str, Any]) -> list[int]:
    """Poll the provider, which lists these; return the numbers that were known as open."""
    world, _, _, connection = site
    world.owner.connection.execute(
        "update public.git_connections set next_poll_at = now(), poll_seconds = 300 where id = %s", [connection]
    )
    world.owner.one("select private.sweep_git()")
    while messages := lease(site):
        for message in messages:
            is_list = message["body"]["kind"] == "pulls"
            end(site, message, **({"pulls": list(pulls)} if is_list else {}))
            if is_list:
                return list(message["body"]["known"])
    raise AssertionError("the provider was not asked")


def pull(number: int, head: int, **more: Any) -> dict[str, Any]:
    return {
        "number": number, "title": "A change", "base": "main", "head_commit": commit(head), "is_fork": False,
        "is_draft": False, "is_open": True, "author": "ann", **more,
    }  # fmt: skip


def test_the_poll_finds_a_pull_request_whose_events_were_lost(site: Site) -> None:
    _, org, _, _ = site
    assert listed(site, pull(7, 5), pull(8, 6, is_fork=True), pull(9, 6, is_draft=True)) == []
    (plan,) = merged(site, 5, vpc="v2")
    assert plan["payload"]["options"]["git"]["author"] == "ann"
    row = next(row for row in org.owner.call("list_git_deliveries", p_org=org.id) if row["pull_request"] == 7)
    assert (row["event"], row["verdict"]) == ("poll", "PLANNED")
    assert org.owner.rows("select number from public.pull_requests order by 1") == [7, 9]
    before = len(org.owner.call("list_git_deliveries", p_org=org.id))
    assert listed(site, pull(7, 5)) == [7]
    assert len(org.owner.call("list_git_deliveries", p_org=org.id)) == before, "a known state changes nothing"
    assert "Open pull requests" not in org.owner.rows("select title from public.deliveries")


def test_the_poll_finds_that_a_pull_request_was_merged(site: Site) -> None:
    world, org, _, _ = site
    announce(site, 5)
    (plan,) = merged(site, 5, vpc="v2")
    assert listed(site, pull(7, 5, is_open=False, merge_commit=commit(6))) == [7]
    assert world.job(plan["id"])["cancel_kind"] == "GRACEFUL"
    assert org.owner.one("select is_open, merge_commit from public.pull_requests") == (False, commit(6))
    sent(site)


def test_a_list_that_cannot_be_read_changes_nothing(site: Site) -> None:
    announce(site, 5)
    listed(site, {"number": "x"}, pull(8, 5))
    assert site[1].owner.rows("select number from public.pull_requests") == [7]


def test_modules_of_a_repository_are_found_by_an_index(site: Site) -> None:
    world, org, _, _ = site
    query = (
        "explain select m.id from public.modules as m where m.org_id = %s and m.deleted_at is null"
        " and m.source_kind = 'git' and private.repository_key(m.source ->> 'url') = %s"
    )
    with world.owner.connection.transaction():
        # A few modules are read faster without it.
        world.owner.connection.execute("set local enable_seqscan = off")
        world.owner.connection.execute("set local enable_bitmapscan = off")
        plan = "\n".join(world.owner.rows(query, org.id, "git.example.com/infra/edge"))
    assert "modules_repository_idx" in plan, plan


def test_an_app_is_begun_by_admins_completed_once_and_removed(world: World, org: Organization) -> None:
    digest = sha256("state")
    with refused("RY422", "The app cannot be begun."):
        org.owner.call("start_git_app", p_org=org.id, p_state_hash="no digest")
    app = org.owner.call("start_git_app", p_org=org.id, p_state_hash=digest)["id"]
    spec = {"number": 1, "slug": "s", "html_url": "https://github.com/apps/s"}
    sealed = {"webhook_secret": SEALED, "private_key": SEALED}
    with refused("RY404", "There is no such app to create."):
        world.service.call("complete_git_app", p_app=app, p_state_hash=sha256("other"), p_spec=spec | sealed)
    with refused("RY409", "Somebody else began this app."):
        org.member("admin").call("pending_git_app", p_app=app, p_state_hash=digest)
    with refused("RY403"):
        org.member("viewer").call("pending_git_app", p_app=app, p_state_hash=digest)
    assert org.owner.call("pending_git_app", p_app=app, p_state_hash=digest)["org_id"] == org.id
    world.service.call("complete_git_app", p_app=app, p_state_hash=digest, p_spec=spec | sealed)
    with refused("RY404", "There is no such app to create."):
        world.service.call("complete_git_app", p_app=app, p_state_hash=digest, p_spec=spec | sealed)
    assert SEALED not in str(org.owner.call("list_git_apps", p_org=org.id))
    org.owner.call("remove_git_app", p_app=app)
    with refused("RY404", "There is no such app."):
        org.owner.call("remove_git_app", p_app=app)
    for _ in range(20):
        org.owner.call("start_git_app", p_org=org.id, p_state_hash=digest)
    with refused("RY413", "An organisation has at most 20 GitHub Apps."):
        org.owner.call("start_git_app", p_org=org.id, p_state_hash=digest)
