"""Statements that read a table, wrapped so that PostgreSQL makes the JSON."""

from stack.rest.catalog import Table
from stack.rest.conditions import Conditions
from stack.rest.query import Query
from stack.rest.selecting import Column
from stack.rest.sqltext import Values, qualified, quoted

STATUS = "nullif(current_setting('response.status', true), '') as response_status"
NO_TOTAL = "null::bigint"


def read_statement(
    table: Table, query: Query, most_rows: int | None, *, is_counted: bool
) -> tuple[str, list[bytes | None]]:
    """The statement for GET on a table: one row with the total, the number of rows, the JSON and the status."""
    values = Values()
    conditions = Conditions(table, values)
    items = ", ".join(_item(conditions, column) for column in query.columns)
    source = f"from {qualified(table.schema, table.name)} as {quoted(table.name)}{conditions.where(query.filters)}"
    limits = [limit for limit in (query.limit, most_rows) if limit is not None]
    page = conditions.order(query.order) + conditions.page(min(limits, default=None), query.offset)
    # The count has the filters of the rows, whatever the page.
    total = f"(select count(*) {source})" if is_counted else NO_TOTAL
    body = "coalesce(json_agg(pgrst_row), '[]')::text"
    text = f"with pgrst_source as (select {items} {source}{page})"
    text += f" select {total} as total, count(*) as rows, {body} as body, {STATUS} from pgrst_source as pgrst_row"
    return text, values.items


def _item(conditions: Conditions, column: Column) -> str:
    if column.is_star:
        return conditions.star
    text = conditions.field(column.field)
    if column.cast:
        text = f"cast({text} as {_type_name(column.cast)})"
    return f"{text} as {quoted(column.label)}"


def _type_name(cast: str) -> str:
    """A cast's type: words such as `double precision` stay words, so each is checked rather than quoted."""
    return cast if all(word.isidentifier() for word in cast.split()) else quoted(cast)
