"""Pull requests: the merge is planned and never applied, older plans make room, and forks start nothing."""

from typing import Any

import pytest

from tests.db.git_site import Site, announce, commit, first_reading, last, merged, open_site, push
from tests.db.world import Organization, Runner, World, refused

KUBERNETES = {"kind": "kubernetes", "settings": {"server": "https://k"}}


@pytest.fixture
def site(world: World, org: Organization) -> Site:
    made = open_site(world, org)
    first_reading(made)
    return made


def test_the_merge_is_planned_for_the_modules_that_it_changes(site: Site) -> None:
    world, org, runner, _ = site
    assert announce(site, 5)["verdict"] == "PENDING"
    (plan,) = merged(site, 5, dns="d1", vpc="v2")
    source = plan["payload"]["module"]["source"]
    assert source["merge"] == {"base": commit(1), "head": commit(5), "ref": "refs/pull/7/head"}
    assert "commit" not in source
    assert (plan["module_path"], plan["payload"]["options"]["git"]["pull_request"]) == ("net/vpc", 7)
    row = last(site)
    assert (row["verdict"], row["pull_request"]) == ("PLANNED", 7)
    assert {module["path"]: module["reason"] for module in row["modules"]} == {
        "net/dns": "Nothing under its folders changes.",
        "net/vpc": "Its folders change.",
    }
    runner.finish(plan, p_plan_summary={"has_changes": True})
    assert world.owner.rows("select id from public.provision_jobs where plan_job_id = %s", plan["id"]) == []
    with refused("RY409", "planned a pull request, and is never applied."):
        org.enqueue("net/vpc", "APPLY", plan_job_id=plan["id"])


def test_auto_apply_does_not_apply_a_plan_of_a_pull_request(site: Site) -> None:
    world, org, runner, _ = site
    org.owner.call("update_module", p_module=org.modules["net/vpc"], p_spec={"auto_apply": True})
    announce(site, 5)
    (plan,) = merged(site, 5, vpc="v2")
    runner.finish(plan, p_plan_summary={"has_changes": True})
    assert world.owner.rows("select id from public.provision_jobs where plan_job_id = %s", plan["id"]) == []


