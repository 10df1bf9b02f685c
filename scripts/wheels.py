"""Builds the wheels into dist/: `runyard` with everything, `runyard-cli` for pipelines, and `runyard-worker`."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import worker_binary

ROOT = worker_binary.ROOT
# The dashboard's sources, its documentation, and the demo's outdated runner.
BUNDLED = (
    "app", "assets", "docs", "reflex.lock", "requirements.txt", "rxconfig.py", "scripts/older_runner.py", "zensical.toml",
)  # fmt: skip


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
    """Build the wheel of the whole server side; what is served or built on the user's machine is in its bundles."""
    places = {name: name for name in ("cli", "stack", "wire", "worker")}
    places |= {"supabase": "stack/bundle/supabase"} | {name: f"cli/bundle/{name}" for name in BUNDLED}
    return worker_binary.build_package(dist, "runyard", places)


def build_cli(dist: Path) -> Path:
    """Build the command line's wheel."""
    return worker_binary.build_package(dist, "runyard-cli", {"cli": "cli", "wire": "wire"})


BUILDS = {"runyard": build_runyard, "runyard-cli": build_cli, "runyard-worker": worker_binary.build_wheel}


if __name__ == "__main__":
    sys.exit(main())
