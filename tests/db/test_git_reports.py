"""Reports of git results: one status for each commit, one comment for each pull request, and never a value."""

import json
from typing import Any

import pytest

from tests.db.git_site import SEALED, URL, Site, announce, commit, first_reading, merged, open_site, push, read
from tests.db.world import Organization, World, refused

TOKEN = "s1." + "t" * 60
PLANNED = {"has_changes": True, "create": 1, "update": 2, "replace": 1, "delete": 0, "no_op": 4}
Message = dict[str, Any]
AT_LEAST = "select next_report_at >= %s + make_interval(secs => %s) from private.git_secrets where connection_id = %s"


@pytest.fixture
def site(world: World, org: Organization) -> Site:
    made = open_site(world, org)
    first_reading(made)
    org.owner.call("update_git_connection", p_connection=made[3], p_spec={"token": TOKEN})
    return made


def lease(site: Site) -> list[Message]:
    """The reports that a sender gets now; the pause between two is skipped."""
    world, org, _, connection = site
    world.owner.connection.execute("update private.git_secrets set next_report_at = now()")
    found: list[Message] = world.service.call("lease_deliveries", p_limit=100)
    return [each for each in found if each["org"] == org.id and each["body"]["connection"] == connection]


def end(site: Site, message: Message, status: str = "DELIVERED", **more: Any) -> str:
    result = {"status": status, "http_status": 201, "note": "201", "took_ms": 3, **more}
    answer = site[0].service.call(
        "finish_delivery", p_delivery=message["id"], p_lease=message["lease"], p_result=result
    )
    return str(answer["status"])


def sent(site: Site) -> list[Message]:
    """Send every waiting report; return the contents in their order."""
    bodies = []
    while messages := lease(site):
        for message in messages:
            assert (message["channel"], message["secret"]) == ("git", TOKEN)
            end(site, message)
            bodies.append(message["body"])
    return bodies


def statuses(bodies: list[Message]) -> list[tuple[str, str, str]]:
    return [(each["commit"], each["state"], each["description"]) for each in bodies if each["kind"] == "status"]


def push_and_read(site: Site, number: int, **contents: str) -> list[dict[str, Any]]:
    push(site[0], site[3])
    return read(site, number, **contents)


def test_a_commit_has_one_status_from_its_plan_to_its_apply(site: Site) -> None:
    _, org, runner, _ = site
    dns, vpc = push_and_read(site, 2, dns="d2", vpc="v2")
    assert statuses(sent(site)) == [(commit(2), "pending", "0 of 2 modules done")]
    runner.finish(dns, p_plan_summary={"has_changes": False, "no_op": 3})
    assert statuses(sent(site)) == [(commit(2), "pending", "1 of 2 modules done")]
    runner.finish(vpc, p_plan_summary=PLANNED)
    (body,) = sent(site)
    assert (body["state"], body["description"]) == ("success", "2 modules: 2 to add, 2 to change, 1 to destroy")
    assert (body["provider"], body["url"], "rows" in body) == ("gitea", URL, False)
    apply = org.owner.one("select id from public.provision_jobs where plan_job_id = %s", vpc["id"])
    org.owner.call("approve_job", p_job=apply, p_decision="approve")
    assert statuses(sent(site)) == [(commit(2), "pending", "1 of 2 modules done")]
    runner.finish(runner.claim_one(), "FAILED", p_error={"code": "engine_failed", "message": "no"})
    assert statuses(sent(site)) == [
        (commit(2), "failure", "2 modules: 2 to add, 2 to change, 1 to destroy, 1 failed"),
    ]


def test_an_apply_that_succeeded_is_in_the_status(site: Site) -> None:
    _, org, runner, _ = site
    (vpc,) = push_and_read(site, 2, dns="d1", vpc="v2")
    runner.finish(vpc, p_plan_summary=PLANNED)
    apply = org.owner.one("select id from public.provision_jobs where plan_job_id = %s", vpc["id"])
    org.owner.call("approve_job", p_job=apply, p_decision="approve")
    runner.finish(runner.claim_one())
    assert statuses(sent(site)) == [
        (commit(2), "success", "1 module: 2 to add, 2 to change, 1 to destroy, 1 applied"),
    ]


