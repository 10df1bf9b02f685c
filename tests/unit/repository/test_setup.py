"""`scripts/setup` on machines that lack something: one sentence names it and the way to get it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stack.settings import PROJECT


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that setting up needs, in a folder with spaces."""
    folder = tmp_path / "my runyard clone"
    folder.mkdir()
    shutil.copytree(PROJECT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("requirements.txt", "requirements-dev.txt", "pyproject.toml"):
        shutil.copy(PROJECT / name, folder)
    return folder


def program(folder: Path, name: str, script: str) -> Path:
    """A stand-in for a program of the machine."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def set_up(clone: Path, path: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path, "HOME": str(clone), **variables}
    command = ["/bin/sh", str(clone / "scripts" / "setup"), "run"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def base_path(tmp_path: Path) -> str:
    """A PATH with the shell's helpers and no Python."""
    folder = tmp_path / "base"
    folder.mkdir(exist_ok=True)
    for name in ("dirname", "env"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return str(folder)


def test_setup_without_python_names_the_version_to_install(clone: Path, tmp_path: Path) -> None:
    result = set_up(clone, base_path(tmp_path))
    assert result.returncode == 3
    assert "needs Python 3.11 or later; this machine has no python3 at all" in result.stderr


def test_an_old_python_is_named(clone: Path, tmp_path: Path) -> None:
    program(tmp_path / "old", "python3", 'if [ "$1" = --version ]; then echo "Python 3.9.2"; else exit 1; fi')
    result = set_up(clone, f"{tmp_path / 'old'}:{base_path(tmp_path)}")
    assert result.returncode == 3
    assert "this machine has Python 3.9.2" in result.stderr


def test_a_missing_venv_module_is_named(clone: Path, tmp_path: Path) -> None:
    real = f'exec "{sys.executable}" "$@"'
    # A Python whose venv module does not work, as Debian ships it without python3-venv.
    broken = f'case "$*" in *"-m venv"*) echo "ensurepip is not available"; exit 1;; esac\n{real}'
    fake = program(tmp_path / "fake", "python3", broken)
    setup = clone / "scripts" / "setup.py"
    setup.write_text(setup.read_text().replace("[sys.executable, ", f"[{str(fake)!r}, "))
    result = set_up(clone, f"{tmp_path / 'fake'}:{base_path(tmp_path)}")
    assert result.returncode == 3
    assert "ensurepip is not available" in result.stderr
    assert "apt-get install python3-venv" in result.stderr
    assert not (clone / ".venv").exists()


def test_without_a_network_the_failing_step_and_a_way_out_are_named(clone: Path) -> None:
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_FIND_LINKS": ""}
    path = f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin"
    result = set_up(clone, path, **nowhere, UV_HTTP_RETRIES="0", PYTHON=str(Path(sys.base_prefix) / "bin" / "python3"))
    assert result.returncode == 3
    assert "This step failed" in result.stderr
    assert "Without a network the packages cannot be fetched" in result.stderr
    assert not list((clone / ".venv").glob(".stamp*"))


def test_an_unknown_word_is_refused(clone: Path) -> None:
    command = [sys.executable, str(clone / "scripts" / "setup.py"), "nonsense"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 3
    assert "knows run, lint, test, not nonsense" in result.stderr
