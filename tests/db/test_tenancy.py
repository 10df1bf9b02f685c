"""Organisations, members, roles and invitations."""

from typing import Any

import pytest

from tests.db.world import Organization, World, refused, sha256
from tests.support.database import Database


def test_the_creator_becomes_owner(org: Organization) -> None:
    assert org.owner.call("my_organizations")[0]["role"] == "owner"


def test_a_short_name_in_use_is_refused(world: World, org: Organization) -> None:
    slug = org.owner.one("select slug from public.organizations")
    with refused("RY409", 'The short name "'):
        world.user().call("create_organization", p_name="X", p_slug=slug)


@pytest.mark.parametrize("slug", ["", "A b", "-x", "x-", "a--b", "x" * 41])
def test_a_bad_short_name_is_refused(world: World, slug: str) -> None:
    with refused("RY422", "The name or the short name is not valid."):
        world.user().call("create_organization", p_name="X", p_slug=slug)


def test_strangers_see_nothing_of_an_organisation(org: Organization, other_org: Organization) -> None:
    org.module("platform/network")
    org.worker("r1", assignments=["platform"])
    org.enqueue("platform/network")
    tables = [
        "organizations",
        "memberships",
        "groups",
        "modules",
        "workers",
        "worker_assignments",
        "provision_jobs",
        "job_events",
    ]
    seen = {table: other_org.owner.one(f"select count(*) from public.{table}") for table in tables}
    assert seen == dict.fromkeys(tables, 0) | {"organizations": 1, "memberships": 1}


def test_the_jobs_of_an_organisation_are_deleted_with_it(
    world: World, org: Organization, other_org: Organization
) -> None:
    for each in (org, other_org):
        each.module("platform/network")
        each.enqueue("platform/network")
    world.owner.connection.execute("delete from public.organizations where id = %s", [org.id])
    for table in ("public.provision_jobs", "public.job_events", "private.live_jobs"):
        left = world.owner.rows(
            f"select org_id, count(*) from {table} where org_id in (%s, %s) group by 1", org.id, other_org.id
        )
        assert [(str(of), count) for of, count in left] == [(str(other_org.id), 1)], table


def test_an_invited_person_joins_with_the_role(org: Organization) -> None:
    member = org.member("operator")
    assert member.call("my_organizations") == [
        {
            "id": org.id,
            "role": "operator",
            "name": member.one("select name from public.organizations"),
            "slug": member.one("select slug from public.organizations"),
            "sees": None,
            "verbs": [],
            "is_last": False,
            "without": None,
        }
    ]


def test_the_organisation_that_was_opened_last_is_remembered_for_each_person(
    org: Organization, other_org: Organization
) -> None:
    def last(person: Any) -> list[str]:
        return [row["id"] for row in person.call("my_organizations") if row["is_last"]]

    member = org.member("viewer")
    assert last(member) == []
    member.call("open_organization", p_org=org.id)
    member.call("open_organization", p_org=org.id)
    assert last(member) == [org.id]
    with refused("RY404"):
        member.call("open_organization", p_org=other_org.id)
    assert (last(member), last(org.owner)) == ([org.id], [])


def test_an_invitation_needs_its_secret_and_its_address(world: World, org: Organization) -> None:
    guest, thief = world.user(), world.user()
    secret = sha256("s")
    made = org.owner.call("invite_member", p_org=org.id, p_email=guest.email, p_role="viewer", p_token_hash=secret)
    with refused("RY404", "This invitation is not valid, or no longer."):
        guest.call("accept_invitation", p_invitation=made["id"], p_token_hash=sha256("guess"))
    with refused("RY403", "This invitation is for another email address."):
        thief.call("accept_invitation", p_invitation=made["id"], p_token_hash=secret)
    with refused("RY404"):
        world.service.call("invitation_offer", p_invitation=made["id"], p_token_hash=sha256("guess"))
    offer = world.service.call("invitation_offer", p_invitation=made["id"], p_token_hash=secret)
    assert (offer["email"], offer["role"], offer["organization"]) == (
        made["email"],
        "viewer",
        org.owner.one("select name from public.organizations where id = %s", org.id),
    )
    assert offer["invited_by"] == org.owner.email
    assert guest.call("accept_invitation", p_invitation=made["id"], p_token_hash=secret)["role"] == "viewer"
    with refused("RY404"):
        guest.call("accept_invitation", p_invitation=made["id"], p_token_hash=secret)


