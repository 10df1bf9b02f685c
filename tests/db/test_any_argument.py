"""Whatever is given to any function, anyone who may call it is answered or refused in words, never with an error of PostgreSQL's own.

The functions come from the catalogue and the callers from the permission matrix, so a new function is tried as soon as it exists.
"""

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.db.test_permissions import ARGUMENTS, Site, build
from tests.db.world import Caller, World
from tests.support.database import Database, Server
from tests.support.extent import sampled

# By type of argument; uuids, enums and booleans cannot be given wrongly: REST refuses them before the call.
ODD: dict[str, list[Any]] = {
    "text": [None, "", "x", "x" * 3000, "a/../b", "\n", "-1"],
    "integer": [None, -1, 0, 2**31 - 1],
    "bigint": [None, -1, 0, 2**63 - 1],
    "jsonb": [None, [], {}, "x", 1, True, [1], ["x"], [None], [{}], [[]]],
}
ODD_ITEMS: list[dict[str, Any]] = [
    {"job": "x"},
    {"job": 1, "attempt": "x", "status": "SUCCEEDED"},
    {"job": 1.5, "attempt": 1, "status": "SUCCEEDED"},
    {"job": 1, "attempt": 1, "is_dead": "x"},
    {"seq": "x", "body": "b"},
    {"seq": 1.5, "body": "b"},
    {"seq": 10**11, "body": "b"},
    {"seq": 1, "body": None},
]
ODD_VALUES = [None, "x", "", -1, 1.5, 1e30, 10**11, [], {}, True, ["x", 1], [None], {"a": 1}, "x" * 3000]
# Keys that objects may have where no call to refuse_unknown_keys names them.
KEYS = {
    "open_worker_session": {"capacity", "engines", "hostname", "version"},
    "worker_finish": {"last_seq", "bytes", "sha256", "is_incomplete", "code", "message"},
    "worker_heartbeat": {"capacity", "engines", "hostname", "engine_note", "last_error", "version"},
    "worker_scaling_decided": {"desired", "verdict", "reason", "memory", "dry_run"},
    "worker_state_lock": {"ID"},
}
# Functions that check for another: whose keys are theirs.
CHECKED_BY = {
    "check_worker_options": ["register_worker", "update_worker", "ensure_shared_worker", "deploy_worker"],
    "check_job_options": ["enqueue_job"],
    "merge_spec": ["create_module", "update_module"],
    "check_hooks": ["upsert_group"],
}
FUNCTIONS = """
select p.proname, array(select has_function_privilege(r, p.oid, 'execute') from unnest(array['authenticated', 'service_role']) as r),
  coalesce(p.proargnames, '{}'), array(select format_type(t, null) from unnest(p.proargtypes) as t), p.pronargs - p.pronargdefaults
from pg_proc as p where p.pronamespace = 'public'::regnamespace order by 1
"""


@pytest.fixture(scope="module")
def site(postgres_server: Server, module_database: str) -> Iterator[Site]:
    database = Database(postgres_server, module_database)
    yield build(World.open(database))
    database.close()


def known_keys(world: World) -> dict[str, set[str]]:
    """The keys that each function's object may have, from the bodies."""
    keys: dict[str, set[str]] = {name: set(found) for name, found in KEYS.items()}
    for name, body in world.owner.rows(
        "select proname, prosrc from pg_proc where pronamespace = 'private'::regnamespace"
    ):
        for listed in re.findall(r"refuse_unknown_keys\([^,]+,\s*array\[([^\]]*)\]", body):
            for owner in CHECKED_BY.get(name, [name]):
                keys.setdefault(owner, set()).update(re.findall(r"'(\w+)'", listed))
    return keys


def odd_values(kind: str, usual: Any, keys: set[str]) -> list[Any]:
    """Odd values for one argument; for an object also each of its keys with one."""
    found = list(ODD.get(kind, [None]))
    if kind == "jsonb":
        found += [[item] for item in ODD_ITEMS]
        chosen = sampled([(key, value) for key in sorted(keys) for value in ODD_VALUES], 4 * len(keys))
        found += [{**(usual if isinstance(usual, dict) else {}), key: value} for key, value in chosen]
    return found


def answer(caller: Caller, function: str, arguments: dict[str, Any]) -> str:
    """Return PostgreSQL's own error for a call; nothing, when it succeeded or was refused with a message. Its effects are undone."""
    names = [sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in arguments]
    query = sql.SQL("select public.{}({})").format(sql.Identifier(function), sql.SQL(", ").join(names))
    try:
        with caller.connection.transaction(force_rollback=True):
            caller.connection.execute(query, arguments)
    except psycopg.Error as error:
        has_words = str(error.sqlstate).startswith("RY") and error.diag.message_hint
        return "" if has_words else f"{error.sqlstate}: {error.diag.message_primary}"
    return ""


@pytest.fixture(scope="module")
def wrong(site: Site) -> dict[tuple[str, str], str]:
    """Return the calls that PostgreSQL itself answered: function and argument, with an example of the value and the answer."""
    keys, found, tried = known_keys(site.world), {}, 0
    for function, (is_person, is_service), names, kinds, needed in site.world.owner.rows(FUNCTIONS):
        caller = site.callers["owner" if is_person else "service" if is_service else "holder"]
        usual = {name: site.things[name] for name in names[:needed] if name in site.things}
        usual |= {name: site.things.get(str(value), value) for name, value in ARGUMENTS.get(function, {}).items()}
        for name, kind in zip(names, kinds, strict=True):
            for odd in odd_values(kind, usual.get(name), keys.get(function, set())):
                given = {
                    key: Jsonb(value) if kinds[names.index(key)] == "jsonb" and value is not None else value
                    for key, value in (usual | {name: odd}).items()
                }
                tried += 1
                if said := answer(caller, function, given):
                    found[function, name] = f"{str(odd)[:80]} -> {said}"
    assert tried > 1000, "little was tried, so this shows little"
    return found


def test_every_refusal_is_in_words(wrong: dict[tuple[str, str], str]) -> None:
    assert wrong == {}
