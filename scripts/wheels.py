"""Builds the wheels into dist/: `runyard`, `runyard-stack` for the embedded stack beside it, and `runyard-worker`."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import worker_binary

ROOT = worker_binary.ROOT


def main() -> int:
    """Build and print what was made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where to put the files")
    parser.add_argument("--only", choices=tuple(BUILDS), help="one of them")
    given = parser.parse_args()
    given.dist.mkdir(parents=True, exist_ok=True)
    for name, build in BUILDS.items():
        if given.only in (None, name):
            print(build(given.dist))
    return 0


def build_runyard(dist: Path) -> Path:
    """Build the command line's wheel."""
    return worker_binary.build_package(dist, "runyard", {"cli": "cli"})


def build_stack(dist: Path) -> Path:
    """Build the embedded stack's wheel, with the project's migrations and functions inside."""
    # Its version is the command line's, which the release checks.
    places = {"stack": "stack", "supabase": "stack/bundle/supabase", "cli/version.py": "stack/version.py"}
    return worker_binary.build_package(dist, "runyard-stack", places)


BUILDS = {"runyard": build_runyard, "runyard-stack": build_stack, "runyard-worker": worker_binary.build_wheel}


if __name__ == "__main__":
    sys.exit(main())
