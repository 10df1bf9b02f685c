"""Connections to repositories, and how modules follow them: accepted values, and the people who see them."""

from typing import Any

import pytest

from tests.db.git_site import SEALED, URL, Site, commit, first_reading, open_site, push, read
from tests.db.world import Organization, World, refused
from tests.support.strange_addresses import STRANGE


@pytest.fixture
def site(world: World, org: Organization) -> Site:
    return open_site(world, org)


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


@pytest.mark.parametrize("url", STRANGE)
def test_an_address_with_several_readings_is_refused(org: Organization, url: str) -> None:
    words = "The address has characters that programs read in different ways."
    spec = {"provider": "gitea", "url": "https://git.example.com/a", "webhook_secret": SEALED}
    for given in ({"url": url}, {"base_url": url}):
        with refused("RY422", words) as refusal:
            org.owner.call("connect_repository", p_org=org.id, p_spec=spec | given)
        assert "user and host" in (refusal.value.diag.message_hint or "")
    for kind in ("git", "archive"):
        with refused("RY422", words):
            org.module("a/b", source_kind=kind, source={"url": url})


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example.com:8443/a/b%20c/_git/d@1",
        "https://a_b.c~d+e-f@git_1.example.com/a",
        "ssh://git@[2001:db8::1]:22/a",
        "git@git.example.com:a/b.git",
        "file:///srv/git/a",
        "/srv/git/a",
    ],
)
def test_usual_addresses_are_accepted(org: Organization, url: str) -> None:
    spec = {"provider": "generic", "url": url, "webhook_secret": SEALED}
    assert org.owner.call("connect_repository", p_org=org.id, p_spec=spec)["url"] == url


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
    with refused("RY413", "An organisation has at most 1,000 repositories."):
        org.owner.call("connect_repository", p_org=org.id, p_spec={})


def test_a_viewer_reads_how_a_module_follows_its_repository(site: Site, world: World) -> None:
    _, org, _, connection = site
    first_reading(site)
    viewer, module = org.member("viewer"), org.modules["net/vpc"]
    found = viewer.call("module_page", p_org=org.id, p_module=module)["repository"]
    assert (found["repository"], found["branch"], found["folder"]) == ("git.example.com/infra/edge", "main", "vpc")
    assert (found["seen_commit"], found["applied_commit"], found["is_on"]) == (commit(1), None, True)
    org.owner.call("disconnect_repository", p_connection=connection)
    assert viewer.call("module_page", p_org=org.id, p_module=module)["repository"] is None


def test_a_change_of_a_module_wakes_pages_with_the_id_of_the_module(site: Site, world: World) -> None:
    _, org, _, _ = site
    module = org.modules["net/vpc"]
    org.owner.call("set_module_git", p_module=module, p_spec={"is_on": False})
    woken = [each["id"] for each in world.wake_ups(f"org:{org.id}") if each.get("table") == "module_git"]
    assert set(woken) == {module}


def test_a_module_applies_as_its_nearest_group_unless_it_has_a_mode_of_its_own(site: Site) -> None:
    world, org, runner, connection = site
    first_reading(site)
    module = org.modules["net/vpc"]

    def mode(path: str = "net/vpc") -> tuple[str, str | None]:
        found = org.owner.call("module_page", p_org=org.id, p_module=org.modules[path])["repository"]
        return found["apply"], found["apply_from"]

    assert mode() == ("after_merge", None)
    org.owner.call("upsert_group", p_org=org.id, p_path="net", p_git_apply="never")
    assert (mode(), mode("net/dns")) == (("never", "net"), ("never", "net"))
    push(world, connection)
    (plan,) = read(site, 2, vpc="v2")
    runner.finish(plan, p_plan_summary={"has_changes": True})
    assert org.owner.rows("select id from public.provision_jobs where plan_job_id = %s", plan["id"]) == []
    org.owner.call("set_module_git", p_module=module, p_spec={"apply": "before_merge"})
    assert (mode(), mode("net/dns")) == (("before_merge", "net/vpc"), ("never", "net"))
    org.owner.call("set_module_git", p_module=module, p_spec={"apply": None})
    org.owner.call("upsert_group", p_org=org.id, p_path="net", p_description="Networks")
    assert mode() == ("never", "net"), "what is not named stays"
    org.owner.call("upsert_group", p_org=org.id, p_path="net", p_git_apply="inherit")
    assert mode() == ("after_merge", None)
    with refused("RY422", "The group is not valid."):
        org.owner.call("upsert_group", p_org=org.id, p_path="net", p_git_apply="now")
