"""A session that Auth has ended: its access token sees nothing and does nothing, on hosted too."""

import uuid

from tests.db.world import Caller, Organization, World, refused

ENDED = "This session was ended."


def sign_in(world: World, org: Organization) -> tuple[Caller, str]:
    session = str(uuid.uuid4())
    insert = "insert into auth.sessions (id, user_id) values (%s, %s)"
    world.owner.connection.execute(insert, [session, org.owner.id])
    claims = {"sub": org.owner.id, "email": org.owner.email, "session_id": session}
    return world.caller("authenticated", **claims), session


def test_an_ended_session_sees_and_does_nothing(world: World, org: Organization) -> None:
    module = org.module("a/b")
    (first, ended), (second, _) = sign_in(world, org), sign_in(world, org)
    assert first.rows("select id::text from public.organizations") == [org.id]
    world.owner.connection.execute("delete from auth.sessions where id = %s", [ended])
    for table in ("organizations", "memberships", "modules", "audit_events"):
        assert first.rows(f"select 1 from public.{table}") == []
    with refused("RY401", ENDED):
        first.call("my_organizations")
    with refused("RY401", ENDED):
        first.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=module)
    assert second.rows("select id::text from public.organizations") == [org.id]
