"""One entry of `postgres_changes`, read as hosted reads it."""

from dataclasses import dataclass
from typing import Any

import orjson

from stack.realtime.errors import BindingRefused
from stack.realtime.filters import Filter, parse_filters

ANY = "*"
EVENTS = ("INSERT", "UPDATE", "DELETE")
WILDCARD_SELECT = (
    "Column selection is not supported for wildcard subscriptions. Provide an explicit schema and table name."
)
STRING_SELECT = 'Error parsing `select` params: expected a list of column name strings, e.g. select: ["col1", "col2"]'


@dataclass(frozen=True, slots=True)
class Binding:
    """The rows and events that a client listens to."""

    event: str
    schema: str
    table: str
    filters: tuple[Filter, ...]
    select: tuple[str, ...] | None

    def covers(self, schema: str, table: str) -> bool:
        """Whether a table is meant, wildcards included."""
        return self.schema in (ANY, schema) and self.table in (ANY, table)

    def described(self) -> str:
        """As hosted prints it in an error."""
        filters = ", ".join(item.described() for item in self.filters)
        select = orjson.dumps(list(self.select)).decode() if self.select else "nil"
        return (
            f"event: {self.event}, schema: {self.schema}, table: {self.table}, filters: [{filters}], select: {select}"
        )


def parse_binding(params: dict[str, Any]) -> Binding:
    """Read one entry, or say with hosted's words why it cannot be served."""
    select = _select(params)
    schema, table = params.get("schema"), params.get("table")
    filters: tuple[Filter, ...] = ()
    if isinstance(schema, str) and isinstance(table, str) and isinstance(params.get("filter"), str):
        filters = parse_filters(params["filter"])
    elif "filter" in params or not _names_something(params):
        raise BindingRefused(_nothing_named(params))
    schema = schema if isinstance(schema, str) else "public"
    table = table if isinstance(table, str) else ANY
    if select is not None and ANY in (schema, table):
        raise BindingRefused(WILDCARD_SELECT)
    return Binding(_event(params.get("event")), schema, table, filters, select)


def _names_something(params: dict[str, Any]) -> bool:
    named = [params[name] for name in ("schema", "table") if name in params]
    return bool(named) and all(isinstance(value, str) for value in named)


def _nothing_named(params: dict[str, Any]) -> str:
    has_token = "user_token" in params or "auth_token" in params
    shown = "<redacted>" if has_token else orjson.dumps(params).decode()
    return f"No subscription params provided. Please provide at least a `schema` or `table` to subscribe to: {shown}"


def _event(value: Any) -> str:
    upper = value.upper() if isinstance(value, str) else ANY
    return upper if upper in EVENTS else ANY


def _select(params: dict[str, Any]) -> tuple[str, ...] | None:
    value = params.get("select")
    if isinstance(value, str):
        raise BindingRefused(STRING_SELECT)
    if not isinstance(value, list):
        return None
    return tuple(item for item in value if isinstance(item, str)) or None
