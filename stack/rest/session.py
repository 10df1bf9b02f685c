"""One request, one transaction: become the caller, tell the database about the request, run the statement."""

from dataclasses import dataclass
from functools import lru_cache

import orjson
from psycopg.pq.abc import PGresult

from stack.auth.tokens import ApiCaller, session_of
from stack.rest.catalog import SchemaCatalog
from stack.rest.connection import Connection, DatabaseError, Statement
from stack.rest.errors import RestError, from_database, not_singular
from stack.rest.pool import Pool

BEGIN = Statement(b"begin")
BEGIN_READ_ONLY = Statement(b"begin read only")
COMMIT = Statement(b"commit")
ROLLBACK = Statement(b"rollback")
SEARCH_PATH = b'"public", "extensions"'
# The database does not need credentials, and what it does not get it cannot log.
WITHHELD = frozenset(("authorization", "apikey", "cookie"))


@dataclass(frozen=True, slots=True)
class Plan:
    """A statement and how its transaction ends."""

    sql: bytes
    values: list[bytes | None]
    is_read_only: bool = False
    is_single: bool = False
    is_rolled_back: bool = False
    most_affected: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a statement."""

    total: int | None
    rows: int
    body: bytes
    headers: bytes | None
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
        session = session_of(identity.claims)
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
    """Run a plan in a transaction of its own; one round trip unless its end depends on its result."""
    begin = BEGIN_READ_ONLY if plan.is_read_only else BEGIN
    statement = Statement(plan.sql, plan.values, caller.scope)
    is_checked = not plan.is_read_only and (plan.is_single or plan.most_affected is not None)
    connection = await pool.take()
    try:
        if is_checked:
            return await _run_checked(connection, caller, plan, [begin, caller.settings, statement])
        end = ROLLBACK if plan.is_rolled_back else COMMIT
        results = await connection.run((begin, caller.settings, statement, end))
    except DatabaseError as error:
        raise from_database(error, caller.identity.is_anonymous) from error
    finally:
        await pool.give_back(connection)
    outcome = _outcome(results[2])
    if plan.is_single and outcome.rows != 1:
        raise not_singular(outcome.rows)
    return outcome


async def _run_checked(connection: Connection, caller: Caller, plan: Plan, statements: list[Statement]) -> Outcome:
    """Look at the number of rows before the transaction may commit."""
    results = await connection.run(statements)
    outcome = _outcome(results[2])
    if plan.is_single and outcome.rows != 1:
        raise not_singular(outcome.rows)
    if plan.most_affected is not None and outcome.rows > plan.most_affected:
        message = "Query result exceeds max-affected preference constraint"
        raise RestError(400, "PGRST124", message, f"The query affects {outcome.rows} rows")
    await connection.run((ROLLBACK if plan.is_rolled_back else COMMIT,))
    return outcome


def _outcome(result: PGresult) -> Outcome:
    get = result.get_value
    total = get(0, 0)
    return Outcome(int(total) if total else None, int(get(0, 1) or 0), get(0, 2) or b"", get(0, 3), get(0, 4))
