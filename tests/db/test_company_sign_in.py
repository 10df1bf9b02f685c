"""Signing in through an organisation's identity provider: whom it speaks for, which teams it fills, and who enters without it."""

import json
import uuid
from typing import Any

import pytest

from tests.db.test_personal_tokens import acting, make
from tests.db.world import Organization, User, World, refused

DOMAIN = "example.org"
TOKEN = "ryp_" + "a" * 43


@pytest.fixture
def sso(fresh_world: World) -> Organization:
    """An organisation with a provider and a proved domain: a domain is one organisation's, so each test has a database."""
    org = fresh_world.organization()
    give_provider(org, DOMAIN)
    return org


def give_provider(org: Organization, domain: str) -> None:
    org.owner.call(
        "set_sign_in_provider",
        p_org=org.id,
        p_name="Example ID",
        p_issuer="https://id.example.com",
        p_client_id="runyard",
    )
    prove(org, domain)


def prove(org: Organization, domain: str) -> dict[str, Any]:
    added = org.owner.call("add_sign_in_domain", p_org=org.id, p_domain=domain)
    texts = "{other," + added["value"] + "}"
    found: dict[str, Any] = org.world.service.call("prove_sign_in_domain", p_org=org.id, p_domain=domain, p_texts=texts)
    return found


def provider(org: Organization) -> str:
    return f"custom:{org.id}"


def identity(subject: str, groups: Any = (), **more: Any) -> str:
    claims = {"sub": subject, "email": subject, "email_verified": True, "custom_claims": {"groups": groups}}
    return json.dumps(claims | more)


def sign_in(org: Organization, email: str, groups: Any = (), user: User | None = None, **more: Any) -> User:
    """Write what Auth writes when the provider of an organisation signs somebody in for the first time."""
    run = org.world.owner.connection.execute
    with org.world.owner.connection.transaction():
        if user is None:
            user_id = str(uuid.uuid4())
            run("insert into auth.users (id, email, email_confirmed_at) values (%s, %s, now())", [user_id, email])
        else:
            user_id = user.id
        run(
            "insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at)"
            " values (%s, %s, %s, %s, now())",
            [email, user_id, identity(email, groups, **more), provider(org)],
        )
    return entered(org, user_id, email)


def again(org: Organization, user: User, groups: Any = (), **more: Any) -> None:
    org.world.owner.connection.execute(
        "update auth.identities set identity_data = %s, last_sign_in_at = now() where user_id = %s and provider = %s",
        [identity(user.email, groups, **more), user.id, provider(org)],
    )


def entered(org: Organization, user_id: str, email: str, method: str = "oauth") -> User:
    """A session that Auth opened by this method."""
    caller = org.world.caller("authenticated", sub=user_id, email=email, amr=[{"method": method, "timestamp": 1}])
    return User(caller.connection, user_id, email)


def team(org: Organization, name: str, claim: str, role: str = "") -> str:
    made = str(org.owner.call("create_team", p_org=org.id, p_name=name)["id"])
    org.owner.call("set_team_claim", p_team=made, p_claim=claim)
    if role:
        org.owner.call("grant_role", p_org=org.id, p_path="", p_role=role, p_kind="team", p_subject=made)
    return made


def rules(org: Organization, role: str | None = None, **more: Any) -> Any:
    chosen = {"p_is_only": False, "p_break_glass": None} | more
    return org.owner.call("set_sign_in_rules", p_org=org.id, p_default_role=role, **chosen)


def role_of(org: Organization, user: User) -> str | None:
    found = org.world.owner.rows(
        "select role::text from public.memberships where org_id = %s and user_id = %s", org.id, user.id
    )
    return found[0] if found else None


def teams_of(org: Organization, user: User) -> list[str]:
    return org.world.owner.rows(
        "select t.name from public.team_members as m join public.teams as t on t.id = m.team_id"
        " where m.org_id = %s and m.user_id = %s order by 1",
        org.id, user.id,
    )  # fmt: skip


def owner_signs_in(org: Organization) -> None:
    """The owner joins their own account, which is what the switch to the provider alone asks for."""
    world = org.world
    world.owner.connection.execute("update auth.users set encrypted_password = 'x' where id = %s", [org.owner.id])
    domain = org.owner.email.partition("@")[2]
    if domain != DOMAIN:
        prove(org, domain)
    org.owner.call("allow_sign_in_link")
    sign_in(org, org.owner.email, user=org.owner)
    world.owner.connection.execute("update auth.users set encrypted_password = 'x' where id = %s", [org.owner.id])