def test_revoked_and_expired_invitations_are_not_valid(world: World, org: Organization) -> None:
    secret = sha256("s")
    revoked, expired = world.user(), world.user()
    invitations = [
        org.owner.call("invite_member", p_org=org.id, p_email=user.email, p_role="viewer", p_token_hash=secret)["id"]
        for user in (revoked, expired)
    ]
    org.owner.call("revoke_invitation", p_invitation=invitations[0])
    world.owner.connection.execute("update public.invitations set expires_at = now() where id = %s", [invitations[1]])
    for user, invitation in zip((revoked, expired), invitations, strict=True):
        with refused("RY404"):
            user.call("accept_invitation", p_invitation=invitation, p_token_hash=secret)


def test_a_second_invitation_replaces_the_first(world: World, org: Organization) -> None:
    guest = world.user()
    first = org.owner.call(
        "invite_member", p_org=org.id, p_email=guest.email, p_role="viewer", p_token_hash=sha256("1")
    )
    org.owner.call("invite_member", p_org=org.id, p_email=guest.email, p_role="admin", p_token_hash=sha256("2"))
    with refused("RY404"):
        guest.call("accept_invitation", p_invitation=first["id"], p_token_hash=sha256("1"))


def test_members_cannot_be_invited_again(org: Organization) -> None:
    member = org.member("viewer")
    with refused("RY409", "is already a member."):
        org.owner.call("invite_member", p_org=org.id, p_email=member.email, p_role="admin", p_token_hash=sha256("x"))


@pytest.mark.parametrize(("role", "may"), [("viewer", False), ("operator", False), ("admin", True)])
def test_admins_may_invite_and_lower_roles_may_not(org: Organization, role: str, may: bool) -> None:
    member = org.member(role)
    arguments = {"p_org": org.id, "p_email": "new@example.org", "p_role": "viewer", "p_token_hash": sha256("x")}
    if may:
        assert member.call("invite_member", **arguments)["email"] == "new@example.org"
    else:
        with refused("RY403"):
            member.call("invite_member", **arguments)


def test_only_owners_make_owners(org: Organization) -> None:
    admin, viewer = org.member("admin"), org.member("viewer")
    with refused("RY403"):
        admin.call("set_member_role", p_org=org.id, p_user=viewer.id, p_role="owner")
    with refused("RY403"):
        admin.call("set_member_role", p_org=org.id, p_user=org.owner.id, p_role="viewer")
    assert org.owner.call("set_member_role", p_org=org.id, p_user=viewer.id, p_role="owner")["role"] == "owner"


@pytest.mark.parametrize("act", ["set_member_role", "remove_member"])
def test_an_admin_who_is_demoted_while_waiting_changes_nobody(world: World, org: Organization, act: str) -> None:
    admin, other = org.member("admin"), org.member("viewer")
    more = {"p_role": "operator"} if act == "set_member_role" else {}
    late = world.during(
        org.owner,
        lambda: org.owner.call("set_member_role", p_org=org.id, p_user=admin.id, p_role="viewer"),
        lambda: admin.call(act, p_org=org.id, p_user=other.id, **more),
    )
    with refused("RY403"):
        late.result()
    assert other.call("my_organizations")[0]["role"] == "viewer"


def test_an_organisation_keeps_an_owner(org: Organization) -> None:
    with refused("RY409", "An organisation needs an owner."):
        org.owner.call("set_member_role", p_org=org.id, p_user=org.owner.id, p_role="admin")
    with refused("RY409"):
        org.owner.call("remove_member", p_org=org.id, p_user=org.owner.id)


def test_members_may_leave_and_see_nothing_afterwards(org: Organization) -> None:
    viewer = org.member("viewer")
    viewer.call("remove_member", p_org=org.id, p_user=viewer.id)
    assert viewer.rows("select id from public.organizations") == []
    with refused("RY404", "There is no such organisation, or you are not a member of it."):
        viewer.call("fleet_overview", p_org=org.id)


def test_settings_are_the_owners(org: Organization) -> None:
    with refused("RY403"):
        org.member("admin").call("update_organization", p_org=org.id, p_log_retention_days=7)
    with refused("RY422", "The name, the retention or a time limit is not valid."):
        org.owner.call("update_organization", p_org=org.id, p_log_retention_days=0)
    changed = org.owner.call("update_organization", p_org=org.id, p_name="New name", p_log_retention_days=7)
    assert (changed["name"], changed["log_retention_days"]) == ("New name", 7)


def test_a_foreign_organisation_looks_like_a_missing_one(
    world: World, org: Organization, other_org: Organization
) -> None:
    messages = []
    for target in (org.id, "00000000-0000-0000-0000-000000000000"):
        with refused("RY404") as caught:
            other_org.owner.call("fleet_overview", p_org=target)
        messages.append(caught.value.diag.message_primary)
    assert messages[0] == messages[1]


