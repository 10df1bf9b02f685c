"""Statements that change a table: insert, upsert, update, delete."""

from dataclasses import dataclass
from typing import Any

from stack.rest.catalog import SchemaCatalog, Table
from stack.rest.conditions import Conditions
from stack.rest.embedding import find_relation
from stack.rest.errors import RestError, bad_body
from stack.rest.prefer import Prefer
from stack.rest.query import Query
from stack.rest.reading import Reader, Source, wrap
from stack.rest.sqltext import Values, qualified, quoted


@dataclass
class Change:
    """A change to one table as the request asks for it."""

    catalog: SchemaCatalog
    table: Table
    query: Query
    prefer: Prefer
    body: bytes = b""
    payload: Any = None

    @property
    def relation(self) -> str:
        """The table's qualified name."""
        return qualified(self.table.schema, self.table.name)


def insert_statement(change: Change, *, is_single: bool) -> tuple[str, list[bytes | None]]:
    """The statement for POST."""
    values = Values()
    names = _body_columns(change)
    if names:
        listed = ", ".join(quoted(name) for name in names)
        text = f"insert into {change.relation} ({listed}) select {listed} from {_rows(change, names, values)}"
    elif isinstance(change.payload, list) and not change.payload:
        text = f"insert into {change.relation} select * from {change.relation} where false"
    else:
        text = f"insert into {change.relation} default values"
    text += _conflict(change, names)
    return _finish(change, text, values, is_single=is_single), values.items


def update_statement(change: Change, *, is_single: bool) -> tuple[str, list[bytes | None]]:
    """The statement for PATCH."""
    values = Values()
    names = _body_columns(change)
    _need_filter(change, "UPDATE")
    conditions = Conditions(change.table.name, change.table, values)
    if names:
        sets = ", ".join(f"{quoted(name)} = pgrst_body.{quoted(name)}" for name in names)
        rows = _rows(change, names, values)
        text = f"update {change.relation} set {sets} from {rows}{conditions.where(change.query.root)}"
        return _finish(change, text, values, is_single=is_single), values.items
    # Nothing to set changes nothing and returns nothing, as PostgREST has it.
    empty = f"select {_returning(change)} from {change.relation} where false"
    return wrap(f"pgrst_source as ({empty})", is_single=is_single), values.items


def delete_statement(change: Change, *, is_single: bool) -> tuple[str, list[bytes | None]]:
    """The statement for DELETE."""
    values = Values()
    _need_filter(change, "DELETE")
    conditions = Conditions(change.table.name, change.table, values)
    text = f"delete from {change.relation}{conditions.where(change.query.root)}"
    return _finish(change, text, values, is_single=is_single), values.items


def _finish(change: Change, text: str, values: Values, *, is_single: bool) -> str:
    text += f" returning {_returning(change)}"
    name = change.table.name
    if change.prefer.returning != "representation":
        return wrap(f"pgrst_source as ({text})", is_single=is_single)
    source = Source(quoted(name), name, change.table.schema, change.table)
    selected = Reader(change.catalog, change.query, values).select(source, is_narrowed=False)
    return wrap(f"{quoted(name)} as ({text}), pgrst_source as ({selected})", is_single=is_single)


def _returning(change: Change) -> str:
    """Only what the answer needs, so that no more than that must be readable."""
    relation = quoted(change.table.name)
    if change.prefer.returning == "headers-only" and change.table.primary_key:
        return ", ".join(f"{relation}.{quoted(name)}" for name in change.table.primary_key)
    if change.prefer.returning != "representation":
        return "1"
    if any(column.is_star for column in change.query.columns):
        return f"{relation}.*"
    names = dict.fromkeys(column.field.name for column in change.query.columns)
    for embed in change.query.embeds:
        found = find_relation(change.catalog, change.table.schema, change.table.name, embed)
        names |= dict.fromkeys(ours for ours, _ in found.pairs)
    return ", ".join(f"{relation}.{quoted(name)}" for name in names) or "1"


def _body_columns(change: Change) -> list[str]:
    if change.query.body_columns is not None:
        names = list(dict.fromkeys(change.query.body_columns))
    elif isinstance(change.payload, dict):
        names = list(change.payload)
    else:
        names = _shared_keys(change.payload)
    for name in names:
        if name not in change.table.columns:
            message = f"Could not find the '{name}' column of '{change.table.name}' in the schema cache"
            raise RestError(400, "PGRST204", message)
    return names


def _shared_keys(payload: list[Any]) -> list[str]:
    if not all(isinstance(row, dict) for row in payload):
        raise bad_body()
    if any(row.keys() != payload[0].keys() for row in payload):
        raise bad_body("All object keys must match")
    return list(payload[0]) if payload else []


def _rows(change: Change, names: list[str], values: Values) -> str:
    """The body as rows with the table's own types; a missing key is null, or the column's default."""
    is_list = isinstance(change.payload, list)
    types = ", ".join(f"{quoted(name)} {change.table.columns[name].type}" for name in names)
    body = f"{values.bind(change.body)}::json"
    defaults = [n for n in names if change.table.columns[n].default] if change.prefer.missing == "default" else []
    if not defaults:
        return f"{'json_to_recordset' if is_list else 'json_to_record'}({body}) as pgrst_body({types})"
    pairs = ", ".join(f"{values.bind(n)}::text, {change.table.columns[n].default}" for n in defaults)
    listed = body.replace("::json", "::jsonb") if is_list else f"jsonb_build_array({body})"
    merged = f"select jsonb_build_object({pairs}) || element as element from jsonb_array_elements({listed}) as element"
    return (
        f"(select filled.* from ({merged}) as given, jsonb_to_record(given.element) as filled({types})) as pgrst_body"
    )


def _conflict(change: Change, names: list[str]) -> str:
    if change.prefer.resolution is None:
        return ""
    keys = change.query.on_conflict or list(change.table.primary_key)
    if not keys:
        return ""
    target = f" on conflict ({', '.join(quoted(key) for key in keys)})"
    if change.prefer.resolution == "ignore-duplicates" or not names:
        return f"{target} do nothing"
    return f"{target} do update set " + ", ".join(f"{quoted(n)} = excluded.{quoted(n)}" for n in names)


def _need_filter(change: Change, verb: str) -> None:
    """Hosted Supabase loads safeupdate for the API: a change of every row is refused."""
    if not change.query.root.filters:
        raise RestError(400, "21000", f"{verb} requires a WHERE clause")
