"""What the person at work has changed, as git sees it."""

import subprocess

from stack.settings import PROJECT

UPSTREAM = "origin/main"


def changed_files() -> set[str] | None:
    """Files that differ from the upstream branch, or from the commit before where that is this one; None if git cannot tell."""
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
