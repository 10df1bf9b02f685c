"""What a release needs, as far as no GitHub is needed: `make release-check`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stack.settings import PROJECT
from worker.version import __version__

NAMES = (
    "pyproject.toml",
    "CHANGELOG.md",
    "worker/version.py",
    "cli/version.py",
    "deploy/helm/runyard-worker/Chart.yaml",
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone that is ready to be released: the changelog has the version's section."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, tmp_path / name)
    changelog = tmp_path / "CHANGELOG.md"
    if f"## {__version__}" not in changelog.read_text():
        changelog.write_text(changelog.read_text().replace("## Unreleased", f"## {__version__}"))
    return tmp_path


def check(clone: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "scripts/release_check.py",
        "--root",
        str(clone),
        "--dist",
        str(clone / "dist"),
        *options,
    ]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=550, check=False)


def test_a_version_with_a_changelog_section_is_ready_and_the_section_becomes_the_notes(clone: Path) -> None:
    done = check(clone, "--words", "--tag", f"v{__version__}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "### Added" in (clone / "dist" / "NOTES.md").read_text()


@pytest.mark.parametrize(
    "name", ["worker/version.py", "cli/version.py", "deploy/helm/runyard-worker/Chart.yaml", "pyproject.toml"]
)
def test_a_place_that_says_another_version_is_named(clone: Path, name: str) -> None:
    file = clone / name
    file.write_text(re.sub(re.escape(__version__), "0.0.7", file.read_text()))
    done = check(clone, "--tag", f"v{__version__}")
    assert done.returncode == 1
    assert f"{Path(name).name}" in done.stdout
    assert "says 0.0.7" in done.stdout
    assert not list((clone / "dist").glob("*.whl")), "nothing is built for a release whose words are not right"


def test_a_version_without_a_changelog_section_builds_nothing(clone: Path) -> None:
    changelog = clone / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(f"## {__version__}", "## Unreleased"))
    done = check(clone)
    assert done.returncode == 1
    assert f"has no section for {__version__}" in done.stdout
    assert not (clone / "dist").exists()


@pytest.mark.slow
def test_wheel_binary_and_sbom_are_made_and_say_the_version(clone: Path) -> None:
    shutil.copy(PROJECT / "requirements.txt", clone)
    done = check(clone, "--plain")
    assert done.returncode == 0, done.stdout + done.stderr
    made = {path.name for path in (clone / "dist").iterdir()}
    wheels = {f"{name}-{__version__}-py3-none-any.whl" for name in ("runyard", "runyard_worker")}
    assert wheels | {f"runyard-worker-{__version__}.cdx.json"} <= made
    assert any(name.endswith(".pex") for name in made)
