"""Statements that call a function with named arguments."""

import difflib
from dataclasses import dataclass, replace

from stack.rest.catalog import Argument, Function, SchemaCatalog
from stack.rest.errors import RestError
from stack.rest.query import Query
from stack.rest.reading import GUCS, NO_TOTAL, Reader, Shape, Source, read_source
from stack.rest.sqltext import Values, qualified, quoted

MOST_PLAIN_CALLS = 1000


@dataclass
class Call:
    """A call as the request makes it: a JSON object for POST, text values for GET."""

    schema: str
    name: str
    keys: frozenset[str]
    body: bytes | None = None
    texts: dict[str, list[str]] | None = None


def choose_function(catalog: SchemaCatalog, call: Call) -> Function:
    """The one overload that the given arguments fit."""
    overloads = catalog.functions.get((call.schema, call.name), [])
    found = [function for function in overloads if function.accepts(call.keys)]
    if not found and call.body is not None:
        found = [function for function in overloads if function.takes_whole_body]
    if len(found) == 1:
        return found[0]
    if found:
        raise _ambiguous(found)
    raise _missing(catalog, call, overloads)


def call_statement(
    catalog: SchemaCatalog, function: Function, call: Call, query: Query, shape: Shape
) -> tuple[str, list[bytes | None]]:
    """The statement for `/rpc/name`."""
    values = Values()
    arguments = [a for a in function.arguments if a.name in call.keys]
    given, origin = _arguments(function, arguments, call, values)
    invocation = f"{qualified(function.schema, function.name)}({given})"
    if not function.is_composite:
        return _scalar(function, invocation, origin, is_single=shape.is_single), values.items
    if not function.returns_set:
        shape = replace(shape, is_single=True, most_rows=None)
    lateral = f"{origin}, lateral {invocation} as pgrst_call" if origin else f"{invocation} as pgrst_call"
    # The function runs once, in a fence of its own; filters and order apply to what it returned.
    before = f"pgrst_call as materialized (select pgrst_call.* from {lateral}), "
    table = catalog.tables.get((function.schema, function.table)) if function.table else None
    source = Source("pgrst_call", "pgrst_call", function.schema, table)
    return read_source(Reader(catalog, query, values), source, shape, before), values.items


def plain_call(catalog: SchemaCatalog, call: Call, shape: Shape) -> tuple[Function, bytes, list[bytes | None]]:
    """A call with a body and nothing else: its statement is made once for each set of arguments."""
    key = (call.schema, call.name, call.keys, shape.is_single)
    known = catalog.calls.get(key)
    if known is not None:
        function, sql = known
        return function, sql, [call.body] if b"$1" in sql else []
    function = choose_function(catalog, call)
    text, values = call_statement(catalog, function, call, Query(), shape)
    sql = text.encode()
    if not function.is_composite and len(catalog.calls) < MOST_PLAIN_CALLS:
        catalog.calls[key] = (function, sql)
    return function, sql, values


def _scalar(function: Function, invocation: str, origin: str, *, is_single: bool) -> str:
    place = f" from {origin}" if origin else ""
    if function.returns_set:
        inner = f"select {invocation} as value{place}"
        body = "coalesce(json_agg(value) -> 0, 'null')::text" if is_single else "coalesce(json_agg(value), '[]')::text"
        return f"select {NO_TOTAL} as total, count(*) as rows, {body} as body, {GUCS} from ({inner}) as pgrst_call"
    # offset 0 keeps the call below the projection, so that response settings are read after it ran.
    inner = f"select {invocation} as value{place} offset 0"
    body = "value::text" if function.is_json else "to_json(value)::text"
    if function.is_void:
        body = "value::text"
    return f"select {NO_TOTAL} as total, 1::bigint as rows, coalesce({body}, 'null') as body, {GUCS} from ({inner}) as pgrst_call"


def _arguments(function: Function, arguments: list[Argument], call: Call, values: Values) -> tuple[str, str]:
    """The argument list, and the relation it takes its values from."""
    if function.takes_whole_body and not arguments:
        return f"{values.bind(call.body)}::{function.arguments[0].type}", ""
    if call.texts is not None:
        return ", ".join(_text_argument(a, call.texts[a.name], values) for a in arguments), ""
    if not arguments:
        return "", ""
    given = ", ".join(
        f"{'variadic ' if a.is_variadic else ''}{quoted(a.name)} := pgrst_args.{quoted(a.name)}" for a in arguments
    )
    types = ", ".join(f"{quoted(a.name)} {a.type}" for a in arguments)
    return given, f"json_to_record({values.bind(call.body)}::json) as pgrst_args({types})"


def _text_argument(argument: Argument, texts: list[str], values: Values) -> str:
    if argument.is_variadic:
        items = ", ".join(f"{values.bind(text)}" for text in texts)
        return f"variadic {quoted(argument.name)} := array[{items}]::{argument.type}"
    return f"{quoted(argument.name)} := {values.bind(texts[-1])}::{argument.type}"


def _ambiguous(found: list[Function]) -> RestError:
    shapes = ", ".join(f"{f.schema}.{f.name}({', '.join(f'{a.name} => {a.type}' for a in f.arguments)})" for f in found)
    return RestError(
        300,
        "PGRST203",
        f"Could not choose the best candidate function between: {shapes}",
        None,
        "Try renaming the parameters or the function itself in the database so function overloading can be resolved",
    )


def _missing(catalog: SchemaCatalog, call: Call, overloads: list[Function]) -> RestError:
    function = f"{call.schema}.{call.name}"
    keys = sorted(call.keys)
    shape = f"({', '.join(keys)})" if keys else " without parameters"
    searched = f" with parameter{'s' if len(keys) > 1 else ''} {', '.join(keys)}" if keys else " without parameters"
    if call.body is not None:
        searched += " or with a single unnamed json/jsonb parameter"
    return RestError(
        404,
        "PGRST202",
        f"Could not find the function {function}{shape} in the schema cache",
        f"Searched for the function {function}{searched}, but no matches were found in the schema cache.",
        _suggestion(catalog, call, overloads),
    )


def _suggestion(catalog: SchemaCatalog, call: Call, overloads: list[Function]) -> str | None:
    if overloads:
        shapes = [f"({', '.join(sorted(a.name for a in f.arguments))})" for f in overloads]
        near = difflib.get_close_matches(f"({', '.join(sorted(call.keys))})", shapes, 1, 0.33)
        return f"Perhaps you meant to call the function {call.schema}.{call.name}{near[0]}" if near else None
    names = {name for schema, name in catalog.functions if schema == call.schema}
    near = difflib.get_close_matches(call.name, names, 1, 0.5)
    return f"Perhaps you meant to call the function {call.schema}.{near[0]}" if near else None
