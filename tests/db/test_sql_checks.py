"""The linters of SQL have nothing to say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from stack.settings import PROJECT
from tests.support.changes import changed_files
from tests.support.extent import is_all

BIN = Path(sys.executable).parent
MIGRATIONS = sorted((PROJECT / "supabase" / "migrations").glob("*.sql"))
MADE = re.compile(
    r"^create (?:unlogged )?(?:function|table|view|type|sequence) ((?:public|private)\.\w+)", re.MULTILINE
)
NAMED = re.compile(r"\b((?:public|private)\.\w+)")
BESIDE_THE_POINT = re.compile(r"--[^\n]*|^comment on .*?;$", re.MULTILINE | re.DOTALL)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


def test_squawk_finds_nothing() -> None:
    found = run(str(BIN / "squawk"), "--reporter", "Gcc", *map(str, MIGRATIONS))
    assert found.stdout.strip() == ""
    assert found.returncode == 0


def to_lint() -> list[str]:
    """All files take a minute; those that this branch does not change were linted with the push that changed them."""
    changed = None if is_all() else changed_files()
    if changed is None or ".sqlfluff" in changed:
        return ["supabase/migrations"]
    return [str(file.relative_to(PROJECT)) for file in MIGRATIONS if str(file.relative_to(PROJECT)) in changed]


def test_sqlfluff_finds_nothing() -> None:
    files = to_lint()
    if not files:
        pytest.skip("no migration is changed here; `make test-all` lints all of them")
    found = run(str(BIN / "sqlfluff"), "lint", "--nofail", "--format", "github-annotation-native", *files)
    assert [line for line in found.stdout.splitlines() if line.startswith("::")] == []
    assert "Skipping" not in found.stdout + found.stderr, "a file that it leaves out says nothing"


def test_files_begin_with_why() -> None:
    for file in MIGRATIONS:
        lines = file.read_text().splitlines()
        assert lines[0].startswith("-- "), file.name
        first = next(line for line in lines if line and not line.startswith("--"))
        assert first.startswith("set lock_timeout"), file.name


def test_no_line_is_longer_than_a_page() -> None:
    long = [
        f"{file.name}:{number}"
        for file in MIGRATIONS
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if len(line) > 120
    ]
    assert long == [], "break them at a comma or before and, or, from"


def test_no_file_names_what_a_later_one_makes() -> None:
    """Anyone who reads from the first file to the last meets nothing that was not said."""
    texts = {file.name: BESIDE_THE_POINT.sub("", file.read_text()) for file in MIGRATIONS}
    home: dict[str, str] = {}
    for file, text in texts.items():
        for made in MADE.findall(text):
            home.setdefault(made, file)
    early = {
        f"{file} names {named} of {home[named]}"
        for file, text in texts.items()
        for named in NAMED.findall(text)
        if home.get(named, "") > file
    }
    assert early == set()
