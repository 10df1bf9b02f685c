"""`supabase/schemas/` is the source: migrations and wrappers follow from it, and every body is valid."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from stack.postgres import SUPERUSER
from tests.support.database import Database, Server
from tests.support.schemas import (
    API_FILE,
    FORBIDDEN_FILE,
    SUPABASE,
    api_text,
    beyond_the_dump,
    catalogue,
    forbidden_text,
    load_schemas,
    schema_files,
    statements_of_the_server,
)

OURS = "('public', 'private')"


@pytest.fixture(scope="module")
def desired(postgres_server: Server) -> Iterator[Database]:
    """A database made of the schemas alone, which no test changes."""
    name = postgres_server.create_database(postgres_server.bare_template())
    database = Database(postgres_server, name)
    load_schemas(database.url, schema_files())
    yield database
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def migrated(postgres_server: Server, module_database: str) -> Database:
    """A database with every migration, which no test changes."""
    return Database(postgres_server, module_database)


def test_migrations_lead_to_the_schemas(desired: Database, migrated: Database) -> None:
    found, wanted = (catalogue(each.server, each.name) for each in (migrated, desired))
    missing, surplus = wanted - found, found - wanted
    assert (list(missing), list(surplus)) == ([], []), "run `make migration NAME=…` and commit what it writes"


@pytest.mark.parametrize(
    "change",
    [
        'alter policy "Runners hear their own doorbells" on realtime.messages using (true)',
        "drop trigger note_removed_device on auth.mfa_factors",
        "update private.job_transitions set event = 'other' where event = 'rejected'",
        "alter publication supabase_realtime drop table public.rollouts",
        "alter default privileges for role postgres in schema public grant select on tables to anon",
        "grant select on auth.users to anon",
    ],
)
def test_a_change_outside_of_our_schemas_is_noticed(migrated: Database, change: str) -> None:
    with psycopg.connect(migrated.server.url(migrated.name, SUPERUSER)) as connection:
        before = beyond_the_dump(connection)
        connection.execute(change.encode())
        assert beyond_the_dump(connection) != before
        connection.rollback()


def test_databases_of_two_days_do_not_differ(database: Database) -> None:
    """A night may pass between the first one's log partitions and the second one's."""
    before = catalogue(database.server, database.name)
    owner = database.connect()
    owner.execute("select private.ensure_log_partition(private.utc_day() + 3)")
    [name] = owner.execute("select private.log_partition_name(min(d)) from private.log_days() as d").fetchone() or [""]
    owner.execute(f"drop table private.{name}".encode())
    assert catalogue(database.server, database.name) == before


def test_migrations_set_up_roles_and_schedules_as_the_schemas_do() -> None:
    """Both databases are on one server, so the statements are compared."""
    migrated = statements_of_the_server(sorted((SUPABASE / "migrations").glob("*.sql")))
    wanted = statements_of_the_server(schema_files())
    assert len(wanted) > 3, "roles, their settings and the sweep's schedule"
    assert wanted - migrated == set(), "write these statements into a migration by hand"


def test_a_changed_setting_of_a_role_is_noticed(tmp_path: Path) -> None:
    changed = tmp_path / "foundation.sql"
    changed.write_text((SUPABASE / "schemas" / "foundation.sql").read_text().replace("'15s'", "'16s'"))
    assert len(statements_of_the_server([changed]) - statements_of_the_server(schema_files())) == 1


def test_wrappers_are_generated_from_the_bodies(desired: Database) -> None:
    assert (SUPABASE / "schemas" / API_FILE).read_text() == api_text(desired.url), "run `make migration NAME=…`"


def test_the_runners_list_of_forbidden_variables_is_generated(desired: Database) -> None:
    assert FORBIDDEN_FILE.read_text() == forbidden_text(desired.url), "run `make migration NAME=…`"


def test_every_file_is_in_the_reading_order() -> None:
    assert sorted(schema_files()) == sorted((SUPABASE / "schemas").glob("*.sql"))


def test_every_body_is_valid_once_all_objects_exist(desired: Database) -> None:
    """Schemas load with unchecked bodies, because functions call each other across files."""
    with psycopg.connect(desired.url) as connection:
        definitions = connection.execute(
            f"select pg_get_functiondef(oid) from pg_proc where pronamespace::regnamespace::text in {OURS}"
        ).fetchall()
        connection.execute("set check_function_bodies = on")
        for (definition,) in definitions:
            connection.execute(definition.encode())
        connection.rollback()


def test_a_name_means_one_function(desired: Database) -> None:
    """Comments and grants name functions without their arguments."""
    with psycopg.connect(desired.url) as connection:
        twice = connection.execute(
            f"""select pronamespace::regnamespace, proname from pg_proc where pronamespace::regnamespace::text in {OURS}
              group by 1, 2 having count(*) > 1"""
        ).fetchall()
    assert twice == []
