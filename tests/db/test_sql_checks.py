"""The linters of SQL have nothing to say."""

import subprocess
import sys
from pathlib import Path

import pytest

from stack.settings import PROJECT

BIN = Path(sys.executable).parent
MIGRATIONS = sorted((PROJECT / "supabase" / "migrations").glob("*.sql"))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


def test_squawk_finds_nothing() -> None:
    found = run(str(BIN / "squawk"), "--reporter", "Gcc", *map(str, MIGRATIONS))
    assert found.stdout.strip() == ""
    assert found.returncode == 0


@pytest.mark.slow
def test_sqlfluff_finds_nothing() -> None:
    found = run(
        str(BIN / "sqlfluff"), "lint", "--nofail", "--format", "github-annotation-native", "supabase/migrations"
    )
    assert [line for line in found.stdout.splitlines() if line.startswith("::")] == []
    assert "Skipping" not in found.stdout + found.stderr, "a file that it leaves out says nothing"


def test_files_are_short_and_begin_with_why() -> None:
    for file in MIGRATIONS:
        lines = file.read_text().splitlines()
        assert len(lines) <= 450, file.name
        assert lines[0].startswith("-- "), file.name
        first = next(line for line in lines if line and not line.startswith("--"))
        assert first.startswith("set lock_timeout"), file.name
