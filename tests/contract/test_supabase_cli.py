"""The supabase CLI itself pushes, lists and advises against our PostgreSQL as it does against a hosted project."""

from pathlib import Path

import pytest

from stack.migrations import list_migrations, migrate
from stack.settings import PROJECT
from tests.support.database import Database
from tests.support.supabase_cli import CliUnavailable, install_cli, run_cli


@pytest.fixture(scope="module")
def cli() -> Path:
    try:
        return install_cli()
    except CliUnavailable as error:
        pytest.skip(f"the supabase CLI cannot be had: {error}")


def target(database: Database) -> tuple[str, str]:
    return "--db-url", f"{database.url}?sslmode=disable"


def test_db_push_applies_our_migrations_to_a_project_as_hosted_hands_it_out(cli: Path, bare_database: Database) -> None:
    pushed = run_cli(cli, "db", "push", "--yes", *target(bare_database))
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr
    assert migrate(bare_database.url, PROJECT / "supabase") == []


def test_what_we_applied_the_cli_finds_applied(cli: Path, database: Database) -> None:
    listed = run_cli(cli, "migration", "list", *target(database))
    assert listed.returncode == 0, listed.stderr
    rows = [line.replace("`", "") for line in listed.stdout.splitlines()]
    for migration in list_migrations(PROJECT / "supabase" / "migrations"):
        assert any(row.count(migration.version) >= 2 for row in rows), f"{migration.version} differs:\n{listed.stdout}"
    again = run_cli(cli, "db", "push", "--yes", *target(database))
    assert again.returncode == 0, again.stderr
    assert "up to date" in (again.stdout + again.stderr).lower()


def test_the_advisors_have_nothing_to_warn_of(cli: Path, database: Database) -> None:
    advised = run_cli(cli, "db", "advisors", "--fail-on", "warn", *target(database))
    assert advised.returncode == 0, advised.stdout
