"""Pushes and polls: an event only makes a runner read the repository; its content decides which modules are planned."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.db.git_site import SEALED, Site, commit, first_reading, last, open_site, push, read
from tests.db.world import Organization, World, refused


@pytest.fixture
def site(world: World, org: Organization) -> Site:
    return open_site(world, org)


def test_a_push_plans_the_changed_module_at_that_commit(site: Site) -> None:
    world, org, _, connection = site
    first_reading(site)
    assert push(world, connection)["verdict"] == "PENDING"
    (plan,) = read(site, 2, dns="d1", vpc="v2")
    assert (plan["type"], plan["module_path"]) == ("PLAN", "net/vpc")
    assert plan["payload"]["module"]["source"]["commit"] == commit(2)
    assert plan["payload"]["options"]["git"]["branch"] == "main"
    assert plan["payload"]["options"]["confirm"] is True
    row = last(site)
    assert (row["verdict"], row["event"]) == ("PLANNED", "push")
    reasons = {module["path"]: (module["verdict"], module["reason"]) for module in row["modules"]}
    assert reasons == {
        "net/dns": ("NOTHING", "Same content as 0000000."),
        "net/vpc": ("PLANNED", "Its folders changed at 0000000."),
    }
    assert [str(each) for each in row["set_ids"]] == org.owner.rows(
        "select id::text from public.job_sets where org_id = %s", org.id
    )


def test_a_push_with_equal_content_starts_nothing_and_records_that(site: Site) -> None:
    world, _, _, connection = site
    first_reading(site)
    push(world, connection)
    assert read(site, 2, dns="d1", vpc="v1") == []
    row = last(site)
    assert (row["verdict"], row["set_ids"]) == ("NOTHING", [])


def test_content_that_was_planned_is_not_planned_again(site: Site) -> None:
    world, _, runner, connection = site
    first_reading(site)
    push(world, connection)
    (plan,) = read(site, 2, dns="d1", vpc="v2")
    runner.finish(plan, "FAILED", p_error={"code": "engine_failed", "message": "no"})
    push(world, connection)
    assert read(site, 3, dns="d1", vpc="v2") == []
    assert {module["path"]: module["reason"] for module in last(site)["modules"]}["net/vpc"] == (
        f"Same content as 0000000, planned in job {plan['number']}."
    )


def test_content_that_is_applied_is_not_planned(site: Site) -> None:
    world, org, runner, connection = site
    org.enqueue("net/vpc", "APPLY")
    runner.finish(runner.claim_one(), p_result={"commit": commit(7)})
    push(world, connection)
    job = runner.claim_one()
    work = runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])
    asked = {module["id"]: module["applied_commit"] for module in work["modules"]}
    assert asked == {org.modules["net/dns"]: None, org.modules["net/vpc"]: commit(7)}
    vpc = {"id": org.modules["net/vpc"], "branch": "main", "commit": commit(8), "fingerprint": "v1"}
    found = {"digest": work["digest"], "heads": {}, "modules": [{**vpc, "applied_fingerprint": "v1"}]}
    runner.finish(job, p_result={"git": found})
    assert runner.claim(10) == []
    reasons = {module["path"]: module["reason"] for module in last(site)["modules"]}
    assert reasons["net/vpc"] == "Same content as 0000000, which is applied."


def test_a_module_that_was_applied_is_planned_at_the_first_reading_if_it_differs(site: Site) -> None:
    _, org, runner, connection = site
    org.enqueue("net/vpc", "APPLY")
    runner.finish(runner.claim_one(), p_result={"commit": commit(7)})
    org.owner.call("poll_repository", p_connection=connection)
    (plan,) = read(site, 8, dns="d1", vpc="v2")
    assert plan["module_path"] == "net/vpc"


def test_a_repeated_delivery_does_nothing_and_gets_the_first_verdict(site: Site) -> None:
    world, _, runner, connection = site
    first_reading(site)
    assert push(world, connection, "same")["is_new"]
    read(site, 2, dns="d1", vpc="v2")
    again = push(world, connection, "same")
    assert (again["is_new"], again["verdict"]) == (False, "PLANNED")
    assert runner.claim(10) == []


def test_deliveries_before_the_claim_share_a_reading_and_later_ones_get_another(site: Site) -> None:
    world, org, runner, connection = site
    push(world, connection)
    push(world, connection)
    count = "select count(*) from public.provision_jobs where target_connection_id = %s and status = 'QUEUED'"
    assert org.owner.one(count, connection) == 1
    job = runner.claim_one()
    push(world, connection)
    assert org.owner.one(count, connection) == 1
    assert runner.claim(10) == [], "one reading at a time"
    runner.finish(job, p_result={"git": {"modules": []}})
    assert [each["type"] for each in runner.claim(10)] == ["RESOLVE"]


def test_the_poll_finds_a_commit_that_no_delivery_announced(site: Site) -> None:
    world, org, _, connection = site
    first_reading(site)
    due = "update public.git_connections set next_poll_at = now() where id = %s"
    world.owner.connection.execute(due, [connection])
    world.sweep()
    (plan,) = read(site, 2, dns="d1", vpc="v2")
    assert plan["module_path"] == "net/vpc"
    row = last(site)
    assert (row["event"], row["verdict"], row["ref"]) == ("poll", "PLANNED", "refs/heads/main")
    world.owner.connection.execute(due, [connection])
    world.sweep()
    assert read(site, 2, dns="d1", vpc="v2") == []
    assert len(org.owner.call("list_git_deliveries", p_org=org.id)) == 1, "a poll that finds nothing leaves no row"


def test_a_connection_that_does_not_poll_is_left_alone(site: Site) -> None:
    world, org, runner, connection = site
    org.owner.call("update_git_connection", p_connection=connection, p_spec={"poll_seconds": 0})
    world.sweep()
    assert runner.claim(10) == []


def test_heads_that_are_known_are_sent_until_a_setting_changes(site: Site) -> None:
    _, org, runner, connection = site
    first_reading(site)
    org.owner.call("poll_repository", p_connection=connection)
    job = runner.claim_one()
    ask = {"p_job": job["id"], "p_attempt": job["attempt"]}
    assert runner.call("worker_resolve", **ask)["known_heads"] == {"refs/heads/main": commit(1)}
    org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec={"paths": ["modules"]})
    assert runner.call("worker_resolve", **ask)["known_heads"] == {}


def test_other_paths_make_a_new_first_reading(site: Site) -> None:
    _, org, _, connection = site
    first_reading(site)
    org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec={"paths": ["modules"]})
    org.owner.call("poll_repository", p_connection=connection)
    assert read(site, 1, dns="d1", vpc="v1-with-modules") == []


def test_a_reading_that_finds_no_branch_moved_answers_its_deliveries(site: Site) -> None:
    world, _, runner, connection = site
    first_reading(site)
    push(world, connection)
    runner.finish(runner.claim_one(), p_result={"git": {"heads": {"refs/heads/main": commit(1)}}})
    row = last(site)
    assert (row["verdict"], row["modules"][0]["reason"]) == ("NOTHING", "Same content as 0000000.")


def test_a_push_to_an_unfollowed_branch_reports_the_branch_that_each_module_follows(site: Site) -> None:
    world, _, _, connection = site
    first_reading(site)
    push(world, connection, ref="refs/heads/release")
    assert read(site, 1, dns="d1", vpc="v1") == []
    row = last(site)
    assert (row["verdict"], row["reason"]) == ("NOTHING", "No module follows release.")
    assert row["modules"][0]["reason"] == "It follows main; this push was to release."


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"event": "ping"}, 'Events of the kind "ping" start nothing.'),
        ({"ref": "refs/tags/v1"}, "Only pushes to branches plan modules."),
        ({"after": None, "is_deleted": True}, "The branch was deleted."),
    ],
)
def test_events_that_start_nothing_give_a_reason(site: Site, said: dict[str, Any], reason: str) -> None:
    world, _, runner, connection = site
    answer = push(world, connection, **said)
    assert (answer["verdict"], answer["reason"]) == ("IGNORED", reason)
    assert runner.claim(10) == []


def test_a_repository_without_modules_is_not_read(world: World, org: Organization) -> None:
    spec = {"provider": "github", "url": "https://github.com/a/b", "webhook_secret": SEALED}
    made = org.owner.call("connect_repository", p_org=org.id, p_spec=spec)
    answer = push(world, made["id"])
    assert (answer["verdict"], answer["reason"]) == ("NOTHING", "No module uses this repository.")
    with refused("RY409", "No module uses this repository."):
        org.owner.call("poll_repository", p_connection=made["id"])


def test_a_failed_reading_fails_its_deliveries_and_a_later_one_clears_the_error(site: Site) -> None:
    world, org, runner, connection = site
    push(world, connection)
    runner.finish(runner.claim_one(), "FAILED", p_error={"code": "fetch_failed", "message": "no such host"})
    assert (last(site)["verdict"], last(site)["reason"]) == ("FAILED", "no such host")
    (row,) = org.owner.call("list_git_connections", p_org=org.id)
    assert row["error"] == "no such host"
    first_reading(site)
    (row,) = org.owner.call("list_git_connections", p_org=org.id)
    assert (row["error"], row["modules"][0]["seen_commit"]) == (None, commit(1))


def test_a_report_that_cannot_be_read_ends_the_job_and_fails_its_deliveries(site: Site) -> None:
    world, org, runner, connection = site
    first_reading(site)
    push(world, connection)
    job = runner.claim_one()
    twice = [{"id": org.modules["net/vpc"], "branch": "main", "commit": commit(2), "fingerprint": "v2"}] * 2
    assert runner.finish(job, p_result={"git": {"modules": twice}})["status"] == "SUCCEEDED"
    assert last(site)["verdict"] == "FAILED"
    assert runner.claim(10) == []


def test_a_newer_commit_cancels_the_jobs_of_the_older_one(site: Site) -> None:
    world, _, runner, connection = site
    first_reading(site)
    push(world, connection)
    (older,) = read(site, 2, dns="d1", vpc="v2")
    runner.finish(older, p_plan_summary={"has_changes": True})
    apply = world.owner.one("select id from public.provision_jobs where plan_job_id = %s", older["id"])
    assert world.status(apply) == "AWAITING_APPROVAL"
    push(world, connection)
    (newer,) = read(site, 3, dns="d1", vpc="v3")
    assert world.status(apply) == "CANCELLED"
    push(world, connection)
    job = runner.claim_one()
    assert job["type"] == "RESOLVE"
    vpc = {"id": world.job(newer["id"])["module_id"], "branch": "main", "commit": commit(4), "fingerprint": "v4"}
    runner.finish(job, p_result={"git": {"modules": [vpc]}})
    assert world.job(newer["id"])["cancel_kind"] == "GRACEFUL", "a running plan receives a request to stop"


def test_a_module_that_is_switched_off_is_not_planned(site: Site) -> None:
    world, org, runner, connection = site
    first_reading(site)
    org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec={"is_on": False})
    push(world, connection)
    job = runner.claim_one()
    work = runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])
    assert [module["id"] for module in work["modules"]] == [org.modules["net/dns"]]
    runner.finish(job, p_result={"git": {"modules": []}})
    reasons = {module["path"]: module["reason"] for module in last(site)["modules"]}
    assert reasons["net/vpc"] == "Pushes do not plan it: it is switched off."


def test_a_module_that_only_plans_gets_no_apply(site: Site) -> None:
    world, org, runner, connection = site
    first_reading(site)
    org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec={"apply": "never"})
    push(world, connection)
    (plan,) = read(site, 2, dns="d1", vpc="v2")
    runner.finish(plan, p_plan_summary={"has_changes": True})
    assert world.owner.rows("select id from public.provision_jobs where plan_job_id = %s", plan["id"]) == []


def test_deliveries_polls_and_the_end_of_a_reading_never_wait_for_each_other_for_ever(site: Site) -> None:
    world, org, runner, connection = site
    first_reading(site)
    service = world.caller("service_role")
    operator = org.member("operator")

    def deliver() -> None:
        for _ in range(40):
            said = {"delivery_id": str(uuid.uuid4()), "event": "push", "ref": "refs/heads/main"}
            service.call("receive_git_delivery", p_connection=connection, p_delivery=said)

    def poll() -> None:
        for _ in range(40):
            operator.call("poll_repository", p_connection=connection)

    with ThreadPoolExecutor(2) as pool:
        busy = [pool.submit(deliver), pool.submit(poll)]
        while not all(each.done() for each in busy):
            for job in runner.claim():
                runner.finish(job, p_result={"git": {"modules": []}})
        for each in busy:
            each.result()
    for job in runner.claim():
        runner.finish(job, p_result={"git": {"modules": []}})
    pending = "select count(*) from public.git_deliveries where connection_id = %s and verdict = 'PENDING'"
    assert world.owner.one(pending, connection) == 0


def test_a_reading_that_finds_nothing_new_wakes_no_page(site: Site) -> None:
    world, org, _, connection = site
    first_reading(site)
    seen = "select array_agg(xmin::text order by module_id) from public.module_git where org_id = %s"
    before = world.owner.one(seen, org.id)
    push(world, connection)
    assert read(site, 2, dns="d1", vpc="v1") == []
    assert world.owner.one(seen, org.id) == before


def test_a_set_of_all_modules_starts_beside_one_of_a_push(site: Site) -> None:
    world, org, _, connection = site
    first_reading(site)
    push(world, connection)
    read(site, 2, dns="d1", vpc="v2")
    assert org.owner.call("start_set", p_org=org.id, p_type="PLAN", p_path="")["total"] == 2
