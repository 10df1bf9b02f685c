"""The address in the audit log: the one from which the session was opened, whatever a request claims about itself."""

import json
import uuid
from typing import Any

import pytest

from tests.db.world import Caller, Organization, World, refused


def open_session(world: World, user_id: str, ip: str | None) -> str:
    session = str(uuid.uuid4())
    world.owner.connection.execute(
        "insert into auth.sessions (id, user_id, ip) values (%s, %s, %s)", [session, user_id, ip]
    )
    return session


def signed_in(org: Organization, **claims: Any) -> Caller:
    return org.world.caller("authenticated", sub=org.owner.id, email=org.owner.email, **claims)


def address_of_an_act(org: Organization, caller: Caller) -> str | None:
    caller.call("update_organization", p_org=org.id, p_name=f"Named {uuid.uuid4().hex[:8]}")
    query = "select host(address) from public.audit_events where org_id = %s order by id desc limit 1"
    found: str | None = org.world.owner.one(query, org.id)
    return found


@pytest.mark.parametrize("ip", ["203.0.113.9", "2001:db8::7", None])
def test_a_persons_acts_have_the_address_of_their_sign_in(world: World, org: Organization, ip: str | None) -> None:
    caller = signed_in(org, session_id=open_session(world, org.owner.id, ip))
    assert address_of_an_act(org, caller) == ip


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-for": "198.51.100.1"},
        {"x-forwarded-for": "198.51.100.1, 198.51.100.2", "cf-connecting-ip": "198.51.100.3"},
        {"x-forwarded-for": "<garbage>"},
    ],
)
def test_an_address_from_request_headers_is_not_recorded(
    world: World, org: Organization, headers: dict[str, str]
) -> None:
    caller = signed_in(org, session_id=open_session(world, org.owner.id, "203.0.113.9"))
    for one, address in ((caller, "203.0.113.9"), (org.owner, None)):
        one.connection.execute("select set_config('request.headers', %s, false)", [json.dumps(headers)])
        assert address_of_an_act(org, one) == address


@pytest.mark.parametrize("session", ["", "no-uuid", "00000000-0000-4000-8000-000000000000", 7])
def test_a_session_that_does_not_exist_is_refused(org: Organization, session: Any) -> None:
    with refused("RY401", "This session was ended."):
        address_of_an_act(org, signed_in(org, session_id=session))


def test_a_token_without_a_session_has_no_address(org: Organization) -> None:
    assert address_of_an_act(org, signed_in(org, session_id=None)) is None


def test_somebody_elses_session_lends_no_address(world: World, org: Organization, other_org: Organization) -> None:
    theirs = open_session(world, other_org.owner.id, "203.0.113.9")
    assert address_of_an_act(org, signed_in(org, session_id=theirs)) is None


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:DB8::7", "2001:db8::7"),
        ("10.0.0.1/8", "10.0.0.1"),
        ("unknown", None),
        ("", None),
        ("203.0.113.9, 198.51.100.1", None),
        ("1" * 10_000, None),
        (None, None),
        ({"street": "Main"}, None),
    ],
)
def test_a_login_signed_by_a_function_records_its_client_address_if_valid(
    world: World, org: Organization, said: Any, kept: str | None
) -> None:
    session = open_session(world, org.owner.id, None)
    assert address_of_an_act(org, signed_in(org, client_address=said, session_id=session)) == kept


def test_acts_of_the_installation_have_no_address(world: World) -> None:
    world.service.call("set_organization_makers", p_who="EVERYBODY")
    assert world.owner.rows(
        "select address from public.audit_events where org_id is null order by id desc limit 1"
    ) == [None]


def test_only_readers_of_the_audit_log_see_addresses(world: World, org: Organization) -> None:
    address_of_an_act(org, signed_in(org, session_id=open_session(world, org.owner.id, "203.0.113.9")))
    query = "select host(address) from public.audit_events where address is not null"
    assert org.member("admin").rows(query) == ["203.0.113.9"]
    assert org.member("operator").rows(query) == org.member("viewer").rows(query) == []
