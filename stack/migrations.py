"""Apply `supabase/migrations/` with the supabase CLI's own file names and history table."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.pq import TransactionStatus

from stack.errors import MigrationFailed
from stack.sqlsplit import Statement, split_statements

FILE_NAME = re.compile(r"^(\d+)_(.*)\.sql$")
LOCK_KEY = 5432154323
HISTORY = """
create schema if not exists supabase_migrations;
create table if not exists supabase_migrations.schema_migrations (version text not null primary key);
alter table supabase_migrations.schema_migrations add column if not exists statements text[];
alter table supabase_migrations.schema_migrations add column if not exists name text;
create table if not exists supabase_migrations.seed_files (path text not null primary key, hash text not null);
"""


@dataclass(frozen=True)
class Migration:
    """One file of `supabase/migrations/`."""

    version: str
    name: str
    path: Path


def list_migrations(folder: Path) -> list[Migration]:
    """The migration files in the order they apply; other files are not migrations."""
    found = [(FILE_NAME.match(path.name), path) for path in sorted(folder.glob("*.sql"))]
    return [Migration(match.group(1), match.group(2), path) for match, path in found if match]


def applied_versions(url: str) -> list[str]:
    """The versions that a database has, the oldest first."""
    with psycopg.connect(url) as connection:
        if connection.execute("select to_regclass('supabase_migrations.schema_migrations')").fetchone() == (None,):
            return []
        found = connection.execute("select version from supabase_migrations.schema_migrations order by version")
        return [row[0] for row in found]


def migrate(owner_url: str, supabase_folder: Path) -> list[str]:
    """Apply what is not applied yet, each file in a transaction of its own; return the file names."""
    applied: list[str] = []
    with psycopg.connect(owner_url, autocommit=True, options="-c client_min_messages=warning") as connection:
        connection.execute("select pg_advisory_lock(%s)", [LOCK_KEY])
        connection.execute(HISTORY)
        done = {row[0] for row in connection.execute("select version from supabase_migrations.schema_migrations")}
        for migration in list_migrations(supabase_folder / "migrations"):
            if migration.version not in done:
                _apply(connection, migration)
                applied.append(migration.path.name)
        connection.execute("notify pgrst, 'reload schema'")
    return applied


def seed(owner_url: str, file: Path) -> bool:
    """Run `seed.sql` once per database; return whether it ran."""
    if not file.exists():
        return False
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    with psycopg.connect(owner_url, autocommit=True) as connection:
        connection.execute(HISTORY)
        done = connection.execute("select path from supabase_migrations.seed_files where path = %s", [file.name])
        if done.fetchone():
            return False
        with connection.transaction():
            _run_file(connection, file, split_statements(file.read_text()))
            connection.execute("insert into supabase_migrations.seed_files values (%s, %s)", [file.name, digest])
    return True


def _apply(connection: psycopg.Connection, migration: Migration) -> None:
    statements = split_statements(migration.path.read_text())
    with connection.transaction():
        _run_file(connection, migration.path, statements)
        connection.execute(
            "insert into supabase_migrations.schema_migrations (version, statements, name) values (%s, %s, %s)",
            [migration.version, [statement.text for statement in statements], migration.name],
        )
    # A migration may have changed the session; the next one starts as it would on a connection of its own.
    connection.execute("reset all")


def _run_file(connection: psycopg.Connection, path: Path, statements: list[Statement]) -> None:
    for statement in statements:
        try:
            connection.execute(statement.text.encode(), prepare=False)
        except psycopg.Error as error:
            raise _failure(path, statement, error) from error
        if connection.info.transaction_status != TransactionStatus.INTRANS:
            message = f"{path.name}:{statement.line}: a migration must not begin or end a transaction itself."
            raise MigrationFailed(message, "Each file already runs in one transaction; remove the statement.")


def _failure(path: Path, statement: Statement, error: psycopg.Error) -> MigrationFailed:
    position = int(error.diag.statement_position or 1)
    line = statement.line + statement.text.count("\n", 0, position - 1)
    parts = [f"{path.name}:{line}: {error.diag.message_primary or error} (SQLSTATE {error.sqlstate})"]
    parts += [text for text in (error.diag.message_detail, error.diag.message_hint, error.diag.context) if text]
    return MigrationFailed("\n  ".join(parts), "Nothing of this file was kept; the ones before it were.")