def only(org: Organization) -> None:
    owner_signs_in(org)
    rules(org, None, p_is_only=True, p_break_glass=org.owner.id)


def test_a_provider_speaks_for_verified_addresses_of_proved_domains_alone(sso: Organization) -> None:
    with refused("RY403", "The domain of ann@elsewhere.org is not proved."):
        sign_in(sso, "ann@elsewhere.org")
    with refused("RY403", "The domain of ann@sub.example.org is not proved."):
        sign_in(sso, "ann@sub.example.org")
    with refused("RY403", "Example ID has not verified this email address."):
        sign_in(sso, f"ann@{DOMAIN}", email_verified=False)
    with refused("RY403", "has not verified"):
        sign_in(sso, f"ann@{DOMAIN}", email_verified=None)
    sso.owner.call("add_sign_in_domain", p_org=sso.id, p_domain="example.net")
    with refused("RY403", "is not proved"):
        sign_in(sso, "ann@example.net")
    ann = sign_in(sso, f"ann@{DOMAIN}")
    with refused("RY403", "is not proved"):
        again(sso, ann, email="owner@elsewhere.org")


def test_another_organisation_cannot_speak_for_a_proved_domain(sso: Organization) -> None:
    other_org = sso.world.organization()
    with refused("RY409", "Another organisation of this installation has proved this domain."):
        give_provider(other_org, DOMAIN)
    with refused("RY403", "is not proved"):
        sign_in(other_org, f"ann@{DOMAIN}")
    run = sso.world.owner.connection.execute
    with refused("RY403", "No organisation signs people in with this provider"):
        run(
            "insert into auth.identities (provider_id, user_id, identity_data, provider) values ('x', %s, %s, %s)",
            [sso.owner.id, identity(f"ann@{DOMAIN}"), f"custom:{uuid.uuid4()}"],
        )


def test_an_account_that_was_there_is_joined_only_by_its_owner_and_nothing_that_others_know_of_it_stays(
    sso: Organization,
) -> None:
    world = sso.world
    ann = world.user(f"ann@{DOMAIN}")
    run = world.owner.connection.execute
    run(
        "update auth.users set encrypted_password = 'known to another', last_sign_in_at = now() where id = %s", [ann.id]
    )
    make(ann, TOKEN)
    with refused("RY403", "There is an account with this address already."):
        sign_in(sso, ann.email, user=ann)
    other = world.user(f"bob@{DOMAIN}")
    other.call("allow_sign_in_link")
    with refused("RY403", "There is an account with this address already."):
        sign_in(sso, ann.email, user=ann)
    ann.call("allow_sign_in_link")
    run("update private.sign_in_links set expires_at = now() where user_id = %s", [ann.id])
    with refused("RY403", "There is an account with this address already."):
        sign_in(sso, ann.email, user=ann)
    assert ann.call("allow_sign_in_link") == {"provider": provider(sso), "name": "Example ID"}
    with refused("RY403", "There is an account with this address already."):
        sign_in(sso, f"eve@{DOMAIN}", user=ann)
    run("insert into auth.sessions (id, user_id) values (gen_random_uuid(), %s)", [ann.id])
    device = {"p_device_hash": "d" * 64, "p_user_code": "BCDFGHJK", "p_program": "of another"}
    world.service.call("start_device_login", **device)
    ann.call("decide_device_login", p_user_code="BCDFGHJK", p_is_confirmed=True)
    sign_in(sso, ann.email, user=ann)
    assert world.service.call("take_device_login", p_device_hash="d" * 64) == {"status": "expired"}
    left = "select (select encrypted_password from auth.users where id = %s), (select count(*) from auth.sessions where user_id = %s),"
    left += " (select count(*) from private.personal_tokens where user_id = %s)"
    assert world.owner.connection.execute(left, [ann.id] * 3).fetchone() == (None, 0, 0)


