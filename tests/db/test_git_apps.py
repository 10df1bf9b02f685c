"""GitHub Apps: created within an hour, by one organisation, and used only at the place that they were created for."""

from typing import Any

import pytest

from tests.db.git_site import SEALED, URL, Site, open_site
from tests.db.world import Organization, World, refused, sha256

GITHUB = "https://git.example.com"
GONE = "There is no such app to create."


@pytest.fixture
def site(world: World, org: Organization) -> Site:
    return open_site(world, org)


def begin(org: Organization, state: str = "state", url: str = GITHUB) -> dict[str, Any]:
    made = org.owner.call("start_git_app", p_org=org.id, p_state_hash=sha256(state), p_url=url)
    return {"p_app": made["id"], "p_state_hash": sha256(state)}


def complete(world: World, which: dict[str, Any], number: int) -> dict[str, Any]:
    spec = {
        "number": number, "slug": "runyard", "html_url": "https://git.example.com/apps/runyard",
        "webhook_secret": SEALED, "private_key": SEALED,
    }  # fmt: skip
    made: dict[str, Any] = world.service.call("complete_git_app", **which, p_spec=spec)
    return made


@pytest.mark.parametrize(("hours", "is_open"), [("0.9", True), ("1.1", False), ("100", False)])
def test_an_app_is_created_within_an_hour(world: World, org: Organization, hours: str, is_open: bool) -> None:
    which = begin(org)
    aged = "update public.git_apps set created_at = now() - %s * interval '1 hour' where id = %s"
    world.owner.connection.execute(aged, [hours, which["p_app"]])
    if is_open:
        assert org.owner.call("pending_git_app", **which)["org_id"] == org.id
        assert complete(world, which, abs(hash(org.id)) % 10**9)["slug"] == "runyard"
    with refused("RY404", GONE):
        org.owner.call("pending_git_app", **which)
    with refused("RY404", GONE):
        complete(world, which, 1)


def test_an_app_belongs_to_one_organisation(world: World, org: Organization) -> None:
    number = abs(hash(org.id)) % 10**9
    complete(world, begin(org), number)
    other = world.organization()
    with refused("RY409", "This GitHub App exists already."):
        complete(world, begin(other, url=GITHUB.upper().replace("HTTPS", "https") + "/"), number)
    complete(world, begin(other, url="https://other.example.com"), number)


@pytest.mark.parametrize(
    "spec", [{"base_url": "https://api.github.com"}, {"url": "https://git.example.com/b/edge"}, {"provider": "gitlab"}]
)
def test_another_place_ends_the_app_of_a_repository(site: Site, spec: dict[str, str]) -> None:
    world, org, _, connection = site
    app = complete(world, begin(org), abs(hash(org.id)) % 10**9)
    named = {"p_app": app["id"], "p_url": URL, "p_installation": 5}
    assert str(world.service.call("git_app_connection", **named)) == connection
    org.owner.call("update_git_connection", p_connection=connection, p_spec={"poll_seconds": 60})
    assert world.service.call("git_installation", p_connection=connection)["installation"] == 5
    changed = org.owner.call("update_git_connection", p_connection=connection, p_spec=spec)
    assert (changed["app_id"], changed["installation_id"], changed["has_token"]) == (None, None, False)
    assert world.service.call("git_installation", p_connection=connection) is None
    query = "select detail ->> 'reason' from public.audit_events where org_id = %s and action = 'git.app_ended'"
    assert org.owner.rows(query, org.id) == ["The GitHub App was for the former address of the repository."]
