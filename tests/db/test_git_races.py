"""Commands and ends of pull requests beside other work on the same modules: locks in one order, and a second try."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.db.git_site import SEALED, Site, announce, commit, first_reading, merged, open_site
from tests.db.test_comment_commands import prove, say
from tests.db.world import World
from tests.support.waiting import wait_until

CHANGES = {"has_changes": True, "create": 1}
# A sequence keeps its number when the transaction is rolled back.
DEADLOCKS = """
create sequence private.tries;
alter function private.do_command(public.git_connections, integer, jsonb) rename to do_command_as_it_is;
create function private.do_command(c public.git_connections, n integer, j jsonb) returns text language plpgsql as $$
begin
  if nextval('private.tries') <= %s then raise 'deadlock' using errcode = 'deadlock_detected'; end if;
  return private.do_command_as_it_is(c, n, j);
end $$;
"""


@pytest.fixture
def site(world: World) -> Site:
    """A pull request with plans of two modules, whose paths and ids are in opposite orders."""
    while True:
        org = world.organization()
        made = open_site(world, org)
        if org.modules["net/dns"] > org.modules["net/vpc"]:
            break
    first_reading(made)
    org.owner.call("upsert_group", p_org=org.id, p_path="net", p_git_apply="before_merge")
    announce(made, 5)
    for plan in merged(made, 5, dns="d2", vpc="v2"):
        made[2].finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(5)})
    prove(made)
    return made


class Other:
    """Somebody else's transaction."""

    def __init__(self, site: Site, connection: psycopg.Connection[Any]) -> None:
        self.site, self.connection = site, connection

    def lock(self, name: str) -> None:
        _, org, _, _ = self.site
        self.connection.execute("select private.lock_state(%s, %s)", [org.id, org.modules[f"net/{name}"]])


@contextmanager
def beside(site: Site, first: str, call: Callable[[], Any]) -> Iterator[tuple[Other, Any]]:
    """Run a call while somebody else has the state of a module; the body begins when the call waits for it."""
    with psycopg.connect(site[0].database.url) as connection, ThreadPoolExecutor(1) as pool:
        other = Other(site, connection)
        other.lock(first)
        called = pool.submit(call)
        wait_until(site[0].is_anybody_waiting)
        yield other, called
        connection.rollback()


@pytest.mark.parametrize("verb", ["confirm", "apply"])
def test_a_command_locks_modules_in_the_order_of_everybody_else(site: Site, verb: str) -> None:
    """The lower id comes first: with it in somebody's hands, the command has nothing that others could wait for."""
    with beside(site, "vpc", lambda: say(site, verb)) as (other, called):
        other.connection.execute("set lock_timeout = '2s'")
        other.lock("dns")
        other.connection.commit()
        assert called.result().startswith("DONE")


@pytest.mark.parametrize(
    ("deadlocks", "verdict"),
    [(2, "DONE: Done: /runyard plan"), (9, "REFUSED: Other work on the same modules was in the way.")],
)
def test_a_command_that_was_the_victim_of_a_deadlock_is_done_again(
    fresh_world: World, deadlocks: int, verdict: str
) -> None:
    made = open_site(fresh_world, fresh_world.organization())
    first_reading(made)
    announce(made, 5)
    prove(made)
    fresh_world.owner.connection.execute(DEADLOCKS % deadlocks)
    assert say(made, "plan").startswith(verdict)


def test_the_end_of_a_pull_request_has_no_row_of_a_lock_while_it_waits_for_a_state(site: Site) -> None:
    assert say(site, "apply").startswith("DONE")
    with beside(site, "vpc", lambda: announce(site, 5, is_open=False)) as (other, called):
        other.connection.execute("set lock_timeout = '2s'")
        other.connection.execute("select from public.module_locks for update")
        other.connection.commit()
        assert called.result()["verdict"] == "IGNORED"
    assert site[1].owner.rows("select module_id from public.module_locks") == []


def test_a_connection_that_cannot_be_polled_stops_no_other(fresh_world: World) -> None:
    org = fresh_world.organization()
    _, _, _, first = open_site(fresh_world, org)
    run = fresh_world.owner.connection.execute
    spec = {
        "provider": "gitea",
        "url": "https://git.example.com/infra/bad.git",
        "webhook_secret": SEALED,
        "token": SEALED,
    }
    bad = org.owner.call("connect_repository", p_org=org.id, p_spec=spec)["id"]
    run(f"""create function public.refuse() returns trigger language plpgsql as $$ begin
            if new.rule_id = '{bad}' then raise 'no'; end if; return new; end $$""")
    run("create trigger refuse before insert on public.deliveries for each row execute function public.refuse()")
    run("update public.git_connections set next_poll_at = now() - interval '1 minute' where id = %s", [bad])
    run("update public.git_connections set next_poll_at = now() where id = %s", [first])
    assert fresh_world.owner.one("select private.sweep_git()") == 1
    query = "select target_connection_id::text from public.provision_jobs where type = 'RESOLVE'"
    assert fresh_world.owner.rows(query) == [first]