def test_a_test_shows_an_owner_the_claims_once_and_joins_nothing(sso: Organization) -> None:
    team(sso, "sre", "infra-sre")
    run = sso.world.owner.connection.execute
    run("update auth.users set encrypted_password = 'x', email = %s where id = %s", [f"own@{DOMAIN}", sso.owner.id])
    with refused("RY403", "You need member.own"):
        viewer = sso.member("viewer")
        run("update auth.users set email = %s where id = %s", [f"view@{DOMAIN}", viewer.id])
        viewer.call("allow_sign_in_link", p_is_test=True)
    sso.owner.call("allow_sign_in_link", p_is_test=True)
    sign_in(sso, f"own@{DOMAIN}", ["infra-sre"], user=sso.owner)
    mine = sso.owner.call("sign_in_settings", p_org=sso.id)["mine"]
    assert (mine["claims"]["email"], mine["teams"], mine["is_test"]) == (f"own@{DOMAIN}", ["sre"], True)
    left = "select count(*) from auth.identities where user_id = %s"
    assert (sso.world.owner.one(left, sso.owner.id), teams_of(sso, sso.owner)) == (0, [])
    assert sso.world.owner.one("select encrypted_password from auth.users where id = %s", sso.owner.id) == "x"
    session = str(uuid.uuid4())
    run("insert into auth.sessions (id, user_id) values (%s, %s)", [session, sso.owner.id])
    with refused("RY403", "This sign-in was a test."):
        run("insert into auth.mfa_amr_claims (session_id, created_at, updated_at, authentication_method)"
            " values (%s, now(), now(), 'oauth')", [session])  # fmt: skip
    with refused("RY403", "There is an account with this address already."):
        sign_in(sso, f"own@{DOMAIN}", user=sso.owner)


@pytest.mark.parametrize(
    ("claim", "is_right"), [(None, False), ("0", False), (False, False), ("1", True), (True, True)]
)
def test_an_address_of_entra_counts_where_its_tenant_owns_the_domain(
    sso: Organization, claim: Any, is_right: bool
) -> None:
    said = {"iss": "https://login.microsoftonline.com/x/v2.0", "custom_claims": {"groups": [], "xms_edov": claim}}
    if is_right:
        assert sign_in(sso, f"ann@{DOMAIN}", **said).email == f"ann@{DOMAIN}"
    else:
        with refused("RY403", "has not verified this email address."):
            sign_in(sso, f"ann@{DOMAIN}", **said)


def test_an_identity_stays_with_its_account(sso: Organization) -> None:
    ann, bob = sign_in(sso, f"ann@{DOMAIN}"), sign_in(sso, f"bob@{DOMAIN}")
    with refused("RY403", "An identity stays with its account."):
        sso.world.owner.connection.execute(
            "update auth.identities set user_id = %s where user_id = %s", [bob.id, ann.id]
        )


def test_groups_fill_teams_and_a_removed_group_ends_its_rights_and_no_claim_makes_an_owner(sso: Organization) -> None:
    sso.module("a/b")
    team(sso, "sre", "infra-sre", "operator")
    owners = team(sso, "owners", "owners", "admin")
    by_hand = sso.owner.call("create_team", p_org=sso.id, p_name="By hand")["id"]
    ann = sign_in(sso, f"ann@{DOMAIN}", ["infra-sre", "all-staff", "owner"])
    assert (role_of(sso, ann), teams_of(sso, ann)) == ("guest", ["sre"])
    assert ann.call("enqueue_job", p_org=sso.id, p_type="PLAN", p_module=sso.modules["a/b"])["created_by"] == ann.id
    sso.owner.call("set_team_member", p_team=by_hand, p_user=ann.id, p_is_member=True)
    again(sso, ann, ["owners"])
    assert (role_of(sso, ann), teams_of(sso, ann)) == ("guest", ["By hand", "owners"])
    with refused("RY403", "You need member.own"):
        ann.call("set_sign_in_rules", p_org=sso.id, p_default_role="operator", p_is_only=False, p_break_glass=None)
    sso.owner.call("set_team_claim", p_team=owners, p_claim="others")
    assert teams_of(sso, ann) == ["By hand"]
    again(sso, ann, [])
    assert role_of(sso, ann) is None
    with refused("RY404", "There is no such organisation"):
        ann.call("enqueue_job", p_org=sso.id, p_type="PLAN", p_module=sso.modules["a/b"])
    acts = sso.owner.rows(
        "select action from public.audit_events where org_id = %s and actor_label = 'Example ID' order by id", sso.id
    )
    assert acts == [
        "member.joined", "team.member_added", "team.member_removed", "team.member_added", "member.removed",
    ]  # fmt: skip


