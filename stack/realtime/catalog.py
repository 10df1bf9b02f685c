"""The catalogue's facts about published tables and roles, remembered until they change."""

from dataclasses import dataclass, field

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from stack.realtime.database import QUERIES


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `sql_type` is what a filter's value is cast to."""

    name: str
    type_name: str
    base_type: str
    sql_type: str
    is_enum: bool
    is_key: bool
    element_type: str | None


@dataclass(frozen=True, slots=True)
class RoleView:
    """One role's rights to read a table."""

    bypasses_rls: bool
    columns: frozenset[str]


NO_VIEW = RoleView(bypasses_rls=False, columns=frozenset())


@dataclass(frozen=True, slots=True)
class Table:
    """A published table."""

    oid: int
    schema: str
    name: str
    columns: dict[str, Column]
    has_rls: bool
    views: dict[str, RoleView] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """The primary key's columns."""
        return tuple(column.name for column in self.columns.values() if column.is_key)


class ReplicationCatalog:
    """Reads tables and roles through one connection; `forget` after every announced change."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._tables: dict[int, Table] = {}

    def forget(self, oid: int | None = None) -> None:
        """Read a table (or all of them) again next time."""
        if oid is None:
            self._tables.clear()
        else:
            self._tables.pop(oid, None)

    def knows(self, oid: int) -> bool:
        """Whether a table is remembered."""
        return oid in self._tables

    async def table(self, oid: int, schema: str, name: str) -> Table:
        """The table as the catalogue has it now."""
        if oid not in self._tables:
            self._tables[oid] = await read_table(self._connection, oid, schema, name)
        return self._tables[oid]

    async def view(self, table: Table, role: str) -> RoleView:
        """Return a role's rights to read the table."""
        if role not in table.views:
            table.views[role] = await read_view(self._connection, table.oid, role)
        return table.views[role]


async def read_table(connection: AsyncConnection, oid: int, schema: str, name: str) -> Table:
    """Read one table's columns and whether it has row-level security."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(QUERIES["table_has_rls"], {"table": oid}, prepare=True)
        found = await cursor.fetchone()
        await cursor.execute(QUERIES["table_columns"], {"table": oid}, prepare=True)
        columns = {row["name"]: Column(**row) for row in await cursor.fetchall()}
    # A table dropped since is as good as one that nobody may read.
    return Table(oid, schema, name, columns, has_rls=found is None or found["relrowsecurity"])


async def read_view(connection: AsyncConnection, oid: int, role: str) -> RoleView:
    """Read one role's rights; a role that does not exist has none."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(QUERIES["role_view"], {"table": oid, "role": role}, prepare=True)
        row = await cursor.fetchone()
    return NO_VIEW if row is None else RoleView(row["bypasses_rls"], frozenset(row["columns"]))
