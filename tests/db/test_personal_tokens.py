"""Personal tokens: a person's programs act as that person, until the token, the membership or the account ends."""

import uuid
from typing import Any

import pytest

from tests.db.test_two_steps import add_factor
from tests.db.world import Caller, Organization, World, refused, sha256

VOID = "This personal token was revoked or has expired."


@pytest.fixture
def secret() -> str:
    """A token that no other test of the same database has."""
    return uuid.uuid4().hex


def make(person: Caller, text: str, **more: Any) -> dict[str, Any]:
    given = {"p_name": "laptop", "p_token_hash": sha256(text), "p_hint": "abcd", **more}
    made: dict[str, Any] = person.call("create_personal_token", **given)
    return made


def acting(world: World, text: str) -> Caller:
    """The holder of the token, with the claims that the edge function gives for it now."""
    owner = world.service.call("use_personal_token", p_token_hash=sha256(text))
    claims = {"sub": owner["user_id"], "email": owner["email"], "personal_token": owner["id"]}
    return world.caller("authenticated", **claims)


def test_a_token_acts_as_its_owner_with_the_role_of_today(world: World, org: Organization, secret: str) -> None:
    member = org.member("operator")
    make(member, secret)
    program = acting(world, secret)
    assert [(one["id"], one["role"]) for one in program.call("my_organizations")] == [(org.id, "operator")]
    job = program.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=org.module("a/b"))
    assert (job["created_by"], job["created_by_label"]) == (member.id, member.email)
    org.owner.call("set_member_role", p_org=org.id, p_user=member.id, p_role="viewer")
    with refused("RY403", "your role is viewer"):
        program.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=org.modules["a/b"])
    org.owner.call("remove_member", p_org=org.id, p_user=member.id)
    assert program.call("my_organizations") == []
    assert program.rows("select 1 from public.modules") == []


def test_a_token_is_listed_without_its_hash(world: World, org: Organization, secret: str) -> None:
    made = make(org.owner, secret)
    (listed,) = org.owner.call("my_personal_tokens")
    assert listed == made | {"last_used_at": None}
    assert (listed["name"], listed["hint"], listed["is_live"]) == ("laptop", "abcd", True)
    assert sha256(secret) not in str(listed)
    acting(world, secret)
    assert org.owner.call("my_personal_tokens")[0]["last_used_at"] is not None
    assert world.user().call("my_personal_tokens") == []


@pytest.mark.parametrize("what", ["revoked", "expired"])
def test_a_revoked_or_expired_token_does_nothing_from_that_moment(
    world: World, org: Organization, what: str, secret: str
) -> None:
    made = make(org.owner, secret)
    program = acting(world, secret)
    if what == "revoked":
        org.owner.call("revoke_personal_token", p_token=made["id"])
    else:
        world.owner.connection.execute(
            "update private.personal_tokens set expires_at = now() where id = %s", [made["id"]]
        )
        assert org.owner.call("my_personal_tokens")[0]["is_live"] is False
    with refused("RY403", VOID):
        program.call("my_organizations")
    with refused("RY403", VOID):
        program.call("update_organization", p_org=org.id, p_name="Mine")
    assert program.rows("select 1 from public.organizations") == []
    assert world.service.call("use_personal_token", p_token_hash=sha256(secret)) is None


@pytest.mark.parametrize("change", ["banned_until = now() + interval '1 day'", "deleted_at = now()"])
def test_a_closed_accounts_token_is_exchanged_for_nothing(
    world: World, org: Organization, change: str, secret: str
) -> None:
    make(org.owner, secret)
    world.owner.connection.execute(f"update auth.users set {change} where id = %s", [org.owner.id])
    assert world.service.call("use_personal_token", p_token_hash=sha256(secret)) is None


def test_personal_tokens_are_removed_with_the_account(world: World, secret: str) -> None:
    person = world.user()
    make(person, secret)
    world.owner.connection.execute("delete from auth.users where id = %s", [person.id])
    assert world.owner.rows("select 1 from private.personal_tokens where user_id = %s", person.id) == []


def test_a_token_makes_no_token_and_confirms_no_login(world: World, org: Organization, secret: str) -> None:
    make(org.owner, secret)
    program = acting(world, secret)
    with refused("RY403", "A personal token creates no other login and no other token."):
        make(program, secret + "2")
    with refused("RY403", "A personal token creates no other login and no other token."):
        program.call("decide_device_login", p_user_code="BCDFGHJK", p_is_confirmed=True)
    program.call("revoke_personal_token", p_token=program.call("my_personal_tokens")[0]["id"])


def test_a_token_links_no_login_that_would_outlive_it(world: World, org: Organization, secret: str) -> None:
    make(org.owner, secret)
    with refused("RY403", "A personal token creates no other login and no other token."):
        acting(world, secret).call("request_git_link", p_org=org.id, p_host="github.com", p_login="octocat")


def test_a_token_with_limits_does_nothing_that_belongs_to_its_person(
    world: World, org: Organization, secret: str
) -> None:
    member = org.member("operator")
    other = make(member, secret + "2")
    make(member, secret, p_role="admin")
    program, link = acting(world, secret), {"p_token_hash": sha256(secret)}
    there = world.organization()
    invited = there.owner.call("invite_member", p_org=there.id, p_email=member.email, p_role="admin", **link)
    for function, given in (
        ("create_organization", {"p_name": "Mine", "p_slug": "mine"}),
        ("accept_invitation", {"p_invitation": invited["id"], **link}),
        ("revoke_personal_token", {"p_token": other["id"]}),
        ("my_personal_tokens", {}),
        ("remove_member", {"p_org": org.id, "p_user": member.id}),
    ):
        with refused("RY403", "A personal token with a role does only what its role may."):
            program.call(function, **given)
    assert [each["id"] for each in program.call("my_organizations")] == [org.id]


def test_a_token_counts_as_both_steps_and_a_session_with_one_step_creates_none(
    world: World, org: Organization, secret: str
) -> None:
    make(org.owner, secret)
    add_factor(world, org.owner.id)
    assert acting(world, secret).call("my_organizations")
    with refused("RY403", "This sign-in lacks its second step."):
        make(org.owner, secret + "2")


def test_the_id_of_somebody_elses_token_is_refused(
    world: World, org: Organization, other_org: Organization, secret: str
) -> None:
    made = make(other_org.owner, secret)
    thief = world.caller("authenticated", sub=org.owner.id, personal_token=made["id"])
    with refused("RY403", VOID):
        thief.call("my_organizations")


def test_invalid_foreign_and_surplus_tokens_are_refused(world: World, org: Organization, secret: str) -> None:
    for days in (0, 366, -1, None):
        with refused("RY422", "A personal token is valid for 1 to 365 days."):
            make(org.owner, secret, p_days=days)
    for wrong in ({"p_name": ""}, {"p_name": "x" * 61}, {"p_name": None}, {"p_token_hash": "x"}, {"p_hint": "abc"}):
        with refused("RY422", "The token's name, hash, hint, role or path is not valid."):
            make(org.owner, secret, **wrong)
    made = make(org.owner, secret)
    with refused("RY422", "The token's name, hash, hint, role or path is not valid."):
        make(org.owner, secret)
    with refused("RY404", "You have no such personal token."):
        world.user().call("revoke_personal_token", p_token=made["id"])
    with refused("RY403", "This is for people, not for service accounts."):
        make(org.acting(org.account("admin")), secret + "2")
    for number in range(49):
        make(org.owner, f"{secret} {number}")
    with refused("RY413", "You have 50 personal tokens, which is the limit."):
        make(org.owner, f"{secret} more")
