"""The schema cache: what the exposed schemas hold, read once and again after `notify pgrst`."""

from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import psycopg

SQL = files("stack.rest").joinpath("sql")
QUERIES = {name: SQL.joinpath(f"{name}.sql").read_text() for name in ("tables", "functions", "role_settings")}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument a caller may give."""

    name: str
    type: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class Function:
    """One overload of a function."""

    schema: str
    name: str
    arguments: tuple[Argument, ...]
    returns_rows: bool
    is_void: bool
    is_json: bool
    is_volatile: bool

    def accepts(self, keys: frozenset[str]) -> bool:
        """Whether a call with exactly these named arguments fits."""
        names = {argument.name for argument in self.arguments}
        return keys <= names and all(a.name in keys for a in self.arguments if a.is_required)


@dataclass(frozen=True)
class SchemaCatalog:
    """Everything the REST service knows of the database."""

    schemas: tuple[str, ...]
    version: int = 0
    tables: set[tuple[str, str]] = field(default_factory=set)
    functions: dict[tuple[str, str], list[Function]] = field(default_factory=dict)
    role_settings: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    # A call's statement is made once for each set of arguments; gone with the catalogue.
    calls: dict[tuple[str, str, frozenset[str]], tuple[Function, bytes]] = field(default_factory=dict)


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
    catalog.tables.update((schema, name) for schema, name in rows["tables"])
    for schema, name, arguments, *kind in rows["functions"]:
        function = Function(schema, name, tuple(Argument(**argument) for argument in arguments), *kind)
        catalog.functions.setdefault((schema, name), []).append(function)
    for role, name, value in rows["role_settings"]:
        catalog.role_settings.setdefault(role, []).append((name, value))
    return catalog
