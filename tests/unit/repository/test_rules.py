"""Rules of the repository that no linter knows."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.settings import PROJECT

LONGEST_FILE = 450
# A schema file is a whole topic, tables and functions, that is read together.
LONGEST_SCHEMA = 820
# Written by a tool, or a list that would not be clearer in two parts.
GENERATED = re.compile(
    r"(requirements.*\.txt|\.lock|lock/.*|go\.(sum|mod)|\.svg|LICENSE.*|\.schema\.json|docs/reference/.*"
    r"|supabase/migrations/.*|schemas/api\.sql)$"
)


def tracked() -> list[Path]:
    result = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        pytest.skip("not a git clone")
    return [PROJECT / line for line in result.stdout.splitlines() if (PROJECT / line).is_file()]


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def test_no_file_is_too_long_to_read() -> None:
    code = [path for path in tracked() if path.suffix in (".py", ".ts", ".js", ".sql", ".sh")]
    long = {
        str(path.relative_to(PROJECT)): text_of(path).count("\n") for path in code if not GENERATED.search(str(path))
    }
    assert {name: lines for name, lines in long.items() if lines > longest(name)} == {}


def longest(name: str) -> int:
    return LONGEST_SCHEMA if name.startswith("supabase/schemas/") else LONGEST_FILE


def test_no_lock_file_names_a_registry() -> None:
    locks = [path for path in tracked() if re.search(r"(requirements.*\.txt|\.lock)$", path.name)]
    assert locks
    naming = [
        path.name
        for path in locks
        if re.search(r"--(extra-)?index-url|https?://[^\s\"]*(pypi|simple|npm)", text_of(path))
    ]
    assert naming == []


def test_migrations_have_names_the_supabase_cli_accepts_in_one_order() -> None:
    names = [path.name for path in sorted((PROJECT / "supabase" / "migrations").glob("*.sql"))]
    assert all(re.fullmatch(r"\d{14}_[a-z0-9_]+\.sql", name) for name in names)
    assert len({name.split("_", 1)[0] for name in names}) == len(names)


# Functions whose result differs in each process.
BY_CHANCE = {
    "uuid1",
    "uuid4",
    "random",
    "randint",
    "choice",
    "token_hex",
    "token_urlsafe",
    "now",
    "today",
    "time",
    "mkdtemp",
}


def parametrized(source: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(source)):
        for decorator in getattr(node, "decorator_list", []):
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("parametrize"):
                yield decorator


def chances(decorator: ast.Call) -> set[str]:
    called = {ast.unparse(each.func) for each in ast.walk(decorator) if isinstance(each, ast.Call)}
    lazy = {
        ast.unparse(each.func)
        for inner in ast.walk(decorator)
        if isinstance(inner, ast.Lambda)
        for each in ast.walk(inner)
        if isinstance(each, ast.Call)
    }
    return {name for name in called - lazy if name.rsplit(".", 1)[-1] in BY_CHANCE}


def test_parameters_are_the_same_in_every_process() -> None:
    """With different ones the processes of a run collect different tests, and it stops before the first."""
    tests = [path for path in tracked() if path.suffix == ".py" and path.is_relative_to(PROJECT / "tests")]
    found = {
        str(path.relative_to(PROJECT)): names
        for path in tests
        for decorator in parametrized(text_of(path))
        if (names := chances(decorator))
    }
    assert found == {}


@pytest.mark.parametrize(("ending", "is_good"), [(0, True), (1, False), (2, False), (3, True)])
def test_a_check_of_unused_code_that_could_not_run_fails(ending: int, is_good: bool, tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho 'a.py:1: unused variable x'\nexit {ending}\n")
    program.chmod(0o755)
    command = ["make", "--file", PROJECT / "Makefile", f"PY={program}", "lint-vulture"]
    assert (subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0) == is_good
