"""The schema cache: what the exposed schemas hold, read once and again after `notify pgrst`."""

from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import psycopg

SQL = files("stack.rest").joinpath("sql")
QUERIES = {
    name: SQL.joinpath(f"{name}.sql").read_text() for name in ("tables", "relations", "functions", "role_settings")
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `default` is the expression that fills it when a row leaves it out."""

    name: str
    type: str
    default: str | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table or a view."""

    schema: str
    name: str
    is_table: bool
    columns: dict[str, Column]
    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """A foreign key seen from one of its sides."""

    constraint: str
    source: str
    target: str
    pairs: tuple[tuple[str, str], ...]
    is_to_one: bool
    cardinality: str

    def describe(self) -> dict[str, str]:
        """The relation as PostgREST lists it when more than one fits."""
        ours, theirs = (", ".join(side) for side in zip(*self.pairs, strict=True))
        return {
            "cardinality": self.cardinality,
            "embedding": f"{self.source} with {self.target}",
            "relationship": f"{self.constraint} using {self.source}({ours}) and {self.target}({theirs})",
        }


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument a caller may give."""

    name: str
    type: str
    is_required: bool
    is_variadic: bool


@dataclass(frozen=True, slots=True)
class Function:
    """One overload of a function."""

    schema: str
    name: str
    arguments: tuple[Argument, ...]
    returns_set: bool
    is_void: bool
    is_composite: bool
    is_json: bool
    is_volatile: bool
    table: str | None

    def accepts(self, keys: frozenset[str]) -> bool:
        """Whether a call with exactly these named arguments fits."""
        names = {argument.name for argument in self.arguments}
        return keys <= names and all(a.name in keys for a in self.arguments if a.is_required)

    @property
    def takes_whole_body(self) -> bool:
        """Whether the only argument is an unnamed json, which gets the request's body."""
        only = self.arguments[0] if len(self.arguments) == 1 else None
        return only is not None and only.name == "" and only.type in ("json", "jsonb")


@dataclass(frozen=True)
class SchemaCatalog:
    """Everything the REST service knows of the database."""

    schemas: tuple[str, ...]
    version: int = 0
    tables: dict[tuple[str, str], Table] = field(default_factory=dict)
    relations: dict[tuple[str, str], list[Relation]] = field(default_factory=dict)
    functions: dict[tuple[str, str], list[Function]] = field(default_factory=dict)
    role_settings: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    # Statements of plain calls, which are most of what runners and the dashboard ask; gone with the catalogue.
    calls: dict[tuple[str, str, frozenset[str], bool], tuple[Function, bytes]] = field(default_factory=dict)


async def load_catalog(
    connection: psycopg.AsyncConnection, schemas: tuple[str, ...], version: int = 0
) -> SchemaCatalog:
    """Read the catalogue in one snapshot."""
    catalog = SchemaCatalog(schemas, version)
    async with connection.transaction(), connection.cursor() as cursor:
        await cursor.execute("set transaction isolation level repeatable read")
        await cursor.execute("set local search_path = ''")
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for name, query in QUERIES.items():
            await cursor.execute(query.encode(), {"schemas": list(schemas)})
            rows[name] = await cursor.fetchall()
    for row in rows["tables"]:
        table = _table(row)
        catalog.tables[table.schema, table.name] = table
    for row in rows["relations"]:
        _add_relation(catalog, row)
    for row in rows["functions"]:
        function = _function(row)
        catalog.functions.setdefault((function.schema, function.name), []).append(function)
    for role, name, value in rows["role_settings"]:
        catalog.role_settings.setdefault(role, []).append((name, value))
    return catalog


def _table(row: tuple[Any, ...]) -> Table:
    schema, name, is_table, columns, key = row
    return Table(schema, name, is_table, {c["name"]: Column(**c) for c in columns}, tuple(key))


def _add_relation(catalog: SchemaCatalog, row: tuple[Any, ...]) -> None:
    constraint, schema, source, target_schema, target, columns, foreign, is_one = row
    if schema != target_schema:
        return
    pairs = tuple(zip(columns, foreign, strict=True))
    forward = Relation(constraint, source, target, pairs, True, "one-to-one" if is_one else "many-to-one")
    flipped = tuple((theirs, ours) for ours, theirs in pairs)
    backward = Relation(constraint, target, source, flipped, is_one, "one-to-one" if is_one else "one-to-many")
    catalog.relations.setdefault((schema, source), []).append(forward)
    catalog.relations.setdefault((schema, target), []).append(backward)


def _function(row: tuple[Any, ...]) -> Function:
    schema, name, raw, defaults, is_set, is_void, is_composite, is_json, volatility, _, table = row
    given = [a for a in raw if a["mode"] in ("i", "b", "v")]
    first_optional = len(given) - defaults
    arguments = tuple(
        Argument(a["name"], a["type"], position < first_optional and a["mode"] != "v", a["mode"] == "v")
        for position, a in enumerate(given)
    )
    return Function(schema, name, arguments, is_set, is_void, is_composite, is_json, volatility == "v", table)
