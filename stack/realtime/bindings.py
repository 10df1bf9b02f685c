"""One entry of `postgres_changes`: a table, the events, and at most one filter, by equality."""

from dataclasses import dataclass
from typing import Any

from stack.realtime.errors import BindingRefused

ANY = "*"
EVENTS = ("INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class Binding:
    """The rows and events that a client listens to; a filter is a column and its value."""

    event: str
    schema: str
    table: str
    filter: tuple[str, str] | None

    def described(self) -> str:
        """For an error."""
        return f"event: {self.event}, schema: {self.schema}, table: {self.table}, filter: {self.filter}"


def parse_binding(params: dict[str, Any]) -> Binding:
    """Read one entry, or say why it cannot be served."""
    schema, table, text = params.get("schema"), params.get("table"), params.get("filter") or ""
    if not isinstance(schema, str) or not isinstance(table, str) or ANY in (schema, table):
        raise BindingRefused("The embedded stack sends the changes of one table: name a `schema` and a `table`")
    if "select" in params:
        raise BindingRefused("The embedded stack does not select columns")
    column, equals, value = str(text).partition("=eq.")
    if text and (not equals or "," in value):
        raise BindingRefused(f"Error parsing `filter` params: {text}. The embedded stack reads `column=eq.value`")
    event = str(params.get("event")).upper()
    return Binding(event if event in EVENTS else ANY, schema, table, (column, value) if text else None)
