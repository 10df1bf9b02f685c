"""Builds both wheels into dist/: `runyard`, the command line, and `runyard-worker`, the runner."""

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
    parser.add_argument("--only", choices=("runyard", "runyard-worker"), help="one of them")
    given = parser.parse_args()
    given.dist.mkdir(parents=True, exist_ok=True)
    for name, build in {"runyard": build_runyard, "runyard-worker": worker_binary.build_wheel}.items():
        if given.only in (None, name):
            print(build(given.dist))
    return 0


def build_runyard(dist: Path) -> Path:
    """Build the command line's wheel from a copy, so that the clone stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "source", Path(folder) / "made"
        source.mkdir()
        for name in ("README.md", "LICENSE", "packaging/runyard/pyproject.toml"):
            shutil.copy(ROOT / name, source)
        shutil.copytree(ROOT / "cli", source / "cli", ignore=shutil.ignore_patterns("__pycache__"))
        worker_binary.run(
            [*worker_binary.pip(), "wheel", "--quiet", "--no-deps", "--wheel-dir", str(made), str(source)]
        )
        [wheel] = made.glob("*.whl")
        return Path(shutil.copy(wheel, dist))


if __name__ == "__main__":
    sys.exit(main())