def test_who_is_in_no_group_gets_the_default_role_or_none(sso: Organization) -> None:
    assert role_of(sso, sign_in(sso, f"none@{DOMAIN}")) is None
    rules(sso, "viewer")
    ann = sign_in(sso, f"ann@{DOMAIN}")
    assert role_of(sso, ann) == "viewer"
    for role in ("owner", "admin"):
        with refused("RY422", "A default role is operator, viewer or guest"):
            rules(sso, role)
    sso.owner.call("set_member_role", p_org=sso.id, p_user=ann.id, p_role="operator")
    rules(sso, None)
    again(sso, ann)
    assert role_of(sso, ann) == "operator", "a role that was given by hand stays"


@pytest.mark.parametrize(
    "groups", ["infra-sre", ["infra-sre", 7, None], ["x"] * 6000 + ["infra-sre"], {"a": 1}, 7, None]
)
def test_odd_claims_fill_what_they_name_and_break_nothing(sso: Organization, groups: Any) -> None:
    team(sso, "sre", "infra-sre")
    ann = sign_in(sso, f"ann@{DOMAIN}", groups)
    is_named = groups == "infra-sre" or (isinstance(groups, list) and groups[0] == "infra-sre")
    assert teams_of(sso, ann) == (["sre"] if is_named else [])


def test_what_a_claim_gave_ends_when_the_provider_has_not_confirmed_it_for_too_long(sso: Organization) -> None:
    sso.module("a/b")
    team(sso, "sre", "infra-sre", "operator")
    ann = sign_in(sso, f"ann@{DOMAIN}", ["infra-sre"])
    make(ann, TOKEN)
    token = acting(sso.world, TOKEN)
    read = {"p_org": sso.id, "p_path": "a/b"}
    assert "job.apply" in token.call("my_verbs", **read)
    run = sso.world.owner.connection.execute
    run("update private.sign_in_confirmations set confirmed_at = now() - interval '25 hours'")
    for caller in (ann, token):
        assert caller.rows("select 1 from public.modules") == []
        with refused("RY404"):
            caller.call("enqueue_job", p_org=sso.id, p_type="PLAN", p_module=sso.modules["a/b"])
    again(sso, ann, ["infra-sre"])
    assert "job.apply" in ann.call("my_verbs", **read)
    run("update auth.identities set last_sign_in_at = null where user_id = %s", [ann.id])
    assert token.rows("select 1 from public.modules") == [], "the provider refused the person"


def test_through_the_provider_only_a_password_enters_for_the_one_owner_alone(sso: Organization) -> None:
    world = sso.world
    sso.module("a/b")
    rules(sso, "viewer")
    ann, viewer = sign_in(sso, f"ann@{DOMAIN}"), sso.member("viewer")
    make(ann, TOKEN)
    token = acting(world, TOKEN)
    account = sso.acting(sso.account("viewer"))
    only(sso)
    by_password = entered(sso, ann.id, ann.email, "password")
    for caller in (by_password, viewer):
        assert caller.rows("select 1 from public.modules") == []
        with refused("RY403", "is entered through Example ID only."):
            caller.call("list_access", p_org=sso.id, p_path="")
    for caller in (ann, token, account, sso.owner):
        assert caller.rows("select 1 from public.modules") == [1]
    world.owner.connection.execute(
        "update private.sign_in_confirmations set confirmed_at = null where user_id = %s", [ann.id]
    )
    for caller in (ann, token):
        assert caller.rows("select 1 from public.modules") == []
    assert sso.owner.rows("select 1 from public.modules") == [1]


def test_somebody_with_another_provider_is_not_believed_to_have_come_through_this_one(sso: Organization) -> None:
    rules(sso, "viewer")
    ann = sign_in(sso, f"ann@{DOMAIN}")
    only(sso)
    assert ann.rows("select 1 from public.organizations") == [1]
    sso.world.owner.connection.execute(
        "insert into auth.identities (provider_id, user_id, identity_data, provider) values ('1', %s, '{}', 'github')",
        [ann.id],
    )
    assert ann.rows("select 1 from public.organizations") == []


def test_nobody_locks_themselves_out(sso: Organization) -> None:
    with refused("RY422", "Choose an owner with a password"):
        rules(sso, None, p_is_only=True, p_break_glass=None)
    sso.world.owner.connection.execute("update auth.users set encrypted_password = 'x' where id = %s", [sso.owner.id])
    with refused("RY409", "You have not signed in through Example ID yet."):
        rules(sso, None, p_is_only=True, p_break_glass=sso.owner.id)
    viewer = sso.member("viewer")
    with refused("RY422", "Choose an owner with a password"):
        rules(sso, None, p_is_only=True, p_break_glass=viewer.id)
    only(sso)
    second = sso.member("owner")
    assert second.id
    for call, more in (("remove_member", {}), ("set_member_role", {"p_role": "viewer"})):
        with refused("RY409", "This owner can enter when the identity provider is away."):
            sso.owner.call(call, p_org=sso.id, p_user=sso.owner.id, **more)
    with refused("RY409", "Members enter through this provider only."):
        sso.owner.call("remove_sign_in_provider", p_org=sso.id)


