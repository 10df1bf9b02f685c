"""A caller who fills pg_temp with traps: tables, types and functions with our names. None of them may run as the owner."""

from typing import Any

import pytest

from tests.db.test_permissions import Site, attempt, build, functions
from tests.db.world import Caller, World
from tests.support.database import Database

TYPES = [
    "text",
    "uuid",
    "jsonb",
    "json",
    "bytea",
    "date",
    "timestamptz",
    "record",
    "int4",
    "int8",
    "bool",
    "numeric",
    "interval",
    "xid8",
    "regclass",
    "name",
]


@pytest.fixture(scope="module")
def site(postgres_server: Any, module_database: str) -> Any:
    database = Database(postgres_server, module_database)
    yield build(World.open(database))
    database.close()


def set_traps(world: World, caller: Caller) -> list[str]:
    """Give this connection a hostile pg_temp; what springs is listed with the role it ran as."""
    sprung: list[str] = []
    relations = world.owner.rows(
        "select distinct relname from pg_class where relnamespace::regnamespace::text in ('public', 'private') "
        "and relkind in ('r', 'p', 'v', 'S') and not relispartition"
    )
    names = world.owner.rows(
        "select distinct proname from pg_proc where pronamespace::regnamespace::text in ('public', 'private')"
    )
    execute = caller.connection.execute
    execute(
        "create function pg_temp.trap() returns boolean language plpgsql as "
        "$$ begin raise notice 'sprung as %', current_user; return true; end $$"
    )
    for relation in relations:
        execute(f'create temp view "{relation}" as select pg_temp.trap() as id')
    for name in names:
        execute(f"create function pg_temp.{name}() returns boolean language sql as 'select pg_temp.trap()'")
    for kind in TYPES:
        execute(f"create domain pg_temp.{kind} as integer check (pg_temp.trap())")
    caller.connection.add_notice_handler(lambda notice: sprung.append(str(notice.message_primary)))
    return sprung


@pytest.mark.parametrize("who", ["owner", "holder", "executor", "service"])
def test_traps_in_pg_temp_never_spring_for_the_owner(site: Site, who: str) -> None:
    caller = site.callers[who]
    clean = {name: attempt(caller, site, name, about["needs"]) for name, about in functions(site.world).items()}
    sprung = set_traps(site.world, caller)
    trapped = {name: attempt(caller, site, name, about["needs"]) for name, about in functions(site.world).items()}
    assert sprung == []
    assert trapped == clean


def test_the_traps_would_spring_in_a_careless_function(site: Site) -> None:
    """The test above proves something: a definer that names a type without its schema is caught."""
    owner = site.world.owner.connection
    owner.execute(
        "create function private.careless() returns pg_catalog.text language plpgsql security definer set search_path = '' "
        "as $$ declare v jsonb := '1'; begin return v; end $$"
    )
    owner.execute("grant execute on function private.careless() to authenticated")
    caller = site.callers["admin"]
    sprung = set_traps(site.world, caller)
    try:
        caller.connection.execute("select private.careless()")
        assert "sprung as postgres" in sprung
    finally:
        owner.execute("drop function private.careless()")
