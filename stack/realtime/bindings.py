"""One entry of `postgres_changes`: a table, its events, and the value that a column must have."""

import re
from dataclasses import dataclass
from typing import Any

from stack.realtime.errors import BindingRefused

ANY = "*"
EVENTS = ("INSERT", "UPDATE", "DELETE")
FILTER = re.compile(r"([^=]+)=eq\.(.*)", re.DOTALL)
ONE_TABLE = "The embedded stack listens to one table for each entry: name its `schema` and `table`"
ONE_VALUE = "Error parsing `filter` params: the embedded stack compares with column=eq.value alone"
ALL_COLUMNS = "The embedded stack sends all columns that a role may read: leave out `select`"


@dataclass(frozen=True, slots=True)
class Binding:
    """The rows and events that a client listens to; the filter is a column and its value."""

    event: str
    schema: str
    table: str
    filter: tuple[str, str] | None

    def described(self) -> str:
        """The entry, for an error."""
        wanted = f"{self.filter[0]}=eq.{self.filter[1]}" if self.filter else "none"
        return f"event: {self.event}, schema: {self.schema}, table: {self.table}, filter: {wanted}"


def parse_binding(params: dict[str, Any]) -> Binding:
    """Read one entry, or say why it cannot be served."""
    schema, table, event = params.get("schema"), params.get("table"), params.get("event")
    if not isinstance(schema, str) or not isinstance(table, str) or ANY in (schema, table):
        raise BindingRefused(ONE_TABLE)
    if params.get("select"):
        raise BindingRefused(ALL_COLUMNS)
    upper = event.upper() if isinstance(event, str) else ANY
    return Binding(upper if upper in EVENTS else ANY, schema, table, _filter(params.get("filter")))


def _filter(text: Any) -> tuple[str, str] | None:
    if not text:
        return None
    found = FILTER.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise BindingRefused(ONE_VALUE)
    return found[1], found[2]