def test_acts_are_audited_and_admins_read_them(org: Organization) -> None:
    admin, viewer = org.member("admin"), org.member("viewer")
    org.worker("r1")
    actions = admin.rows("select action from public.audit_events order by id")
    assert actions[0] == "organization.created"
    assert "worker.registered" in actions
    assert viewer.rows("select action from public.audit_events") == []


def test_nobody_can_write_a_table_directly(org: Organization) -> None:
    for table in ("organizations", "workers", "provision_jobs", "modules", "audit_events"):
        with refused("42501"):
            org.owner.connection.execute(f"delete from public.{table}")


def test_the_installation_decides_who_may_create_organisations(world: World, org: Organization) -> None:
    guest = org.member("admin")
    assert guest.call("organization_makers") == {"who": "EVERYBODY", "may_create": True}
    world.service.call("set_organization_makers", p_who="OWNERS")
    assert guest.call("organization_makers") == {"who": "OWNERS", "may_create": False}
    with refused("RY403", "Only people who own an organisation create new ones"):
        guest.call("create_organization", p_name="Mine", p_slug="mine")
    assert org.owner.call("organization_makers")["may_create"]
    assert org.owner.call("create_organization", p_name="Second", p_slug="second-one")["slug"] == "second-one"
    world.service.call("set_organization_makers", p_who="EVERYBODY")
    assert guest.call("create_organization", p_name="Mine", p_slug="mine")["slug"] == "mine"
    with refused("RY422", "It is not set who may create organisations."):
        world.service.call("set_organization_makers", p_who=None)
    seen = world.owner.rows(
        "select detail ->> 'who' from public.audit_events where action = 'installation.organization_makers'"
    )
    assert seen == ["OWNERS", "EVERYBODY"]


def test_anybody_may_create_the_first_organisation_of_an_installation(database: Database) -> None:
    world = World.open(database)
    world.service.call("set_organization_makers", p_who="OWNERS")
    assert world.user().call("create_organization", p_name="First", p_slug="first-one")["slug"] == "first-one"
    with refused("RY403"):
        world.user().call("create_organization", p_name="Other", p_slug="other-one")


def test_an_empty_organisation_is_deleted_by_its_owner_with_all_its_history(world: World) -> None:
    org = world.organization()
    module, worker = org.module("team/app"), org.worker("only")
    slug = org.owner.one("select slug from public.organizations where id = %s", org.id)
    gone = {"p_org": org.id, "p_confirm_slug": slug}
    with refused("RY403"):
        org.member("admin").call("delete_organization", **gone)
    with refused("RY422", "The short name does not match."):
        org.owner.call("delete_organization", p_org=org.id, p_confirm_slug="another")
    with refused("RY409", "The organisation still has modules (1) or runners (1)."):
        org.owner.call("delete_organization", **gone)
    job = org.owner.call("enqueue_job", p_org=org.id, p_module=module, p_type="PLAN")["id"]
    org.owner.call("cancel_job", p_job=job)
    org.owner.call("delete_module", p_module=module, p_confirm_name="app")
    org.owner.call("remove_worker", p_worker=worker)
    org.owner.call("delete_organization", **gone)
    with refused("RY404"):
        org.owner.call("list_jobs", p_org=org.id)
    assert org.owner.call("my_organizations") == []
    world.owner.connection.execute("select private.delete_organizations()")
    assert world.owner.one("select count(*) from public.organizations where id = %s", org.id) == 0
    with refused("RY409", f'The short name "{slug.upper()}" belonged to an organisation that was deleted.'):
        world.user().call("create_organization", p_name="Another", p_slug=slug.upper())
    assert world.owner.one("select count(*) from public.provision_jobs where id = %s", job) == 0


def test_two_invitations_of_an_address_at_once_leave_the_later_one_open(world: World, org: Organization) -> None:
    admin = org.member("admin")
    invite = {"p_org": org.id, "p_email": "New@example.org", "p_role": "viewer"}
    later = world.during(
        org.owner,
        lambda: org.owner.call("invite_member", **invite, p_token_hash="1" * 64),
        lambda: admin.call("invite_member", **invite, p_token_hash="2" * 64),
    ).result()
    still_open = (
        "select id::text from public.invitations where org_id = %s and revoked_at is null and accepted_at is null"
    )
    assert org.owner.rows(still_open, org.id) == [later["id"]]
