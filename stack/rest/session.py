"""One request, one transaction: become the caller, tell the database about the request, run the statement."""

from dataclasses import dataclass
from functools import lru_cache

import orjson
from psycopg.pq.abc import PGresult

from stack.auth.tokens import ApiCaller
from stack.rest.connection import DatabaseError, Statement
from stack.rest.errors import from_database
from stack.rest.pool import Pool
from stack.rest.store import SchemaCatalog

BEGIN = Statement(b"begin")
BEGIN_READ_ONLY = Statement(b"begin read only")
COMMIT = Statement(b"commit")
SEARCH_PATH = b'"public", "extensions"'
# The database does not need credentials, and what it does not get it cannot log.
WITHHELD = frozenset(("authorization", "apikey", "cookie"))


@dataclass(frozen=True, slots=True)
class Plan:
    """A statement and the kind of its transaction."""

    sql: bytes
    values: list[bytes | None]
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a statement."""

    total: int | None
    rows: int
    body: bytes
    status: bytes | None


class Caller:
    """The request's side of the transaction: who, and what the settings will say."""

    def __init__(
        self, identity: ApiCaller, catalog: SchemaCatalog, method: str, path: str, headers: dict[str, str]
    ) -> None:
        self.identity = identity
        self.scope = f"{catalog.version} {identity.role}"
        role_settings = tuple(catalog.role_settings.get(identity.role, ()))
        shown = {name: value for name, value in headers.items() if name not in WITHHELD}
        values = [
            identity.role.encode(),
            identity.claims_json,
            method.encode(),
            path.encode("utf-8", "replace"),
            orjson.dumps(shown),
            SEARCH_PATH,
        ]
        values += [value.encode() for _, value in role_settings]
        session = identity.session
        if session is not None:
            values.append(session.encode("utf-8", "replace"))
        names = tuple(name for name, _ in role_settings)
        self.settings = Statement(_settings_sql(names, has_session=session is not None), values)


@lru_cache(maxsize=64)
def _settings_sql(role_settings: tuple[str, ...], *, has_session: bool) -> bytes:
    names = (
        "role",
        "request.jwt.claims",
        "request.method",
        "request.path",
        "request.headers",
        "search_path",
        *role_settings,
    )
    calls = [f"set_config('{name}', ${number}, true)" for number, name in enumerate(names, 1)]
    if has_session:
        # A token outlives its session by up to an hour; a person who was signed out must not.
        calls.append(f"auth.runyard_need_session(${len(names) + 1})")
    return f"select {', '.join(calls)}".encode()


async def run_plan(pool: Pool, caller: Caller, plan: Plan) -> Outcome:
    """Run a plan in a transaction of its own, in one round trip."""
    begin = BEGIN_READ_ONLY if plan.is_read_only else BEGIN
    statement = Statement(plan.sql, plan.values, caller.scope)
    connection = await pool.take()
    try:
        results = await connection.run((begin, caller.settings, statement, COMMIT))
    except DatabaseError as error:
        raise from_database(error, caller.identity.is_anonymous) from error
    finally:
        await pool.give_back(connection)
    return _outcome(results[2])


def _outcome(result: PGresult) -> Outcome:
    get = result.get_value
    total = get(0, 0)
    return Outcome(int(total) if total else None, int(get(0, 1) or 0), get(0, 2) or b"", get(0, 3))
