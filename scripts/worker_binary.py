"""Builds the runner for distribution: a wheel, and one file for this platform."""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "aws,docker,kubernetes"
SCIE_SECONDS = 600
NOT_PACKED = shutil.ignore_patterns("__pycache__", ".env", ".temp", ".branches", "signing_keys.json")


def main() -> int:
    """Build into dist/ and print what was made with its SHA-256."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where to put the files")
    parser.add_argument("--plain", action="store_true", help="a PEX that needs a Python, without trying a scie first")
    arguments = parser.parse_args()
    arguments.dist.mkdir(parents=True, exist_ok=True)
    wheel = build_wheel(arguments.dist)
    binary = build_binary(wheel, arguments.dist, is_plain=arguments.plain)
    subprocess.run([str(binary), "version"], check=True, stdout=subprocess.DEVNULL)
    for made in (wheel, binary):
        print(f"{hashlib.sha256(made.read_bytes()).hexdigest()}  {made}")
    return 0


def build_wheel(dist: Path) -> Path:
    """Build the runner's wheel."""
    return build_package(dist, "runyard-worker", {"wire": "wire", "worker": "worker"})


def build_package(dist: Path, package: str, folders: dict[str, str]) -> Path:
    """Build a wheel of packaging/ from a copy, so that the clone stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "source", Path(folder) / "made"
        source.mkdir()
        for name in ("README.md", "LICENSE", f"packaging/{package}/pyproject.toml"):
            shutil.copy(ROOT / name, source)
        for name, place in folders.items():
            (source / place).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / place, ignore=NOT_PACKED)
            else:
                shutil.copy(ROOT / name, source / place)
        run([*pip(), "wheel", "--quiet", "--no-deps", "--wheel-dir", str(made), str(source)])
        [wheel] = made.glob("*.whl")
        return Path(shutil.copy(wheel, dist))


def pip() -> list[str]:
    """Return a pip command; a venv made by uv has none of its own."""
    has_pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if has_pip.returncode == 0:
        return [sys.executable, "-m", "pip"]
    return [sys.executable, "-m", "uv", "tool", "run", "pip"]


def build_binary(wheel: Path, dist: Path, *, is_plain: bool) -> Path:
    """Make a scie, which brings its own Python, where the network lets it be fetched; else a PEX."""
    name = f"runyard-worker-{platform.system().lower()}-{platform.machine().lower()}"
    if not is_plain:
        try:
            pex(wheel, dist / f"{name}.pex", "--scie", "eager", "--scie-only", seconds=SCIE_SECONDS)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            if os.environ.get("CI"):
                # A release offers the same names each time: runners look for theirs when they update.
                raise
            print("a Python to bring along cannot be fetched here: building a PEX that needs one", file=sys.stderr)
        else:
            return dist / name
    return pex(wheel, dist / f"{name}.pex")


def pex(wheel: Path, output: Path, *options: str, seconds: float | None = None) -> Path:
    """Build one file with the pinned dependencies."""
    command = [sys.executable, "-m", "pex", f"{wheel}[{EXTRAS}]", "--constraints", str(ROOT / "requirements.txt")]
    command += ["--console-script", "runyard-worker", "--output-file", str(output), *options]
    # The older resolver loses extras of a package that is required twice.
    command += ["--resolver-version", "pip-2020-resolver", "--python-shebang", "/usr/bin/env python3"]
    run(command, seconds)
    return output


def run(command: list[str], seconds: float | None = None) -> None:
    """Run a command and show what it said when it fails."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds)
    except subprocess.CalledProcessError as error:
        print(error.stderr[-2000:], file=sys.stderr)
        raise


if __name__ == "__main__":
    sys.exit(main())
