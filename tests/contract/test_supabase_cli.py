"""The supabase CLI itself pushes, lists and advises against our PostgreSQL as it does against a hosted project, and makes keys."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from stack.functions import find_deno
from stack.migrations import list_migrations, migrate
from stack.settings import PROJECT, Settings
from tests.support.database import Database
from tests.support.npm_tools import ToolUnavailable
from tests.support.supabase_cli import install_cli, run_cli


@pytest.fixture(scope="module")
def cli() -> Path:
    try:
        return install_cli()
    except ToolUnavailable as error:
        pytest.skip(f"the supabase CLI cannot be had: {error}")


def target(database: Database) -> tuple[str, str]:
    return "--db-url", f"{database.url}?sslmode=disable"


def test_db_push_applies_our_migrations_to_a_project_as_hosted_hands_it_out(cli: Path, bare_database: Database) -> None:
    pushed = run_cli(cli, "db", "push", "--yes", *target(bare_database))
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr
    assert migrate(bare_database.url, PROJECT / "supabase") == []


def test_the_cli_lists_our_migrations_as_applied(cli: Path, database: Database) -> None:
    listed = run_cli(cli, "migration", "list", *target(database))
    assert listed.returncode == 0, listed.stderr
    rows = [line.replace("`", "") for line in listed.stdout.splitlines()]
    for migration in list_migrations(PROJECT / "supabase" / "migrations"):
        assert any(row.count(migration.version) >= 2 for row in rows), f"{migration.version} differs:\n{listed.stdout}"
    again = run_cli(cli, "db", "push", "--yes", *target(database))
    assert again.returncode == 0, again.stderr
    assert "up to date" in (again.stdout + again.stderr).lower()


def test_the_advisors_have_nothing_to_warn_of(cli: Path, database: Database) -> None:
    """A procedure that commits cannot pin its search path; it qualifies every name instead."""
    advised = run_cli(cli, "db", "advisors", "--fail-on", "warn", *target(database))
    details = re.findall(r'"detail": "([^"]+)"', advised.stdout)
    warned = [one for one in details if one != "Function `private.sweep_in_parts` has a role mutable search_path"]
    assert warned == [], advised.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what a person has cloned."""
    left_out = shutil.ignore_patterns(".env", "signing_keys.json", ".temp", ".branches")
    shutil.copytree(PROJECT / "supabase", tmp_path / "supabase", ignore=left_out)
    return tmp_path


def wire(cli: Path, project: Path) -> dict[str, Any]:
    """Make a key and wire it, as README says."""
    key = project / "signing-key.json"
    key.write_text(generate(cli, project))
    wire_file(key, project)
    parsed: dict[str, Any] = json.loads(key.read_text())
    return parsed


def generate(cli: Path, project: Path) -> str:
    made = run_cli(cli, "gen", "signing-key", "--algorithm", "ES256", "--yes", project=project)
    assert made.returncode == 0, made.stderr
    return made.stdout


def wire_file(key: Path, project: Path) -> None:
    subprocess.run([PROJECT / "scripts" / "wire_signing_key", key, project], check=True, capture_output=True)


def test_a_fresh_clone_needs_no_key(cli: Path, project: Path) -> None:
    assert "signing keys" not in run_cli(cli, "status", project=project).stderr


def test_the_key_that_is_wired_is_the_one_the_cli_starts_auth_with(cli: Path, project: Path) -> None:
    wire(cli, project)
    assert "signing keys" not in run_cli(cli, "status", project=project).stderr
    keys = project / "supabase" / "signing_keys.json"
    keys.write_text("{}")
    assert "failed to decode signing keys" in run_cli(cli, "status", project=project).stderr, "the CLI reads that file"


def test_the_functions_sign_with_the_key_that_is_wired(cli: Path, project: Path) -> None:
    key = wire(cli, project)
    token = sign_with_functions(project)
    assert token.header["kid"] == key["kid"]
    assert (token.claims["sub"], token.claims["iss"]) == ("an-account", "http://127.0.0.1:54321/auth/v1")


def test_another_key_replaces_the_first_one(cli: Path, project: Path) -> None:
    before = wire(cli, project)
    assert generate(cli, project) == "", "the CLI writes it where it found the first one"
    keys = project / "supabase" / "signing_keys.json"
    wire_file(keys, project)
    (key,) = json.loads(keys.read_text())
    assert sign_with_functions(project).header["kid"] == key["kid"] != before["kid"]


def sign_with_functions(project: Path) -> jwt.Token:
    """Make the functions sign a token with the variables of their env file, and check it against the CLI's keys."""
    lines = (project / "supabase" / "functions" / ".env").read_text().splitlines()
    variables = {name: value.strip("'") for name, value in (line.split("=", 1) for line in lines)}
    assert len(lines) == len(variables), "each variable once"
    functions = PROJECT / "supabase" / "functions"
    tokens = (functions / "_shared" / "tokens.ts").as_uri()
    script = (
        f'import {{ signAccount }} from "{tokens}"; console.log(await signAccount("an-account", "an-organisation", 1));'
    )
    environment = {**os.environ, **variables, "DENO_DIR": str(Settings().cache_folder / "deno")}
    command = [find_deno(), "run", "--quiet", "--config", functions / "deno.json", "--allow-env", "-"]
    signed = subprocess.run(command, input=script, env=environment, capture_output=True, text=True, check=False)
    assert signed.returncode == 0, signed.stderr
    (key,) = json.loads((project / "supabase" / "signing_keys.json").read_text())
    return jwt.decode(signed.stdout.strip(), ECKey.import_key(key), algorithms=["ES256"])


def test_a_file_without_a_private_key_is_refused(project: Path) -> None:
    key = project / "key.json"
    key.write_text("[]")
    done = subprocess.run(
        [PROJECT / "scripts" / "wire_signing_key", key, project], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "is not a private key" in done.stderr) == (2, True)
    assert not (project / "supabase" / "signing_keys.json").exists()
