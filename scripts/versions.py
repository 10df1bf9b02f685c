"""The version's places: read it from all of them, check that they agree, and write another one.

Its home is worker/version.py, which the runner's wheel reads; places that cannot read it repeat it.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = r'^__version__ = "([^"]+)"$'
PLACES = (
    ("worker/version.py", PYTHON),
    # The command line's and the stack's wheels do not hold the runner.
    ("cli/version.py", PYTHON),
    # Helm reads nothing but this file.
    ("deploy/helm/runyard-worker/Chart.yaml", r"^version: (.+)$"),
    ("deploy/helm/runyard-worker/Chart.yaml", r'^appVersion: "(.+)"$'),
    ("deploy/helm/runyard-server/Chart.yaml", r"^version: (.+)$"),
    ("deploy/helm/runyard-server/Chart.yaml", r'^appVersion: "(.+)"$'),
)
FORM = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.]+)?")


def main(argv: list[str] | None = None) -> int:
    """Print the places, or write a version into them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("version", nargs="?", help="as 1.4.0; without one, what the places say now")
    parser.add_argument("--root", type=Path, default=ROOT, help="the clone")
    given = parser.parse_args(argv)
    try:
        if given.version:
            write(given.root, given.version)
        for place, found in read(given.root):
            print(f"{found}  {place}")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def current(root: Path = ROOT) -> str:
    """The version that its home says."""
    return next(read(root))[1]


def read(root: Path) -> Iterator[tuple[str, str]]:
    """Every place with what it says."""
    for name, pattern in PLACES:
        found = re.search(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        if found is None:
            raise ValueError(f"{name} has no version")
        yield name, found.group(1).strip()


def write(root: Path, version: str) -> None:
    """Write another version into every place."""
    if not FORM.fullmatch(version):
        raise ValueError(f"{version!r} is not a version as 1.4.0 or 1.4.0-rc.1")
    for name, pattern in PLACES:
        file = root / name
        text = file.read_text(encoding="utf-8")
        found = re.search(pattern, text, re.MULTILINE)
        if found is None:
            raise ValueError(f"{name} has no version")
        file.write_text(text[: found.start(1)] + version + text[found.end(1) :], encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
