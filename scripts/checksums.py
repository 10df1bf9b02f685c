"""Writes SHA256SUMS beside the files that a release offers: `sha256sum --check SHA256SUMS` compares them."""

import argparse
import hashlib
import sys
from pathlib import Path

NAME = "SHA256SUMS"


def main(argv: list[str] | None = None) -> int:
    """Write the file and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the files that are offered, and nothing else")
    try:
        print(write(parser.parse_args(argv).folder).read_text(encoding="utf-8"), end="")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def write(folder: Path) -> Path:
    """Write the checksums of a folder's files into it."""
    files = sorted(file for file in folder.glob("*") if file.is_file() and file.name != NAME)
    if not files:
        raise ValueError(f"{folder} has no file: a release that offers nothing is none")
    made = folder / NAME
    made.write_text("".join(f"{digest(file)}  {file.name}\n" for file in files), encoding="utf-8")
    return made


def digest(file: Path) -> str:
    """The file's SHA-256."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