def test_a_push_that_plans_nothing_has_a_status_that_ends(site: Site) -> None:
    assert push_and_read(site, 2, dns="d1", vpc="v1") == []
    assert statuses(sent(site)) == [(commit(2), "success", "Nothing to plan.")]


def test_waiting_reports_of_a_commit_become_one_with_the_newest_state(site: Site) -> None:
    world, org, runner, _ = site
    (vpc,) = push_and_read(site, 2, dns="d1", vpc="v2")
    (leased,) = lease(site)
    assert leased["body"]["state"] == "pending"
    runner.finish(vpc, "FAILED", p_error={"code": "engine_failed", "message": "no"})
    assert lease(site) == [], "the older report is still being written"
    assert end(site, leased, "FAILED") == "PENDING"
    world.owner.connection.execute("update public.deliveries set next_at = now() where org_id = %s", [org.id])
    (again,) = lease(site)
    assert (again["id"], again["body"]["state"]) == (leased["id"], "failure")
    end(site, again)
    assert sent(site) == []


def test_a_connection_is_written_to_once_a_second_and_not_before_its_provider_accepts_it(site: Site) -> None:
    world, org, _, connection = site
    announce(site, 5)
    merged(site, 5, dns="d1", vpc="v2")
    (first,) = lease(site)
    assert [each for each in world.service.call("lease_deliveries", p_limit=100) if each["org"] == org.id] == []
    before = world.owner.one("select clock_timestamp()")
    end(site, first)
    assert world.owner.one(AT_LEAST, before, 1, connection)
    (second,) = lease(site)
    before = world.owner.one("select clock_timestamp()")
    assert end(site, second, "FAILED", http_status=429, retry_seconds=7200) == "PENDING"
    assert world.owner.one(AT_LEAST, before, 7200, connection)
    assert [each for each in world.service.call("lease_deliveries", p_limit=100) if each["org"] == org.id] == []


def test_a_pull_request_has_a_status_and_one_comment_whose_id_is_kept(site: Site) -> None:
    world, _, runner, connection = site
    announce(site, 5)
    assert statuses(sent(site)) == [(commit(5), "pending", "A runner reads the repository first.")]
    (vpc,) = merged(site, 5, dns="d1", vpc="v2")
    runner.finish(vpc, p_plan_summary=PLANNED)
    by_kind = {each["body"]["kind"]: each for each in (lease(site) + lease(site))}
    assert (by_kind["status"]["body"]["commit"], by_kind["status"]["body"]["state"]) == (commit(5), "success")
    body = by_kind["comment"]["body"]
    assert (body["number"], body["comment_id"]) == (7, None)
    number = world.job(vpc["id"])["number"]
    assert body["rows"] == [
        {
            "path": "net/vpc", "job": number, "result": "planned", "state": "success", "to_add": 2, "to_change": 2,
            "to_destroy": 1,
        }
    ]  # fmt: skip
    end(site, by_kind["status"])
    end(site, by_kind["comment"], comment_id=4711)
    kept = "select comment_id from public.pull_requests where connection_id = %s"
    assert world.owner.one(kept, connection) == 4711
    announce(site, 6)
    merged(site, 6, dns="d2", vpc="v2")
    comments = [each for each in sent(site) if each["kind"] == "comment"]
    assert [(each["comment_id"], each["commit"], len(each["rows"])) for each in comments] == [(4711, commit(6), 2)]


def test_a_deleted_comment_is_created_at_once(site: Site) -> None:
    world, _, _, connection = site
    announce(site, 5)
    merged(site, 5, dns="d1", vpc="v2")
    world.owner.connection.execute(
        "update public.pull_requests set comment_id = 9 where connection_id = %s", [connection]
    )
    (comment,) = [each for each in (lease(site) + lease(site)) if each["body"]["kind"] == "comment"]
    assert end(site, comment, "FAILED", http_status=404, comment_id=None, retry_seconds=0) == "PENDING"
    (again,) = [each for each in lease(site) if each["body"]["kind"] == "comment"]
    assert again["body"]["comment_id"] is None


