"""Break rules one at a time and count how many the tests notice: `make mutants`.

A mutant is one changed operator or literal in a copy of the tree. It is noticed when the nearest tests fail. A mutant that
survives is a rule that nobody watches, or a change without effect; a person reads the list.
"""

import argparse
import importlib
import io
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MIGRATIONS = "supabase/migrations"
# What every run of the tests imports; plugins of pytest are not among it.
LIBRARIES = ("httpx", "psycopg", "pydantic", "playwright.sync_api", "reflex", "supabase")
# The pure rules, and where the tests of each are.
AREAS = {
    "worker/logs": ["tests/unit/worker/logs"],
    "worker/steps": ["tests/unit/worker/steps"],
    "worker/loops": ["tests/unit/worker/loops"],
    "worker/children/environment.py": ["tests/unit/worker/children"],
    "app/*/view": ["tests/unit/app"],
    "supabase/functions/_shared": ["tests/integration/edge"],
    "supabase/schemas": ["tests/db"],
}
SWAPS = {
    "==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "and": "or", "or": "and",
    "True": "False", "False": "True", "true": "false", "false": "true", "===": "!==", "!==": "===",
    "&&": "||", "||": "&&", "=": "<>", "<>": "=",
}  # fmt: skip
# Texts without rules: strings and comments, and what SQL says in comments, grants and settings.
SQL_TOKENS = re.compile(
    r"(?P<skip>--[^\n]*|^(?:comment on|grant|revoke|create index|set)\b[^;]*;|:=|=>|\|\||(?<!interval )'(?:[^']|'')*')"
    r"|(?P<find>(?<=interval ')\d+|<=|>=|<>|[<>=]|\b(?:and|or|true|false)\b|(?<![\w.'$])\d+(?![\w.]))",
    re.MULTILINE | re.IGNORECASE,
)
TYPESCRIPT_TOKENS = re.compile(
    r"(?P<skip>//[^\n]*|/\*.*?\*/|=>|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`[^`]*`)"
    r"|(?P<find>===|!==|<=|>=|&&|\|\||(?<= )[<>](?= )|\b(?:true|false)\b|(?<![\w.])\d+(?![\w.]))",
    re.DOTALL,
)


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: str
    start: int
    old: str
    new: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.old} -> {self.new}"


def places(path: Path) -> Iterator[tuple[int, str]]:
    """Find the operators and literals of a file that carry a rule: offset and text."""
    text = path.read_text()
    if path.suffix == ".py":
        lines = [0, *(match.end() for match in re.finditer("\n", text))]
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            is_rule = token.type == tokenize.NUMBER or (token.string in SWAPS and token.string != "=")
            if is_rule and not token.line.lstrip().startswith("@"):
                yield lines[token.start[0] - 1] + token.start[1], token.string
        return
    for match in (SQL_TOKENS if path.suffix == ".sql" else TYPESCRIPT_TOKENS).finditer(text):
        if match["find"]:
            yield match.start("find"), match["find"]


def mutants(path: Path) -> Iterator[Mutant]:
    """List the mutants of a file: an operator swapped, or a whole number raised by one."""
    text = path.read_text()
    for start, old in places(path):
        new = SWAPS.get(old.lower() if path.suffix == ".sql" else old) or (str(int(old) + 1) if old.isdigit() else None)
        if new:
            yield Mutant(str(path.relative_to(ROOT)), start, old, new, text.count("\n", 0, start) + 1)


def sources(area: str) -> list[Path]:
    """List the files of an area, without generated ones and tests."""
    found = [path for place in ROOT.glob(area) for path in ([place] if place.is_file() else sorted(place.rglob("*")))]
    return [
        path for path in found if path.suffix in {".py", ".sql", ".ts"} and path.name not in {"api.sql", "__init__.py"}
    ]


def apply(mutant: Mutant, tree: Path) -> bool:
    """Write the mutant into a tree, a schema's also into the migrations that tests begin with; false where none has that text."""
    text = (tree / mutant.path).read_text()
    changed = text[: mutant.start] + mutant.new + text[mutant.start + len(mutant.old) :]
    (tree / mutant.path).write_text(changed)
    is_applied = not mutant.path.endswith(".sql")
    if not is_applied:
        begins = max(text.rfind(mark, 0, mutant.start) for mark in ("\ncreate ", "\ndo ")) + 1
        ends = text.find("\n\n", mutant.start)
        if text.count("$$", 0, mutant.start) % 2:
            # A function's body is the same everywhere; its head is not, where a migration was generated.
            begins, ends = text.rfind("$$", 0, mutant.start) + 2, text.find("$$", mutant.start)
        before, after = text[begins:ends], changed[begins : ends + len(mutant.new) - len(mutant.old)]
        for migration in (tree / MIGRATIONS).glob("*.sql"):
            written = migration.read_text()
            is_applied = is_applied or before in written
            migration.write_text(written.replace(before, after))
    return is_applied


