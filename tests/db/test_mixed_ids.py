"""Somebody names their own organisation and one thing of another: every call refuses it, or finds nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.db.test_permissions import Site, arguments_of, build
from tests.db.world import World
from tests.support.database import Database, Server

FUNCTIONS = """
select proname, coalesce(proargnames, '{}'), array(select format_type(t, null) from unnest(proargtypes) as t), pronargs - pronargdefaults
from pg_proc where pronamespace = 'public'::regnamespace and has_function_privilege('authenticated', oid, 'execute')
"""
# Lists, in which things of others are not found: no refusal.
FIND_NOTHING = {"change_runners", "fleet_overview", "list_git_deliveries", "terminal_workspaces"}
ARRAYS = {"p_modules": "modules", "p_workers": "workers"}


@dataclass(frozen=True)
class Pair:
    """Two organisations full of the same things."""

    mine: Site
    theirs: Site

    def mixed(self, function: str, names: list[str], kinds: list[str], needed: int) -> Iterator[dict[str, Any]]:
        """The caller's own arguments, each time with one that is the other's."""
        usual, theirs = arguments_of(self.mine, function, names[:needed]), self.theirs.things
        for name, kind in zip(names, kinds, strict=True):
            thing = ARRAYS.get(name, "p_module" if kind == "uuid" and name not in theirs else name)
            if thing in theirs and name != "p_attempt":
                yield {**usual, name: theirs[thing]}


@pytest.fixture(scope="module")
def pair(postgres_server: Server, module_database: str) -> Iterator[Pair]:
    database = Database(postgres_server, module_database)
    world = World.open(database)
    theirs = build(world)
    # The installation has one set of these, shared by all organisations.
    world.owner.connection.execute("delete from public.worker_releases")
    world.owner.connection.execute("update public.sealing_keys set id = repeat('a', 16)")
    yield Pair(build(world), theirs)
    database.close()


def test_calls_that_mix_in_a_thing_of_another_organisation_are_refused(pair: Pair) -> None:
    wrong: list[tuple[Any, ...]] = []
    tried = 0
    for function, names, kinds, needed in pair.mine.world.owner.rows(FUNCTIONS):
        for given in pair.mixed(function, names, kinds, needed):
            tried += 1
            said = answer(pair, function, given)
            is_right = function in FIND_NOTHING if "org" in said else said["code"] in {"RY404", "RY409"}
            if not is_right or pair.theirs.org.id in str(said):
                wrong.append((function, given, said))
    assert wrong == []
    assert tried > 150


def answer(pair: Pair, function: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to the owner; all effects of the call are undone."""
    owner = pair.mine.callers["owner"]
    try:
        with owner.connection.transaction(force_rollback=True):
            return {"org": owner.call(function, **given)}
    except psycopg.Error as error:
        return {"code": error.sqlstate, "words": str(error)}