def test_a_head_with_equal_content_has_the_result_of_the_older_one_and_that_one_ends(site: Site) -> None:
    _, _, runner, _ = site
    announce(site, 5)
    (vpc,) = merged(site, 5, dns="d1", vpc="v2")
    sent(site)
    announce(site, 6)
    assert dict(each[:2] for each in statuses(sent(site))) == {commit(5): "failure", commit(6): "pending"}
    assert merged(site, 6, dns="d1", vpc="v2") == []
    runner.finish(vpc, p_plan_summary=PLANNED)
    assert statuses(sent(site)) == [(commit(6), "success", "1 module: 2 to add, 2 to change, 1 to destroy")]


@pytest.mark.parametrize(
    ("problem", "expected"),
    [("It conflicts with main.", ("failure", "It conflicts with main.")), (None, ("success", "Nothing to plan."))],
)
def test_a_pull_request_without_plans_has_a_status_that_ends(
    site: Site, problem: str | None, expected: tuple[str, str]
) -> None:
    announce(site, 5)
    assert merged(site, 5, problem, dns="d1", vpc="v1") == []
    assert statuses(sent(site)) == [(commit(5), *expected)]


def test_a_repository_that_cannot_be_read_fails_the_status_until_it_can(site: Site) -> None:
    _, org, runner, connection = site
    announce(site, 5)
    failure = {"code": "fetch_failed", "message": "https://user:hunter2@git.example.com refused"}
    runner.finish(runner.claim_one(), "FAILED", p_error=failure)
    assert statuses(sent(site)) == [(commit(5), "failure", "The repository could not be read.")]
    org.owner.call("poll_repository", p_connection=connection)
    assert merged(site, 5, dns="d1", vpc="v1") == []
    assert statuses(sent(site)) == [(commit(5), "success", "Nothing to plan.")]


def test_the_apply_after_the_merge_is_in_the_comment_of_the_pull_request(site: Site) -> None:
    _, org, runner, _ = site
    announce(site, 5)
    (plan,) = merged(site, 5, dns="d1", vpc="v2")
    runner.finish(plan, p_plan_summary=PLANNED)
    sent(site)
    announce(site, 5, is_open=False, merge_commit=commit(6))
    (vpc,) = push_and_read(site, 6, dns="d1", vpc="v2")
    runner.finish(vpc, p_plan_summary=PLANNED)
    apply = org.owner.one("select id from public.provision_jobs where plan_job_id = %s", vpc["id"])
    org.owner.call("approve_job", p_job=apply, p_decision="approve")
    runner.finish(runner.claim_one())
    last = [each for each in sent(site) if each["kind"] == "comment"][-1]
    assert [(row["path"], row["result"]) for row in last["rows"]] == [("net/vpc", "applied")]
    assert last["commit"] == commit(6)


def test_closing_ends_the_status_of_a_plan_that_runs(site: Site) -> None:
    _, _, runner, _ = site
    announce(site, 5)
    (plan,) = merged(site, 5, dns="d1", vpc="v2")
    announce(site, 5, is_open=False)
    runner.finish(plan, "CANCELLED")
    assert statuses(sent(site)) == [(commit(5), "failure", "1 module: 0 to add, 0 to change, 0 to destroy, 1 failed")]


