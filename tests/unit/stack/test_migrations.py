"""Migrations in the supabase CLI's format: applied once, wholly or not at all, and named when they fail."""

from pathlib import Path

import pytest

from stack.errors import MigrationFailed
from stack.migrations import migrate, seed
from stack.sqlsplit import load_queries, split_statements
from tests.support.database import Database

TRICKY = """-- a comment; with a semicolon
create table public.a (note text default 'it''s; fine', "odd;name" int); /* block; /* nested; */ */
create function public.f() returns text language plpgsql as $body$
begin
  return 'x;y'; -- inside
end $body$;

create function public.g() returns int language sql begin atomic
  select case when true then 1 else 2 end;
end;
select E'quoted \\'; still';
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "migrations").mkdir()
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    (folder / "migrations" / name).write_text(text)


def test_statements_are_split_where_postgres_would() -> None:
    statements = split_statements(TRICKY)
    assert [statement.line for statement in statements] == [2, 3, 8, 11]
    assert statements[1].text.startswith("create function public.f()")
    assert statements[2].text.endswith("end")


def test_each_file_is_applied_once_and_recorded_as_the_cli_does(bare_database: Database, folder: Path) -> None:
    write(folder, "20260101000000_first.sql", TRICKY)
    write(folder, "20260102000000_second.sql", "insert into public.a values ('two', 2);")
    write(folder, "notes.sql", "not a migration")
    assert migrate(bare_database.url, folder) == ["20260101000000_first.sql", "20260102000000_second.sql"]
    assert migrate(bare_database.url, folder) == []
    rows = bare_database.connect().execute(
        "select version, name, array_length(statements, 1) from supabase_migrations.schema_migrations order by 1"
    )
    assert rows.fetchall() == [("20260101000000", "first", 4), ("20260102000000", "second", 1)]


def test_a_failure_names_file_and_line_and_leaves_nothing(bare_database: Database, folder: Path) -> None:
    write(folder, "1_good.sql", "create table public.kept (id int);")
    write(folder, "2_bad.sql", "create table public.half (id int);\n\ninsert into public.half\nvalues (1, 2);\n")
    with pytest.raises(MigrationFailed, match=r"2_bad\.sql:4: .*more expressions than target columns"):
        migrate(bare_database.url, folder)
    tables = bare_database.connect().execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
    assert tables == [("kept",)]
    write(folder, "2_bad.sql", "create table public.half (id int);")
    assert migrate(bare_database.url, folder) == ["2_bad.sql"]


def test_an_error_inside_a_block_names_the_statement(bare_database: Database, folder: Path) -> None:
    write(folder, "1_block.sql", "select 1;\ndo $$ begin raise exception 'no; never'; end $$;")
    with pytest.raises(MigrationFailed, match=r"1_block\.sql:2: no; never"):
        migrate(bare_database.url, folder)


def test_a_migration_may_not_end_its_transaction(bare_database: Database, folder: Path) -> None:
    write(folder, "1_commit.sql", "create table public.half (id int);\ncommit;")
    with pytest.raises(MigrationFailed, match=r"1_commit\.sql:2: .*transaction"):
        migrate(bare_database.url, folder)


def test_a_migration_cannot_create_a_superuser(bare_database: Database, folder: Path) -> None:
    write(folder, "1_superuser.sql", "create role boss superuser;")
    with pytest.raises(MigrationFailed, match=r"1_superuser\.sql:1: .*SQLSTATE 42501"):
        migrate(bare_database.url, folder)


def test_the_seed_runs_once(bare_database: Database, folder: Path) -> None:
    (folder / "seed.sql").write_text("create table public.seeded ();")
    assert seed(bare_database.url, folder / "seed.sql") is True
    assert seed(bare_database.url, folder / "seed.sql") is False


def test_queries_are_found_by_their_names() -> None:
    found = load_queries("-- name: one\nselect 1\n\n-- name: two\n-- why\nselect 2\n")
    assert found == {"one": b"select 1\n\n", "two": b"-- why\nselect 2\n"}
