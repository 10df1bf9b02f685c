"""Pushes and polls: an event only asks a runner to read the repository; its content decides what is planned."""

import uuid
from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused

SEALED = "s1." + "a" * 60
URL = "https://git.example.com/infra/edge.git"
Site = tuple[World, Organization, Runner, str]


def commit(number: int) -> str:
    return f"{number:040x}"


@pytest.fixture
def site(world: World, org: Organization) -> Site:
    """A connected repository with two modules, both read once, and a runner."""
    for name in ("dns", "vpc"):
        org.module(f"net/{name}", source_kind="git", source={"url": URL, "ref": "main", "subfolder": name})
    runner = org.runner("one", is_assigned_to_all_modules=True, capacity=20)
    made = org.owner.call(
        "connect_repository", p_org=org.id, p_spec={"provider": "gitea", "url": URL, "webhook_secret": SEALED}
    )
    return world, org, runner, made["id"]


def push(world: World, connection: str, delivery: str = "", **more: Any) -> dict[str, Any]:
    said = {"delivery_id": delivery or str(uuid.uuid4()), "event": "push", "ref": "refs/heads/main", "after": commit(9)}
    answer: dict[str, Any] = world.service.call(
        "receive_git_delivery", p_connection=connection, p_delivery={**said, **more}
    )
    return answer


def read(site: Site, number: int, **contents: str | None) -> list[dict[str, Any]]:
    """Let the runner claim the RESOLVE job and report these contents at a commit; returns the jobs that follow."""
    _, org, runner, _ = site
    job = runner.claim_one()
    assert job["type"] == "RESOLVE"
    work = runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])
    modules = [
        {"id": org.modules[f"net/{name}"], "branch": "main", "commit": commit(number), "fingerprint": content}
        for name, content in contents.items()
    ]
    found = {"digest": work["digest"], "heads": {"refs/heads/main": commit(number)}, "modules": modules}
    runner.finish(job, p_result={"git": found})
    return runner.claim(10)


def last(site: Site) -> dict[str, Any]:
    _, org, _, connection = site
    rows: list[dict[str, Any]] = org.owner.call("list_git_deliveries", p_org=org.id, p_connection=connection)
    return rows[0]


def first_reading(site: Site) -> None:
    _, org, _, connection = site
    org.owner.call("poll_repository", p_connection=connection)
    assert read(site, 1, dns="d1", vpc="v1") == []


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "https://git.example.com/infra/edge",
        "https://somebody@GIT.example.com/Infra/edge.git/",
        "git@git.example.com:infra/edge.git",
        "ssh://git@git.example.com:2222/infra/edge.git",
    ],
)
def test_a_module_belongs_to_a_connection_however_its_url_is_spelled(site: Site, url: str) -> None:
    _, org, _, _ = site
    org.module("net/other", source_kind="git", source={"url": url})
    (connection,) = org.owner.call("list_git_connections", p_org=org.id)
    assert [module["path"] for module in connection["modules"]] == ["net/dns", "net/other", "net/vpc"]


@pytest.mark.parametrize(
    "url", ["https://git.example.com:8443/infra/edge.git", "https://git.example.com/infra/edge2", "/infra/edge"]
)
def test_another_repository_is_none_of_a_connection(site: Site, url: str) -> None:
    _, org, _, _ = site
    org.module("net/other", source_kind="git", source={"url": url})
    (connection,) = org.owner.call("list_git_connections", p_org=org.id)
    assert [module["path"] for module in connection["modules"]] == ["net/dns", "net/vpc"]


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


def test_equal_content_starts_nothing_and_says_so(site: Site) -> None:
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
        f"Same content as 0000000, planned in job {plan['id']}."
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


def test_the_poll_finds_what_no_delivery_announced(site: Site) -> None:
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


def test_a_push_to_a_branch_that_nobody_follows_says_which_one_each_module_follows(site: Site) -> None:
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
def test_events_that_start_nothing_say_why(site: Site, said: dict[str, Any], reason: str) -> None:
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


def test_a_newer_commit_supersedes_what_waits_of_the_older(site: Site) -> None:
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
    assert world.job(newer["id"])["cancel_kind"] == "GRACEFUL", "a plan that runs is asked to stop"


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


def test_a_reading_is_routed_as_jobs_of_its_first_module(world: World, org: Organization) -> None:
    org.module("net/dns", source_kind="git", source={"url": URL}, labels=["zone=a"])
    far = org.runner("far", is_assigned_to_all_modules=True)
    near = org.runner("near", labels=["zone=a"])
    org.owner.call("assign_worker", p_worker=near.worker_id, p_path="net")
    made = org.owner.call(
        "connect_repository", p_org=org.id, p_spec={"provider": "gitea", "url": URL, "webhook_secret": SEALED}
    )
    push(world, made["id"])
    assert far.claim() == []
    assert near.claim_one()["type"] == "RESOLVE"