def identities_of(runner: Runner, job: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The names of the identities that a job has, and the kinds of those that are withheld from it."""
    answer = runner.call("worker_identities", p_job=job["id"], p_attempt=job["attempt"])
    return [each["name"] for each in answer["identities"]], answer["withheld"]


@pytest.mark.parametrize("mode", ["after_merge", "before_merge"])
def test_a_pull_request_gets_identities_only_where_its_repository_says_so(site: Site, mode: str) -> None:
    world, org, runner, connection = site
    org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec={"apply": mode})
    for spec in ({"kind": "custom", "name": "registry", "audience": "x"}, KUBERNETES):
        org.owner.call("attach_identity", p_org=org.id, p_path="net", p_spec=spec)
    announce(site, 5)
    (plan,) = merged(site, 5, vpc="v2")
    assert identities_of(runner, plan) == ([], ["custom", "kubernetes"])
    org.owner.call("update_git_connection", p_connection=connection, p_spec={"allows_identities": True})
    assert identities_of(runner, plan) == (["kubernetes", "registry"], [])
    claims = runner.call("worker_identities", p_job=plan["id"], p_attempt=plan["attempt"])["claims"]
    assert (claims["runyard_phase"], claims["runyard_trust"], claims["runyard_ref"]) == (
        "plan",
        "pull_request",
        "pull/7",
    )
    assert claims["runyard_commit"] == plan["payload"]["options"]["git"]["head_commit"]
    fork = (
        "update public.provision_jobs set payload = jsonb_set(payload, '{options,git,is_fork}', 'true') where id = %s"
    )
    world.owner.connection.execute(fork, (plan["id"],))
    assert identities_of(runner, plan) == ([], ["custom", "kubernetes"])
    org.enqueue("net/dns")
    (own,) = runner.claim(10)
    assert identities_of(runner, own) == (["kubernetes", "registry"], [])


def test_identities_of_hcp_variables_are_withheld_from_a_pull_request_too(site: Site) -> None:
    _, org, runner, _ = site
    env = {
        "TFC_AWS_PROVIDER_AUTH": "true",
        "TFC_AWS_RUN_ROLE_ARN": "arn:aws:iam::123456789012:role/r",
    }
    sent = [{"kind": "env", "name": name, "value": value} for name, value in env.items()]
    org.owner.call("set_variables", p_org=org.id, p_path="net", p_variables=sent)
    announce(site, 5)
    (plan,) = merged(site, 5, vpc="v2")
    assert identities_of(runner, plan) == ([], ["aws"])


def test_a_newer_head_ends_the_older_plan_and_equal_content_keeps_it(site: Site) -> None:
    world, _, _, _ = site
    announce(site, 5)
    (older,) = merged(site, 5, dns="d1", vpc="v2")
    announce(site, 6)
    assert merged(site, 6, dns="d1", vpc="v2") == []
    assert world.job(older["id"])["cancel_kind"] is None
    assert last(site)["modules"][1]["reason"] == "The same content was planned for this pull request."
    announce(site, 8)
    merged(site, 8, dns="d1", vpc="v3")
    assert world.job(older["id"])["cancel_kind"] == "GRACEFUL"


def test_plans_of_a_push_and_of_a_pull_request_leave_each_other_alone(site: Site) -> None:
    world, org, runner, connection = site
    announce(site, 5)
    (plan,) = merged(site, 5, dns="d1", vpc="v2")
    push(world, connection)
    job = runner.claim_one()
    vpc = {"id": org.modules["net/vpc"], "branch": "main", "commit": commit(6), "fingerprint": "v9"}
    runner.finish(job, p_result={"git": {"modules": [vpc]}})
    assert world.job(plan["id"])["cancel_kind"] is None
    assert last(site)["verdict"] == "PLANNED"


def test_a_conflict_is_a_verdict(site: Site) -> None:
    announce(site, 5)
    assert merged(site, 5, "It conflicts with main.") == []
    row = last(site)
    assert (row["verdict"], row["reason"]) == ("NOTHING", "It conflicts with main.")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"is_fork": True}, "It comes from a fork, so nothing is run for it."),
        ({"is_draft": True}, "It is a draft."),
        ({"is_open": False}, "The pull request is closed."),
    ],
)
def test_forks_drafts_and_closed_ones_start_nothing(site: Site, more: dict[str, Any], reason: str) -> None:
    _, _, runner, _ = site
    answer = announce(site, 5, **more)
    assert (answer["verdict"], answer["reason"]) == ("IGNORED", reason)
    assert runner.claim(10) == []


def test_an_event_without_a_pull_request_starts_nothing(site: Site) -> None:
    world, _, _, connection = site
    answer = push(world, connection, event="pull_request", action="labeled")
    assert answer["reason"] == "The event has no pull request that can be read."


def test_closing_ends_its_plans_and_it_is_read_no_more(site: Site) -> None:
    world, org, runner, connection = site
    announce(site, 5)
    (plan,) = merged(site, 5, dns="d1", vpc="v2")
    announce(site, 5, is_open=False)
    assert world.job(plan["id"])["cancel_kind"] == "GRACEFUL"
    org.owner.call("poll_repository", p_connection=connection)
    job = runner.claim_one()
    assert runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])["pull_requests"] == []


def test_the_poll_finds_a_new_head_of_a_known_pull_request(site: Site) -> None:
    _, org, _, connection = site
    announce(site, 5)
    merged(site, 5, dns="d1", vpc="v1")
    org.owner.call("poll_repository", p_connection=connection)
    assert len(merged(site, 6, dns="d1", vpc="v2")) == 1
    row = last(site)
    assert (row["event"], row["verdict"], row["pull_request"]) == ("poll", "PLANNED", 7)


def test_a_reading_that_finds_nothing_new_answers_a_pull_request(site: Site) -> None:
    _, _, runner, _ = site
    announce(site, 5)
    runner.finish(runner.claim_one(), p_result={"git": {"heads": {}}})
    row = last(site)
    assert (row["verdict"], row["reason"]) == ("NOTHING", "Nothing has changed since the last reading.")


def test_a_plan_of_a_pull_request_does_not_change_the_recorded_drift(site: Site) -> None:
    world, org, runner, _ = site
    drifted = "update public.modules set drift_since = now(), drift_resources = 1 where id = %s"
    world.owner.connection.execute(drifted, [org.modules["net/vpc"]])
    announce(site, 5)
    (plan,) = merged(site, 5, vpc="v2")
    runner.finish(plan, p_plan_summary={"has_changes": False})
    assert world.owner.one("select drift_resources from public.modules where id = %s", org.modules["net/vpc"]) == 1
