"""The linters of SQL find nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from stack.settings import PROJECT
from tests.support.changes import changed_files
from tests.support.extent import is_all
from tests.support.schemas import API_FILE, schema_files

BIN = Path(sys.executable).parent
MIGRATIONS = sorted((PROJECT / "supabase" / "migrations").glob("*.sql"))
SCHEMAS = [file for file in schema_files() if file.name != API_FILE]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


def test_squawk_finds_nothing() -> None:
    found = run(str(BIN / "squawk"), "--reporter", "Gcc", *map(str, MIGRATIONS))
    assert found.stdout.strip() == ""
    assert found.returncode == 0


def to_lint() -> list[str]:
    """All files take a minute; unchanged files were linted with the push that changed them."""
    changed = None if is_all() else changed_files()
    if changed is None or ".sqlfluff" in changed:
        return ["supabase/schemas"]
    names = [str(file.relative_to(PROJECT)) for file in SCHEMAS]
    return [name for name in names if name in changed]


def test_sqlfluff_finds_nothing() -> None:
    files = to_lint()
    if not files:
        pytest.skip("no schema is changed here; `make test-all` lints all of them")
    found = run(str(BIN / "sqlfluff"), "lint", "--nofail", "--format", "github-annotation-native", *files)
    assert [line for line in found.stdout.splitlines() if line.startswith("::")] == []
    assert "Skipping" not in found.stdout + found.stderr, "a file that it skips proves nothing"


def test_files_begin_with_why() -> None:
    for file in SCHEMAS:
        assert file.read_text().startswith("-- "), file.name


def test_no_line_is_longer_than_a_page() -> None:
    long = [
        f"{file.name}:{number}"
        for file in SCHEMAS
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if len(line) > 120
    ]
    assert long == [], "break them at a comma or before and, or, from"


def test_every_migration_limits_its_locks() -> None:
    for file in MIGRATIONS:
        first = next(line for line in file.read_text().splitlines() if line and not line.startswith("--"))
        assert first.startswith("set lock_timeout"), file.name


FUNCTION = re.compile(
    r"create function private\.(\w+)\((?:(?!as \$\$).)*? immutable (?:(?!as \$\$).)*?as \$\$", re.DOTALL
)
CONDITIONAL = re.compile(r"(?:perform|select) private\.((?:refuse|need|check)\w*)\((?:[^;']|'(?:[^']|'')*')*?\bwhere\b")


def test_no_immutable_function_refuses_on_a_condition() -> None:
    """PostgreSQL computes an immutable function while it plans a statement, whether or not the condition holds."""
    text = "\n".join(file.read_text() for file in SCHEMAS)
    immutable = {found for head in re.split(r"(?=create function )", text) for found in FUNCTION.findall(head)}
    assert "is_path" in immutable
    assert immutable & set(CONDITIONAL.findall(text)) == set()