def test_secrets_are_sealed_and_members_never_see_them(site: Site) -> None:
    world, org, _, connection = site
    found = world.service.call("git_connection_secret", p_connection=connection)
    assert found == {"org_id": org.id, "provider": "gitea", "webhook_secret": SEALED}
    assert SEALED not in str(org.owner.call("list_git_connections", p_org=org.id))
    with refused("42501"):
        org.owner.call("git_connection_secret", p_connection=connection)
    with refused("42501"):
        org.owner.rows("select * from private.git_secrets")


def test_a_disconnected_repository_is_unknown_to_deliveries(site: Site) -> None:
    world, org, runner, connection = site
    push(world, connection)
    org.owner.call("disconnect_repository", p_connection=connection)
    assert world.service.call("git_connection_secret", p_connection=connection) is None
    with refused("RY404", "There is no such connection."):
        push(world, connection)
    job = runner.claim_one()
    with refused("RY404", "The repository was disconnected."):
        runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])
    runner.finish(job, p_result={"git": {"modules": []}})
    org.owner.call(
        "connect_repository", p_org=org.id, p_spec={"provider": "gitea", "url": URL, "webhook_secret": SEALED}
    )


def test_a_wrong_signature_is_noted(site: Site) -> None:
    world, org, _, connection = site
    world.service.call("refuse_git_delivery", p_connection=connection)
    (row,) = org.owner.call("list_git_connections", p_org=org.id)
    assert row["refused_at"] is not None


@pytest.mark.parametrize(
    "spec",
    [
        {"provider": "svn"},
        {"webhook_secret": "plain"},
        {"webhook_secret": None},
        {"token": "plain"},
        {"poll_seconds": 5},
        {"url": None},
        {"base_url": "ftp://x"},
    ],
)
def test_a_connection_that_is_not_valid_is_refused(org: Organization, spec: dict[str, Any]) -> None:
    whole = {"provider": "gitea", "url": URL, "webhook_secret": SEALED, **spec}
    with refused("RY422", "The connection is not valid."):
        org.owner.call("connect_repository", p_org=org.id, p_spec=whole)


def test_a_url_with_a_password_is_refused(org: Organization) -> None:
    spec = {"provider": "gitea", "url": "https://me:secret@git.example.com/a", "webhook_secret": SEALED}
    with refused("RY422", "The address contains a password."):
        org.owner.call("connect_repository", p_org=org.id, p_spec=spec)


def test_a_repository_is_connected_once(site: Site) -> None:
    _, org, _, _ = site
    spec = {"provider": "gitea", "url": "git@git.example.com:infra/edge", "webhook_secret": SEALED}
    with refused("RY409", "This repository is connected already."):
        org.owner.call("connect_repository", p_org=org.id, p_spec=spec)


@pytest.mark.parametrize("spec", [{"apply": "now"}, {"branch": "-x"}, {"paths": "x"}, {"is_on": None}])
def test_settings_that_are_not_valid_are_refused(site: Site, spec: dict[str, Any]) -> None:
    _, org, _, _ = site
    with refused("RY422", "A setting is not valid."):
        org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec=spec)


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../b", ""])
def test_paths_outside_of_the_repository_are_refused(site: Site, path: str) -> None:
    _, org, _, _ = site
    with refused("RY422", "is not a path inside of a repository."):
        org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec={"paths": [path]})


def test_a_delivery_with_an_odd_field_and_a_page_too_long_are_refused(site: Site) -> None:
    world, org, _, connection = site
    with refused("RY422", "The delivery has a field that is not valid."):
        push(world, connection, after="main")
    with refused("RY422", "A page has 1 to 200 deliveries of a repository."):
        org.owner.call("list_git_deliveries", p_org=org.id, p_limit=0)


def test_an_organisation_has_a_limited_number_of_repositories(world: World, org: Organization) -> None:
    many = (
        "insert into public.git_connections (org_id, provider, url, repository, created_by_label) "
        "select %s, 'generic', 'x', 'x/' || n, 'x' from generate_series(1, 1000) as n"
    )
    world.owner.connection.execute(many, [org.id])
    with refused("RY429", "An organisation has at most 1,000 repositories."):
        org.owner.call("connect_repository", p_org=org.id, p_spec={})


def test_the_plan_of_a_pull_request_is_never_applied(world: World, org: Organization) -> None:
    runner = org.runner("one", is_assigned_to_all_modules=True)
    job = org.enqueue("net/vpc")
    pull = "update public.provision_jobs set payload = jsonb_set(payload, '{options,git}', '{\"pull_request\": 7}') where id = %s"
    world.owner.connection.execute(pull, [job])
    runner.finish(runner.claim_one(), p_plan_summary={"has_changes": True})
    with refused("RY409", "planned a pull request, and is never applied."):
        org.enqueue("net/vpc", "APPLY", plan_job_id=job)


def test_a_set_of_all_modules_starts_beside_one_of_a_push(site: Site) -> None:
    world, org, _, connection = site
    first_reading(site)
    push(world, connection)
    read(site, 2, dns="d1", vpc="v2")
    assert org.owner.call("start_set", p_org=org.id, p_type="PLAN", p_path="")["total"] == 2
