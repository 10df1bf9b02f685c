"""The migrations of released versions: they are in people's databases, so their files never change again.

Each release keeps their checksums in tests/upgrades/<version>/, beside a dump of its database; a test compares them.
"""

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import versions

ROOT = Path(__file__).resolve().parent.parent
MIGRATIONS = Path("supabase/migrations")
RELEASES = Path("tests/upgrades")
LIST, DUMP = "migrations.sha256", "database.sql.gz"


def main(argv: list[str] | None = None) -> int:
    """Write down the migrations of the version that is about to be released."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="the clone that is to be released")
    root = parser.parse_args(argv).root
    version = versions.current(root)
    if is_tagged(root, version):
        print(f"v{version} is released: its migrations stay as they are; set the next version first", file=sys.stderr)
        return 1
    target = root / RELEASES / version / LIST
    target.parent.mkdir(parents=True, exist_ok=True)
    found = checksums(root)
    target.write_text("".join(f"{digest}  {name}\n" for name, digest in found.items()), encoding="utf-8")
    print(f"{target.relative_to(root)}: {len(found)} migrations")
    return 0


def is_tagged(root: Path, version: str) -> bool:
    """Whether the version has a tag, so that somebody may have it."""
    found = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "--quiet", "--verify", f"refs/tags/v{version}"],
        capture_output=True,
        check=False,
    )
    return found.returncode == 0


def checksums(root: Path) -> dict[str, str]:
    """The migrations' files in order, each with its SHA-256."""
    files = sorted((root / MIGRATIONS).glob("*.sql"))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def listed(file: Path) -> dict[str, str]:
    """What a release's list says."""
    pairs = (line.split("  ", maxsplit=1) for line in file.read_text(encoding="utf-8").splitlines())
    return {name: digest for digest, name in pairs}


def faults(root: Path) -> list[str]:
    """What was done to migrations that are in people's databases."""
    now, found = checksums(root), []
    for file in sorted((root / RELEASES).glob(f"*/{LIST}")):
        version, then = file.parent.name, listed(file)
        for name, digest in then.items():
            if now.get(name) != digest:
                found.append(f"{name} is in {version} and was {'changed' if name in now else 'removed'}")
        late = [name for name in now if name not in then and name < max(then)]
        found += [f"{name} would run before migrations that {version} has already run" for name in late]
    return found


if __name__ == "__main__":
    sys.exit(main())
