"""Counts of the calls of our functions that a call causes in PostgreSQL."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql

from stack.postgres import SUPERUSER
from tests.db.world import Caller, World

CALLS = b"select funcname, calls from pg_stat_xact_user_functions where schemaname = 'private'"


def count_calls(world: World) -> None:
    """Let connections that are opened from now on count."""
    with psycopg.connect(world.database.url_as(SUPERUSER), autocommit=True) as superuser:
        name = sql.Identifier(world.database.name)
        superuser.execute(sql.SQL("alter database {} set track_functions = 'all'").format(name))


def calls_of(caller: Caller, act: Callable[[], Any]) -> Counter[str]:
    """Return the functions that an act of this caller calls, with counts; the act is undone afterwards."""
    with caller.connection.transaction(force_rollback=True):
        before = Counter(dict(caller.connection.execute(CALLS).fetchall()))
        act()
        return Counter(dict(caller.connection.execute(CALLS).fetchall())) - before