def nearest(mutant: Mutant, tests: list[str]) -> list[str]:
    """Choose the tests of a mutant, those that name it first: of Python its module, of SQL and TypeScript its function."""
    if mutant.path.endswith(".py"):
        place = Path(mutant.path).with_suffix("")
        names = rf"{'.'.join(place.parts)}\b|from {'.'.join(place.parts[:-1])} import [^\n]*\b{place.name}\b"
        found = [path for path in (ROOT / "tests" / "unit").rglob("test_*.py") if re.search(names, path.read_text())]
        folder = ROOT.joinpath("tests", "unit", *place.parts[:2])
        return [str(path.relative_to(ROOT)) for path in [*sorted(found), folder] if path.exists()]
    text = (ROOT / mutant.path).read_text()[: mutant.start]
    names_before = re.findall(
        r"(?:function|table|view) (?:private|public)\.(\w+)|export (?:async )?function (\w+)", text
    )
    words = [Path(mutant.path).stem, *(name for pair in names_before[-1:] for name in pair if name)]
    pattern = re.compile("|".join(rf"{re.escape(word.rstrip('s'))}" for word in words))
    files = sorted(path for folder in tests for path in (ROOT / folder).rglob("test_*.py"))
    ranked = sorted(files, key=lambda path: -len(pattern.findall(path.name + path.read_text())))
    return [str(path.relative_to(ROOT)) for path in ranked[:6]]


def run(tree: Path, tests: list[str]) -> int:
    """Start the tests in a tree, in a copy of this process: it has imported pytest and the libraries, but nothing of the tree."""
    process = os.fork()
    if process:
        return process
    code: int = pytest.ExitCode.INTERNAL_ERROR
    try:
        become_tests(tree)
        code = pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-m", "not slow and not browser", *tests])
    finally:
        # Whatever happened here, the folder belongs to the first process.
        os._exit(int(code))


def become_tests(tree: Path) -> None:
    """Import from the tree, without output."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    os.chdir(tree)
    sys.path[:] = [str(tree), *(place for place in sys.path if Path(place or ".").resolve() != ROOT)]
    for name in [name for name in sys.modules if name.partition(".")[0] == "scripts"]:
        del sys.modules[name]


def end(process: int, limit: float) -> bool:
    """Wait for tests, and return whether they passed; a hang is a failure."""
    ends_at = time.monotonic() + limit
    while time.monotonic() < ends_at:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return False


def verdict(mutant: Mutant, tree: Path, tests: list[str], limit: float, green: dict[str, bool]) -> str:
    """Return whether the tests fail because of the mutant alone: they pass without it, which `green` remembers."""
    git("checkout", "--quiet", ".", folder=tree)
    if not apply(mutant, tree):
        return "unclear"
    if end(run(tree, tests), limit):
        return "SURVIVED"
    git("checkout", "--quiet", ".", folder=tree)
    key = " ".join(tests)
    if key not in green:
        green[key] = end(run(tree, tests), limit)
    return "noticed" if green[key] else "unclear"


def sample(count: int, seed: int, areas: list[str]) -> list[tuple[Mutant, list[str]]]:
    """Draw the same number of mutants from each area."""
    chance = random.Random(seed)
    drawn = []
    for area in areas:
        found = [mutant for path in sources(area) for mutant in mutants(path)]
        drawn += [(mutant, AREAS[area]) for mutant in chance.sample(found, min(count, len(found)))]
    return drawn


def git(*words: str, folder: Path = ROOT) -> str:
    """Run git and return its output."""
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Try mutants of the committed tree; print each with its verdict, and the share that was noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10, help="mutants of each area (10)")
    parser.add_argument("--seed", type=int, default=1, help="another number draws others")
    parser.add_argument("--area", choices=AREAS, action="append", help="only this one; may be repeated")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one mutant's tests (300)")
    arguments = parser.parse_args()
    if git("status", "--porcelain", "--untracked-files=no"):
        parser.error("commit or stash your changes first: mutants are made of the last commit")
    verdicts, green = Counter[str](), dict[str, bool]()
    for name in LIBRARIES:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="runyard-mutants-") as folder:
        Path(folder).chmod(0o755)
        tree = Path(folder) / "tree"
        git("worktree", "add", "--quiet", "--detach", str(tree))
        (tree / ".venv").symlink_to(ROOT / ".venv")
        # One PostgreSQL for all of them.
        os.environ |= {"RUNYARD_TEST_KEPT_FOLDER": folder, "RUNYARD_TEST_RUN_PID": str(os.getpid())}
        try:
            for mutant, tests in sample(arguments.count, arguments.seed, arguments.area or list(AREAS)):
                found = verdict(mutant, tree, nearest(mutant, tests), arguments.limit, green)
                verdicts[found] += 1
                print(f"{verdicts.total():4} {found:8} {mutant}", flush=True)
        finally:
            git("worktree", "remove", "--force", str(tree))
    judged = verdicts["noticed"] + verdicts["SURVIVED"]
    print(f"{verdicts['noticed']} of {judged} mutants were noticed: {verdicts['noticed'] / max(judged, 1):.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
