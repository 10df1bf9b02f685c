"""Somebody with a second factor: a sign-in without its code sees nothing and does nothing, in every call."""

import pytest

from tests.db.world import Caller, Organization, World, refused

LACKS = "This sign-in lacks its second step."


def add_factor(world: World, user_id: str, status: str = "verified") -> None:
    world.owner.connection.execute(
        "insert into auth.mfa_factors (id, user_id, factor_type, status, created_at, updated_at)"
        " values (gen_random_uuid(), %s, 'totp', %s, now(), now())",
        [user_id, status],
    )


def sign_in(org: Organization, aal: str) -> Caller:
    return org.world.caller("authenticated", sub=org.owner.id, email=org.owner.email, aal=aal)


def test_without_the_code_nothing_is_seen_and_nothing_done(world: World, org: Organization) -> None:
    module = org.module("a/b")
    add_factor(world, org.owner.id)
    half = sign_in(org, "aal1")
    for table in ("organizations", "memberships", "modules", "audit_events"):
        assert half.rows(f"select 1 from public.{table}") == []
    with refused("RY403", LACKS):
        half.call("my_organizations")
    with refused("RY403", LACKS):
        half.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=module)
    with refused("RY403", LACKS):
        half.call("create_organization", p_name="Other", p_slug="other-org")


def test_a_token_without_a_level_counts_as_one_step(world: World, org: Organization) -> None:
    add_factor(world, org.owner.id)
    with refused("RY403", LACKS):
        org.owner.call("my_organizations")


def test_a_sign_in_with_both_steps_has_all_rights(world: World, org: Organization) -> None:
    module = org.module("a/b")
    add_factor(world, org.owner.id)
    whole = sign_in(org, "aal2")
    assert [one["id"] for one in whole.call("my_organizations")] == [org.id]
    assert whole.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=module)["status"] == "QUEUED"
    assert whole.rows("select id::text from public.organizations") == [org.id]


@pytest.mark.parametrize("aal", ["aal1", "aal2"])
def test_a_factor_that_was_never_confirmed_requires_no_code(world: World, org: Organization, aal: str) -> None:
    add_factor(world, org.owner.id, "unverified")
    assert sign_in(org, aal).call("my_organizations")


def test_a_stranger_learns_no_more_than_before(world: World, org: Organization) -> None:
    stranger = world.user()
    add_factor(world, stranger.id)
    with refused("RY404", "There is no such organisation"):
        stranger.call("update_organization", p_org=org.id, p_name="Mine")


def test_service_accounts_need_no_code(world: World, org: Organization) -> None:
    acting = org.acting(org.account("viewer"))
    add_factor(world, org.owner.id)
    assert [one["id"] for one in acting.call("my_organizations")] == [org.id]


def test_admins_see_the_two_step_status_and_the_last_sign_in_of_members(
    world: World, org: Organization, other_org: Organization
) -> None:
    viewer, admin = org.member("viewer"), org.member("admin")
    add_factor(world, viewer.id)
    add_factor(world, admin.id, "unverified")
    world.owner.connection.execute("update auth.users set last_sign_in_at = now() where id = %s", [viewer.id])
    rows = {row["user_id"]: row for row in admin.call("member_sign_ins", p_org=org.id)}
    assert {key: row["has_two_step"] for key, row in rows.items()} == {
        org.owner.id: False,
        viewer.id: True,
        admin.id: False,
    }
    assert rows[viewer.id]["last_sign_in_at"]
    with refused("RY403"):
        org.member("operator").call("member_sign_ins", p_org=org.id)
    with refused("RY404"):
        other_org.owner.call("member_sign_ins", p_org=org.id)


def hashes(first: int = 0) -> list[str]:
    return [f"{number:064x}" for number in range(first, first + 10)]


def array(values: list[str]) -> str:
    return "{" + ",".join(values) + "}"


def test_a_recovery_code_removes_the_devices_once(world: World, org: Organization) -> None:
    add_factor(world, org.owner.id)
    whole, half = sign_in(org, "aal2"), sign_in(org, "aal1")
    whole.call("set_recovery_codes", p_hashes=array(hashes()))
    with refused("RY403", LACKS):
        half.call("recovery_codes_left")
    with refused("RY403", LACKS):
        half.call("set_recovery_codes", p_hashes=array(hashes(10)))
    assert not half.call("use_recovery_code", p_hash=hashes(10)[0])
    assert half.call("use_recovery_code", p_hash=hashes()[3])
    assert half.call("my_organizations")
    assert half.call("recovery_codes_left") == 9
    add_factor(world, org.owner.id)
    assert not half.call("use_recovery_code", p_hash=hashes()[3])
    with refused("RY403", LACKS):
        half.call("my_organizations")


def test_recovery_codes_cannot_be_guessed_or_used_by_others(world: World, org: Organization) -> None:
    add_factor(world, org.owner.id)
    sign_in(org, "aal2").call("set_recovery_codes", p_hashes=array(hashes()))
    assert not world.user().call("use_recovery_code", p_hash=hashes()[0])
    half = sign_in(org, "aal1")
    for _ in range(10):
        assert not half.call("use_recovery_code", p_hash=hashes(10)[0])
    assert not half.call("use_recovery_code", p_hash=hashes()[0])
    world.owner.connection.execute("update private.rate_limits set window_started_at = now() - interval '1 hour'")
    assert half.call("use_recovery_code", p_hash=hashes()[0])


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ([], "There are ten recovery codes."),
        (hashes()[:9], "There are ten recovery codes."),
        ([*hashes()[:9], "x"], "A hash is not valid, or is listed twice."),
        ([hashes()[0]] * 10, "A hash is not valid, or is listed twice."),
    ],
)
def test_recovery_codes_are_ten_different_hashes(org: Organization, sent: list[str], words: str) -> None:
    with refused("RY422", words):
        org.owner.call("set_recovery_codes", p_hashes=array(sent))


def test_a_new_password_and_devices_are_in_the_log_of_each_organisation(world: World, org: Organization) -> None:
    auth = world.owner.connection
    for password in ("", "first", "second", "second"):
        auth.execute("update auth.users set encrypted_password = %s where id = %s", [password, org.owner.id])
    add_factor(world, org.owner.id, "unverified")
    auth.execute("update auth.mfa_factors set status = 'verified' where user_id = %s", [org.owner.id])
    auth.execute("delete from auth.mfa_factors where user_id = %s", [org.owner.id])
    noted = "select action, actor_label, target_id from public.audit_events where org_id = %s and action like %s order by id"
    found = [tuple(row) for row in auth.execute(noted, [org.id, "member.%"]).fetchall()]
    acts = ("member.password_changed", "member.device_added", "member.device_removed")
    assert found[-3:] == [(act, org.owner.email, str(org.owner.id)) for act in acts]
    assert [row[0] for row in found].count("member.password_changed") == 1
