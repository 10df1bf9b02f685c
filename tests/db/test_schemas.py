"""`supabase/schemas/` is the source: migrations and wrappers follow from it, and every body is valid."""

import psycopg
import pytest

from tests.support.database import Database
from tests.support.schemas import (
    API_FILE,
    FORBIDDEN_FILE,
    SUPABASE,
    api_text,
    catalogue,
    forbidden_text,
    load_schemas,
    schema_files,
)  # fmt: skip

OURS = "('public', 'private')"


@pytest.fixture
def desired(bare_database: Database) -> Database:
    """A database made of the schemas alone."""
    load_schemas(bare_database.url, schema_files())
    return bare_database


def test_migrations_lead_to_the_schemas(desired: Database, database: Database) -> None:
    migrated, wanted = (catalogue(each.server, each.name) for each in (database, desired))
    missing, surplus = wanted - migrated, migrated - wanted
    assert (list(missing), list(surplus)) == ([], []), "run `make migration NAME=…` and commit what it writes"


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


def test_a_name_means_one_function(desired: Database) -> None:
    """Comments and grants name functions without their arguments."""
    with psycopg.connect(desired.url) as connection:
        twice = connection.execute(
            f"""select pronamespace::regnamespace, proname from pg_proc where pronamespace::regnamespace::text in {OURS}
              group by 1, 2 having count(*) > 1"""
        ).fetchall()
    assert twice == []
