"""Statements that read a table or call a function, wrapped so that PostgreSQL makes the JSON."""

import difflib
from dataclasses import dataclass

from stack.rest.errors import RestError, Unsupported
from stack.rest.query import IS_VALUES, SIMPLE, Filter, Query, Selected
from stack.rest.store import Function, SchemaCatalog


def quoted(identifier: str) -> str:
    """An identifier that can only be read as an identifier."""
    if "\0" in identifier:
        raise bad_nul()
    return '"' + identifier.replace('"', '""') + '"'


def qualified(schema: str, name: str) -> str:
    """A relation or function with its schema."""
    return f"{quoted(schema)}.{quoted(name)}"


class Values:
    """Collects bound values and gives each its placeholder."""

    def __init__(self) -> None:
        self.items: list[bytes | None] = []

    def bind(self, value: str | bytes | None) -> str:
        """Keep a value; its `$n`."""
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        # libpq ends a text value at the first NUL: refused, or the value would silently be another one.
        if raw is not None and b"\0" in raw:
            raise bad_nul()
        self.items.append(raw)
        return f"${len(self.items)}"


def bad_nul() -> RestError:
    """Return the error that PostgreSQL raises for a NUL byte in text."""
    return RestError(400, "22021", 'invalid byte sequence for encoding "UTF8": 0x00')


STATUS = "nullif(current_setting('response.status', true), '') as response_status"
NO_TOTAL = "null::bigint"


def read_statement(
    schema: str, table: str, query: Query, most_rows: int | None, *, is_counted: bool
) -> tuple[str, list[bytes | None]]:
    """The statement for GET on a table: one row with the total, the number of rows, the JSON and the status."""
    values = Values()
    name = quoted(table)
    items = ", ".join(_item(name, column) for column in query.columns) or f"{name}.*"
    source = f"from {qualified(schema, table)} as {name}{where(name, query.filters, values)}"
    order = ", ".join(f"{name}.{quoted(column)}{direction}" for column, direction in query.order)
    limit = min((each for each in (query.limit, most_rows) if each is not None), default=None)
    page = (
        (f" order by {order}" if order else "")
        + ("" if limit is None else f" limit {values.bind(str(limit))}::bigint")
        + (f" offset {values.bind(str(query.offset))}::bigint" if query.offset else "")
    )
    # The count has the filters of the rows, whatever the page.
    total = f"(select count(*) {source})" if is_counted else NO_TOTAL
    body = "coalesce(json_agg(pgrst_row), '[]')::text"
    text = f"with pgrst_source as (select {items} {source}{page})"
    text += f" select {total} as total, count(*) as rows, {body} as body, {STATUS} from pgrst_source as pgrst_row"
    return text, values.items


def _item(table: str, found: Selected) -> str:
    # Keys are words without quotes.
    path = "".join(f"->'{key}'" for key in found.keys)
    return f"{table}.{quoted(found.column)}{path}" + (f" as {quoted(found.name)}" if found.name else "")


def where(table: str, filters: list[Filter | tuple[Filter, ...]], values: Values) -> str:
    """A where clause, or nothing; the filters of a tuple are alternatives."""
    found = []
    for each in filters:
        alternatives = each if isinstance(each, tuple) else (each,)
        text = " or ".join(_comparison(table, one, values) for one in alternatives)
        found.append(f"({text})" if len(alternatives) > 1 else text)
    return f" where {' and '.join(found)}" if found else ""


def _comparison(table: str, found: Filter, values: Values) -> str:
    column = f"{table}.{quoted(found.column)}"
    if found.operator == "is":
        text = f"{column} is {IS_VALUES[found.value]}"
    elif found.operator == "in":
        text = f"{column} = any({values.bind(_array(found.items))})"
    else:
        value = found.value.replace("*", "%") if found.operator in {"like", "ilike"} else found.value
        text = f"{column} {SIMPLE[found.operator]} {values.bind(value)}"
    return f"{'not ' if found.is_negated else ''}({text})"


def _array(items: tuple[str, ...]) -> str:
    """A PostgreSQL array literal, every item quoted."""
    return "{" + ",".join('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items) + "}"


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
