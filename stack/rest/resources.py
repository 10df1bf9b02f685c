"""Answers requests by their path: a table under a method, or a function."""

import difflib

import orjson

from stack.rest.calling import Call, call_statement, choose_function, plain_call
from stack.rest.catalog import Function, Table
from stack.rest.errors import RestError, Unsupported, bad_body
from stack.rest.mutating import Change, delete_statement, insert_statement, update_statement
from stack.rest.pool import Pool
from stack.rest.query import Query, parse_query
from stack.rest.reading import read_statement
from stack.rest.requests import Request, apply_range
from stack.rest.responses import Response, change_response, finish, location, read_response
from stack.rest.session import Plan, run_plan

READS = ("GET", "HEAD")
CHANGES = {"POST": (insert_statement, 201), "PATCH": (update_statement, 204), "DELETE": (delete_statement, 204)}


async def answer_table(pool: Pool, request: Request) -> Response:
    """A request for `/table`."""
    if request.method == "PUT":
        raise Unsupported("PUT; use POST with `Prefer: resolution=merge-duplicates`")
    if request.method not in READS and request.method not in CHANGES:
        raise RestError(405, "PGRST117", f"Unsupported HTTP method: {request.method}")
    table = _table(request)
    query = parse_query(request.query_string)
    if request.method in READS:
        return await _read(pool, request, table, query)
    return await _change(pool, request, table, query)


async def _read(pool: Pool, request: Request, table: Table, query: Query) -> Response:
    apply_range(request.headers, query.root)
    sql, values = read_statement(request.catalog, table, query, request.shape)
    plan = Plan(sql.encode(), values, is_read_only=True, is_single=request.is_single)
    return read_response(request, await run_plan(pool, request.caller(), plan), query.root.offset)


async def _change(pool: Pool, request: Request, table: Table, query: Query) -> Response:
    prefer = request.prefer
    change = Change(request.catalog, table, query, prefer, request.body)
    if request.method != "DELETE":
        change.payload = request.json()
        is_row = isinstance(change.payload, dict) or (request.method == "POST" and isinstance(change.payload, list))
        if not is_row:
            raise bad_body()
    if query.root.limit is not None or query.root.offset:
        raise Unsupported("limit and offset on a change")
    render, status = CHANGES[request.method]
    is_single = request.is_single and prefer.returning == "representation"
    sql, values = render(change, is_single=is_single)
    is_rolled_back = prefer.tx == "rollback"
    most = prefer.most_affected if request.method != "POST" else None
    plan = Plan(sql.encode(), values, is_single=is_single, is_rolled_back=is_rolled_back, most_affected=most)
    outcome = await run_plan(pool, request.caller(), plan)
    response = change_response(request, outcome, status)
    if prefer.returning == "headers-only" and request.method == "POST" and outcome.rows == 1 and table.primary_key:
        response.headers.append(location(table.name, orjson.loads(outcome.body)[0]))
    return response


async def answer_call(pool: Pool, request: Request) -> Response:
    """A request for `/rpc/function`."""
    if request.method not in (*READS, "POST"):
        raise RestError(405, "PGRST101", f"Cannot use the {request.method} method on RPC")
    is_read = request.method in READS
    query = parse_query(request.query_string, is_call=is_read)
    if is_read:
        apply_range(request.headers, query.root)
    function, sql, values = _prepare_call(request, query)
    plan = Plan(
        sql,
        values,
        is_read_only=is_read or not function.is_volatile,
        is_single=request.is_single and function.returns_set,
        is_rolled_back=request.prefer.tx == "rollback",
    )
    outcome = await run_plan(pool, request.caller(), plan)
    if function.is_void:
        return finish(request, outcome, Response(204))
    return read_response(request, outcome, query.root.offset)


def _prepare_call(request: Request, query: Query) -> tuple[Function, bytes, list[bytes | None]]:
    call = _call(request, query)
    shape = request.shape
    if request.method == "POST" and not request.query_string and not shape.is_counted:
        return plain_call(request.catalog, call, shape)
    function = choose_function(request.catalog, call)
    sql, values = call_statement(request.catalog, function, call, query, shape)
    return function, sql.encode(), values


def _call(request: Request, query: Query) -> Call:
    name = request.path.removeprefix("rpc/")
    if request.method in READS:
        texts: dict[str, list[str]] = {}
        for key, value in query.arguments:
            texts.setdefault(key, []).append(value)
        return Call(request.schema, name, frozenset(texts), texts=texts)
    payload = request.json() if request.body.strip() else {}
    if not isinstance(payload, dict):
        return Call(request.schema, name, frozenset(), body=request.body)
    return Call(request.schema, name, frozenset(payload), body=request.body or b"{}")


def _table(request: Request) -> Table:
    table = request.catalog.tables.get((request.schema, request.path))
    if table is not None:
        return table
    names = [name for schema, name in request.catalog.tables if schema == request.schema]
    near = difflib.get_close_matches(request.path, names, 1)
    raise RestError(
        404,
        "PGRST205",
        f"Could not find the table '{request.schema}.{request.path}' in the schema cache",
        None,
        f"Perhaps you meant the table '{request.schema}.{near[0]}'" if near else None,
    )
