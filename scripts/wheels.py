"""Builds the wheels into dist/: `runyard`, `runyard-stack` for the embedded stack beside it, and `runyard-worker`."""

import argparse
import shutil
import sys
import tempfile
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


NOT_PACKED = shutil.ignore_patterns("__pycache__", ".env", ".temp", ".branches", "signing_keys.json")


def build_runyard(dist: Path) -> Path:
    """Build the command line's wheel."""
    return _build(dist, "runyard", {"cli": "cli"})


def build_stack(dist: Path) -> Path:
    """Build the embedded stack's wheel, with the project's migrations and functions inside."""
    # Its version is the command line's, which the release checks.
    places = {"stack": "stack", "supabase": "stack/bundle/supabase", "cli/version.py": "stack/version.py"}
    return _build(dist, "runyard-stack", places)


BUILDS = {"runyard": build_runyard, "runyard-stack": build_stack, "runyard-worker": worker_binary.build_wheel}


def _build(dist: Path, package: str, folders: dict[str, str]) -> Path:
    """Build from a copy, so that the clone stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "source", Path(folder) / "made"
        source.mkdir()
        for name in ("README.md", "LICENSE", f"packaging/{package}/pyproject.toml"):
            shutil.copy(ROOT / name, source)
        for name, place in folders.items():
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / place, ignore=NOT_PACKED)
            else:
                shutil.copy(ROOT / name, source / place)
        worker_binary.run(
            [*worker_binary.pip(), "wheel", "--quiet", "--no-deps", "--wheel-dir", str(made), str(source)]
        )
        [wheel] = made.glob("*.whl")
        return Path(shutil.copy(wheel, dist))


if __name__ == "__main__":
    sys.exit(main())
