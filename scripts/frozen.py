"""The migrations of released versions are in people's databases, so their files never change again. Tags mark them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIGRATIONS = "supabase/migrations"


def released(root: Path) -> dict[str, dict[str, str]]:
    """Each tagged version's migrations, by name, with git's hash of the file."""
    found = {}
    for tag in _git(root, "tag", "--list", "v*", "--sort=version:refname").split():
        lines = _git(root, "ls-tree", f"{tag}:{MIGRATIONS}").splitlines()
        found[tag] = {line.split("\t")[1]: line.split()[2] for line in lines}
    return found


def faults(root: Path) -> list[str]:
    """Changes to migrations that are in people's databases."""
    files = sorted((root / MIGRATIONS).glob("*.sql"))
    now = {file.name: _git(root, "hash-object", str(file)).strip() for file in files}
    found = []
    for tag, then in released(root).items():
        for name, digest in then.items():
            if now.get(name) != digest:
                found.append(f"{name} is in {tag} and was {'changed' if name in now else 'removed'}")
        late = [name for name in now if name not in then and name < max(then)]
        found += [f"{name} would run before migrations that {tag} has already run" for name in late]
    return found


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


if __name__ == "__main__":
    wrong = faults(ROOT)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)