def test_the_one_owner_who_comes_in_without_the_provider_is_noted(sso: Organization) -> None:
    only(sso)
    run = sso.world.owner.connection.execute
    seen = "select count(*) from public.audit_events where action = 'member.entered_without_provider'"
    for method, count in (("oauth", 0), ("password", 1), ("totp", 1)):
        session = str(uuid.uuid4())
        run("insert into auth.sessions (id, user_id) values (%s, %s)", [session, sso.owner.id])
        run(
            "insert into auth.mfa_amr_claims (session_id, created_at, updated_at, authentication_method)"
            " values (%s, now(), now(), %s)",
            [session, method],
        )
        assert sso.owner.one(seen) == count
    shown = [
        entered(sso, sso.owner.id, sso.owner.email, method).call("my_organizations")[0]["without"]
        for method in ("oauth", "password")
    ]
    assert shown == [None, "Example ID"], "the owner is warned"


def test_a_program_that_was_confirmed_in_such_a_session_counts_like_it(sso: Organization) -> None:
    world = sso.world
    rules(sso, "viewer")
    ann = sign_in(sso, f"ann@{DOMAIN}")
    only(sso)
    service = world.service
    answers = {}
    for number, caller in enumerate((ann, entered(sso, ann.id, ann.email, "password"))):
        device, code = f"{number}" * 64, "BCDFGHJ" + "KL"[number]
        service.call("start_device_login", p_device_hash=device, p_user_code=code, p_program="runyard on laptop")
        caller.call("decide_device_login", p_user_code=code, p_is_confirmed=True)
        answers[number] = service.call("take_device_login", p_device_hash=device)["through"]
    assert answers == {0: provider(sso), 1: None}
    session = str(uuid.uuid4())
    world.owner.connection.execute("insert into auth.sessions (id, user_id) values (%s, %s)", [session, ann.id])
    program = world.caller(
        "authenticated", sub=ann.id, email=ann.email, session_id=session, amr=[{"method": "recovery", "timestamp": 1}]
    )
    assert program.rows("select 1 from public.organizations") == []
    service.call("note_session_origin", p_session=session, p_provider=provider(sso))
    assert program.rows("select 1 from public.organizations") == [1]
    with refused("RY404", "There is no such session."):
        service.call("note_session_origin", p_session=uuid.uuid4(), p_provider=provider(sso))


def test_another_issuer_is_another_provider_and_a_removed_one_leaves_nobody_an_identity(sso: Organization) -> None:
    team(sso, "sre", "infra-sre")
    rules(sso, "viewer")
    ann = sign_in(sso, f"ann@{DOMAIN}", ["infra-sre"])
    named = {"p_org": sso.id, "p_name": "Other ID", "p_client_id": "runyard"}
    with refused("RY409", "The issuer of a provider stays."):
        sso.owner.call("set_sign_in_provider", **named, p_issuer="https://other.example.com")
    assert sso.owner.call("set_sign_in_provider", **named, p_issuer="https://id.example.com")["name"] == "Other ID"
    sso.owner.call("remove_sign_in_provider", p_org=sso.id)
    count = "select count(*) from auth.identities where user_id = %s"
    assert (sso.world.owner.one(count, ann.id), teams_of(sso, ann), role_of(sso, ann)) == (0, [], "viewer")
    sso.owner.call("set_sign_in_provider", **named, p_issuer="https://other.example.com")


def test_a_removed_domain_takes_its_identities_along(sso: Organization) -> None:
    ann = sign_in(sso, f"ann@{DOMAIN}")
    sso.owner.call("remove_sign_in_domain", p_org=sso.id, p_domain=DOMAIN)
    assert sso.world.owner.one("select count(*) from auth.identities where user_id = %s", ann.id) == 0
    with refused("RY404", "This organisation has no such domain."):
        sso.owner.call("remove_sign_in_domain", p_org=sso.id, p_domain=DOMAIN)
