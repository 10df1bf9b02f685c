"""The changes of the person at work, as git sees them."""

import subprocess
import sys
from pathlib import PurePosixPath

from stack.settings import PROJECT

UPSTREAM = "origin/main"


def changed_files() -> set[str] | None:
    """Files that differ from the upstream branch, or from the commit before where that is this one; None if git cannot find out."""
    base = _git("merge-base", "HEAD", UPSTREAM) or ""
    if base.strip() == (_git("rev-parse", "HEAD") or "").strip():
        base = "HEAD~1"
    differing = _git("diff", "--name-only", base.strip() or "HEAD~1")
    new = _git("ls-files", "--others", "--exclude-standard")
    if differing is None or new is None:
        return None
    return set(differing.splitlines()) | set(new.splitlines())


def _git(*words: str) -> str | None:
    done = subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def quick_tests(changed: set[str]) -> list[str]:
    """The quick tests that belong to changed files: those that changed, and those that mirror a changed source."""
    found = set()
    for path in map(PurePosixPath, changed):
        if path.parts[0] == "tests":
            found |= {str(path)} if path.name.startswith("test_") else set()
        elif path.parts[0] == "supabase":
            found.add("tests/db/test_schemas.py")
        else:
            mirrors = ["tests/unit" / parent for parent in path.parents if parent.parts]
            found |= {str(folder) for folder in mirrors[:1]}
    return sorted(test for test in found if (PROJECT / test).exists())


if __name__ == "__main__":
    sys.stdout.write(" ".join(quick_tests(changed_files() or set())))
