"""Statements that call a function with named arguments."""

import difflib
from dataclasses import dataclass

from stack.rest.errors import RestError, Unsupported
from stack.rest.reading import NO_TOTAL, STATUS, Values, qualified, quoted
from stack.rest.store import Function, SchemaCatalog

MOST_STATEMENTS = 1000


@dataclass
class Call:
    """A call as the request makes it: the arguments are a JSON object."""

    schema: str
    name: str
    keys: frozenset[str]
    body: bytes


def call_statement(catalog: SchemaCatalog, call: Call) -> tuple[Function, bytes, list[bytes | None]]:
    """The function, and the statement that calls it."""
    key = (call.schema, call.name, call.keys)
    values = Values()
    values.bind(call.body)
    known = catalog.calls.get(key)
    if known is None:
        function = _choose(catalog, call)
        known = function, _render(function, call.keys).encode()
        if len(catalog.calls) < MOST_STATEMENTS:
            catalog.calls[key] = known
    return *known, values.items if call.keys else []


def _choose(catalog: SchemaCatalog, call: Call) -> Function:
    """The one overload that the given arguments fit."""
    overloads = catalog.functions.get((call.schema, call.name), [])
    found = [function for function in overloads if function.accepts(call.keys)]
    if not found:
        raise _missing(catalog, call, overloads)
    if len(found) > 1:
        raise Unsupported("functions of the same name and arguments")
    if found[0].returns_rows:
        raise Unsupported("functions that return rows")
    return found[0]


def _render(function: Function, keys: frozenset[str]) -> str:
    given = [argument for argument in function.arguments if argument.name in keys]
    named = ", ".join(f"{quoted(a.name)} := pgrst_args.{quoted(a.name)}" for a in given)
    types = ", ".join(f"{quoted(a.name)} {a.type}" for a in given)
    origin = f" from json_to_record($1::json) as pgrst_args({types})" if given else ""
    # offset 0 keeps the call below the projection, so that the response's status is read after it ran.
    inner = f"select {qualified(function.schema, function.name)}({named}) as value{origin} offset 0"
    body = "value::text" if function.is_json or function.is_void else "to_json(value)::text"
    return f"select {NO_TOTAL} as total, 1::bigint as rows, coalesce({body}, 'null') as body, {STATUS} from ({inner}) as pgrst_call"


def _missing(catalog: SchemaCatalog, call: Call, overloads: list[Function]) -> RestError:
    function = f"{call.schema}.{call.name}"
    keys = sorted(call.keys)
    shape = f"({', '.join(keys)})" if keys else " without parameters"
    searched = f" with parameter{'s' if len(keys) > 1 else ''} {', '.join(keys)}" if keys else " without parameters"
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
