"""A request as the REST service sees it, answered by its path: a table is read, a function is called."""

import difflib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson
from psycopg.pq.abc import PGresult

from stack.asgi import JSON
from stack.auth.tokens import ApiCaller
from stack.rest.errors import RestError, Unsupported, bad_body, from_database
from stack.rest.pool import DatabaseError, Pool, Statement
from stack.rest.query import parse_query
from stack.rest.reading import Call, call_statement, read_statement
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


SPOKEN = ("application/json", "*/*", "application/*", "application/vnd.pgrst.array+json", "application/vnd.pgrst.array")


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its body read."""

    method: str
    path: str
    query_string: bytes
    headers: dict[str, str]
    body: bytes
    identity: ApiCaller
    catalog: SchemaCatalog
    schema: str
    most_rows: int | None

    @property
    def is_counted(self) -> bool:
        """Whether the client wants to know how many rows there are in all."""
        wanted = {part.strip() for part in self.headers.get("prefer", "").split(",")}
        if wanted & {"count=planned", "count=estimated"}:
            raise Unsupported("estimated counts; use count=exact")
        return "count=exact" in wanted

    def caller(self) -> Caller:
        """The request's side of the transaction."""
        return Caller(self.identity, self.catalog, self.method, f"/{self.path}", self.headers)

    def json(self) -> Any:
        """The body's JSON; only json is read."""
        kind = self.headers.get("content-type", "application/json").split(";")[0].strip().lower()
        if kind not in ("application/json", ""):
            raise Unsupported(f"bodies of type {kind}")
        try:
            return orjson.loads(self.body)
        except ValueError as error:
            raise bad_body() from error


def check_accepted(headers: dict[str, str]) -> None:
    """Refuse a request that accepts no list in JSON."""
    wanted = [part.split(";")[0].strip().lower() for part in headers.get("accept", "*/*").split(",")]
    if not set(wanted) & set(SPOKEN):
        raise Unsupported(f"answers of type {', '.join(wanted)}")


def negotiate(headers: dict[str, str], method: str, schemas: tuple[str, ...]) -> str:
    """The schema a request speaks to."""
    name = "accept-profile" if method in ("GET", "HEAD") else "content-profile"
    schema = headers.get(name, schemas[0])
    if schema not in schemas:
        hint = f"Only the following schemas are exposed: {', '.join(schemas)}"
        raise RestError(406, "PGRST106", f"Invalid schema: {schema}", None, hint)
    return schema


@dataclass(slots=True)
class Response:
    """Status, body and headers."""

    status: int
    body: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)


CHANGES = ("POST", "PATCH", "PUT", "DELETE")


async def answer_table(pool: Pool, request: Request) -> Response:
    """A request for `/table`."""
    if request.method in CHANGES:
        raise Unsupported("changes of tables; call a function")
    if request.method not in ("GET", "HEAD"):
        raise RestError(405, "PGRST117", f"Unsupported HTTP method: {request.method}")
    _need_table(request)
    check_accepted(request.headers)
    query = parse_query(request.query_string)
    sql, values = read_statement(request.schema, request.path, query, request.most_rows, is_counted=request.is_counted)
    outcome = await run_plan(pool, request.caller(), Plan(sql.encode(), values, is_read_only=True))
    return read_response(outcome, query.offset)


async def answer_call(pool: Pool, request: Request) -> Response:
    """A request for `/rpc/function`."""
    if request.method != "POST":
        raise RestError(405, "PGRST101", f"Cannot use the {request.method} method on RPC")
    check_accepted(request.headers)
    payload = request.json() if request.body.strip() else {}
    if not isinstance(payload, dict):
        raise bad_body("The arguments must be a JSON object")
    call = Call(request.schema, request.path.removeprefix("rpc/"), frozenset(payload), request.body or b"{}")
    function, sql, values = call_statement(request.catalog, call)
    outcome = await run_plan(pool, request.caller(), Plan(sql, values, is_read_only=not function.is_volatile))
    return call_response(outcome, is_void=function.is_void)


def _need_table(request: Request) -> None:
    if (request.schema, request.path) in request.catalog.tables:
        return
    names = [name for schema, name in request.catalog.tables if schema == request.schema]
    near = difflib.get_close_matches(request.path, names, 1)
    raise RestError(
        404,
        "PGRST205",
        f"Could not find the table '{request.schema}.{request.path}' in the schema cache",
        None,
        f"Perhaps you meant the table '{request.schema}.{near[0]}'" if near else None,
    )


def read_response(outcome: Outcome, offset: int) -> Response:
    """The answer to a read, with its place in the whole."""
    last = offset + outcome.rows - 1
    span = f"{offset}-{last}" if offset <= last else "*"
    place = ("content-range", f"{span}/{'*' if outcome.total is None else outcome.total}")
    if outcome.total is not None and offset > outcome.total:
        details = f"An offset of {offset} was requested, but there are only {outcome.total} rows."
        raise RestError(416, "PGRST103", "Requested range not satisfiable", details, None, dict([place]))
    is_part = outcome.total is not None and outcome.rows < outcome.total
    return Response(206 if is_part else 200, outcome.body, [place, ("content-type", JSON)])


def call_response(outcome: Outcome, *, is_void: bool) -> Response:
    """The answer to a call, with the status that the function set in `response.status`."""
    response = Response(204) if is_void else Response(200, outcome.body, [("content-type", JSON)])
    if outcome.status is not None:
        if not outcome.status.isdigit() or not 100 <= int(outcome.status) <= 599:
            raise RestError(500, "PGRST112", "response.status guc must be a valid status code")
        response.status = int(outcome.status)
    return response
