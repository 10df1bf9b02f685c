"""Statements that read: a source with its embedded resources, wrapped so that PostgreSQL makes the JSON."""

from dataclasses import dataclass

from stack.rest.catalog import Relation, SchemaCatalog, Table
from stack.rest.conditions import Conditions
from stack.rest.embedding import find_relation
from stack.rest.errors import Unsupported
from stack.rest.query import Query, Slice
from stack.rest.selecting import Column, Embed
from stack.rest.sqltext import Values, qualified, quoted

GUCS = (
    "nullif(current_setting('response.headers', true), '') as response_headers, "
    "nullif(current_setting('response.status', true), '') as response_status"
)
NO_TOTAL = "null::bigint"


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of the answer: one object or many, counted or not, and the most rows it may have."""

    is_single: bool = False
    is_counted: bool = False
    most_rows: int | None = None


@dataclass
class Source:
    """A relation as one statement knows it."""

    sql: str
    name: str
    schema: str
    table: Table | None


class Reader:
    """Renders `select` over a source."""

    def __init__(self, catalog: SchemaCatalog, query: Query, values: Values) -> None:
        self._catalog = catalog
        self._query = query
        self._values = values

    def select(self, source: Source, *, is_narrowed: bool, most_rows: int | None = None) -> str:
        """The select statement; a mutation's rows are not narrowed again."""
        conditions = Conditions(source.name, source.table, self._values)
        items = self._columns(conditions, source.name, self._query.columns)
        joins = ""
        for number, embed in enumerate(self._query.embeds):
            item, join = self._embed(source, embed, f"pgrst_embed_{number}")
            items += item
            joins += join
        text = f"select {', '.join(items)} from {source.sql}{joins}"
        root = self._query.root
        if is_narrowed:
            limit = _least(root.limit, most_rows)
            text += conditions.where(root) + conditions.order(root) + conditions.page(limit, root.offset)
        return text

    def count(self, source: Source) -> str:
        """A statement with one row per row that the filters let through, whatever the page."""
        conditions = Conditions(source.name, source.table, self._values)
        joins = "".join(
            self._embed(source, embed, f"pgrst_count_{number}")[1]
            for number, embed in enumerate(self._query.embeds)
            if embed.is_inner
        )
        return f"select 1 from {source.sql}{joins}{conditions.where(self._query.root)}"

    def _columns(self, conditions: Conditions, name: str, columns: list[Column] | tuple[Column, ...]) -> list[str]:
        items = []
        for column in columns:
            if column.is_star:
                items.append(f"{quoted(name)}.*")
                continue
            text = conditions.field(column.field)
            if column.cast:
                text = f"cast({text} as {_type_name(column.cast)})"
            items.append(f"{text} as {quoted(column.label)}")
        return items

    def _embed(self, source: Source, embed: Embed, alias: str) -> tuple[list[str], str]:
        source_table = source.table.name if source.table else source.name
        relation = find_relation(self._catalog, source.schema, source_table, embed)
        narrowed = self._query.embedded.get(embed.label) or self._query.embedded.get(embed.name) or Slice()
        inner = self._related(source, relation, embed, narrowed, f"{relation.target}_{alias}")
        kind = "inner" if embed.is_inner else "left"
        if relation.is_to_one or embed.is_spread:
            join = f" {kind} join lateral ({inner}) as {alias} on true"
            if embed.is_spread:
                return self._spread(embed, alias, relation), join
            return [f"row_to_json({alias}.*) as {quoted(embed.label)}"] if embed.columns else [], join
        join = f" {kind} join lateral (select json_agg({alias}) as rows from ({inner}) as {alias}) as {alias}"
        join += f" on {alias}.rows is not null" if embed.is_inner else " on true"
        return [f"coalesce({alias}.rows, '[]') as {quoted(embed.label)}"] if embed.columns else [], join

    def _spread(self, embed: Embed, alias: str, relation: Relation) -> list[str]:
        if not relation.is_to_one:
            raise Unsupported("spreading a to-many resource")
        stars = any(column.is_star for column in embed.columns)
        return [f"{alias}.*"] if stars else [f"{alias}.{quoted(column.label)}" for column in embed.columns]

    def _related(self, source: Source, relation: Relation, embed: Embed, narrowed: Slice, name: str) -> str:
        table = self._catalog.tables.get((source.schema, relation.target))
        conditions = Conditions(name, table, self._values)
        items = self._columns(conditions, name, embed.columns) or ["1"]
        match = [f"{quoted(name)}.{quoted(b)} = {quoted(source.name)}.{quoted(a)}" for a, b in relation.pairs]
        text = f"select {', '.join(items)} from {qualified(source.schema, relation.target)} as {quoted(name)}"
        text += conditions.where(narrowed, *match) + conditions.order(narrowed)
        return text + conditions.page(narrowed.limit, narrowed.offset)


def wrap(source: str, *, is_single: bool, total: str = NO_TOTAL) -> str:
    """Turn rows of `pgrst_source` into one row: total, number of rows, JSON body, response settings."""
    body = (
        "coalesce(json_agg(pgrst_row) -> 0, 'null')::text" if is_single else "coalesce(json_agg(pgrst_row), '[]')::text"
    )
    return f"with {source} select {total} as total, count(*) as rows, {body} as body, {GUCS} from pgrst_source as pgrst_row"


def read_statement(catalog: SchemaCatalog, table: Table, query: Query, shape: Shape) -> tuple[str, list[bytes | None]]:
    """The statement for GET on a table."""
    values = Values()
    source = Source(qualified(table.schema, table.name), table.name, table.schema, table)
    return read_source(Reader(catalog, query, values), source, shape), values.items


def read_source(reader: Reader, source: Source, shape: Shape, before: str = "") -> str:
    """Read a source as asked; `before` holds what the statement must define first."""
    ctes = f"{before}pgrst_source as ({reader.select(source, is_narrowed=True, most_rows=shape.most_rows)})"
    if not shape.is_counted:
        return wrap(ctes, is_single=shape.is_single)
    ctes += f", pgrst_counted as ({reader.count(source)})"
    return wrap(ctes, is_single=shape.is_single, total="(select count(*) from pgrst_counted)")


def _least(limit: int | None, most_rows: int | None) -> int | None:
    if limit is None or most_rows is None:
        return most_rows if limit is None else limit
    return min(limit, most_rows)


def _type_name(cast: str) -> str:
    """A cast's type: words such as `double precision` stay words, so each is checked rather than quoted."""
    return cast if all(word.isidentifier() for word in cast.split()) else quoted(cast)