def test_no_value_of_a_plan_is_in_a_report(site: Site) -> None:
    _, _, runner, _ = site
    secret = "hunter2-planted"
    summary = {
        **PLANNED, "create": secret, "delete": {"x": secret}, "outputs": [{"name": secret, "action": "create"}],
        "resources": [{"address": f'x["{secret}"]', "action": "create", "before": secret, "after": {"a": secret}}],
    }  # fmt: skip
    announce(site, 5)
    (plan,) = merged(site, 5, dns="d1", vpc="v2")
    runner.finish(plan, p_plan_summary=summary, p_result={"outputs": {"x": secret}})
    push(site[0], site[3])
    job = runner.claim_one()
    vpc = {"id": site[1].modules["net/vpc"], "branch": "main", "commit": commit(8), "fingerprint": "v9"}
    runner.finish(job, p_result={"git": {"modules": [vpc]}})
    (pushed,) = runner.claim(10)
    failure = {"code": "engine_failed", "message": f"the password is {secret}"}
    runner.finish(pushed, "FAILED", p_plan_summary=summary, p_error=failure)
    bodies = sent(site)
    assert {each["kind"] for each in bodies} == {"status", "comment"}
    assert secret not in json.dumps(bodies)
    (comment,) = [each for each in bodies if each["kind"] == "comment"]
    assert (comment["rows"][0]["to_add"], comment["rows"][0]["to_change"]) == (1, 2)


def test_without_a_token_nothing_is_reported(world: World, org: Organization) -> None:
    site = open_site(world, org)
    first_reading(site)
    push_and_read(site, 2, dns="d1", vpc="v2")
    assert org.owner.rows("select title from public.deliveries where org_id = %s", org.id) == []
    (row,) = org.owner.call("list_git_connections", p_org=org.id)
    assert (row["has_token"], row["last_report"]) == (False, None)


def test_a_report_that_cannot_be_queued_or_written_changes_no_job(fresh_world: World) -> None:
    site = open_site(fresh_world, fresh_world.organization())
    first_reading(site)
    site[1].owner.call("update_git_connection", p_connection=site[3], p_spec={"token": TOKEN})
    (vpc,) = push_and_read(site, 2, dns="d1", vpc="v2")
    (message,) = lease(site)
    end(site, message, "FAILED", http_status=500)
    fresh_world.owner.connection.execute(
        "alter table public.deliveries add constraint broken check (event <> 'git.report') not valid"
    )
    site[2].finish(vpc, p_plan_summary=PLANNED)
    assert fresh_world.status(vpc["id"]) == "SUCCEEDED"


def test_the_log_of_deliveries_shows_reports(site: Site) -> None:
    _, org, _, _ = site
    push_and_read(site, 2, dns="d1", vpc="v2")
    (message,) = lease(site)
    end(site, message, "FAILED", http_status=404, note="404")
    log = org.owner.call("list_deliveries", p_org=org.id)
    (row,) = log["rows"]
    assert (row["channel"], row["address_hint"], row["title"]) == (
        "git", "git.example.com/infra/edge", "Status of 0000000",
    )  # fmt: skip
    (connection,) = org.owner.call("list_git_connections", p_org=org.id)
    assert (connection["last_report"]["status"], connection["last_report"]["note"]) == ("PENDING", "404")
    assert org.owner.call("redeliver", p_delivery=row["id"])["status"] == "PENDING"
    assert TOKEN not in json.dumps([log, connection])


@pytest.mark.parametrize("spec", [{"token": None}, {"base_url": "https://elsewhere.example.com/api/v1"}])
def test_a_removed_token_ends_waiting_reports_and_another_address_removes_the_token(
    site: Site, spec: dict[str, Any]
) -> None:
    _, org, _, connection = site
    push_and_read(site, 2, dns="d1", vpc="v2")
    after = org.owner.call("update_git_connection", p_connection=connection, p_spec=spec)
    assert after["has_token"] is False
    assert lease(site) == []
    ended = "select distinct status, note from public.deliveries where org_id = %s"
    assert org.owner.rows(ended, org.id) == [("FAILED", "The token was removed.")]


def test_open_pull_requests_are_reported_as_soon_as_there_is_a_token(world: World, org: Organization) -> None:
    site = open_site(world, org)
    first_reading(site)
    announce(site, 5)
    merged(site, 5, dns="d1", vpc="v1")
    with refused("RY422", "The connection is not valid."):
        org.owner.call("update_git_connection", p_connection=site[3], p_spec={"token": "plain"})
    org.owner.call("update_git_connection", p_connection=site[3], p_spec={"token": SEALED.replace("a", "t")})
    assert statuses(sent(site)) == [(commit(5), "success", "Nothing to plan.")]
