"""The checks of a release that need no GitHub: `make release-check`."""

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.version import Version

from stack.settings import PROJECT
from worker.version import __version__

PLACES = (
    "worker/version.py",
    "cli/version.py",
    "deploy/helm/runyard-worker/Chart.yaml",
    "deploy/helm/runyard-server/Chart.yaml",
)
NAMES = ("CHANGELOG.md", *PLACES)
FIRST, SECOND = "20260101000000_first.sql", "20260201000000_second.sql"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone that is ready to be released: the changelog has the version's section."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, tmp_path / name)
    changelog = tmp_path / "CHANGELOG.md"
    if f"## {__version__}" not in changelog.read_text():
        changelog.write_text(changelog.read_text().replace("## Unreleased", f"## {__version__}"))
    (tmp_path / "supabase" / "migrations").mkdir(parents=True)
    for name in (FIRST, SECOND):
        migration(tmp_path, name).write_text(f"select '{name}';\n")
    return tmp_path


def tag(clone: Path, version: str) -> None:
    """Commit the clone and tag it as a released version."""
    git = ["git", "-C", str(clone), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "x"], ["tag", f"v{version}"]):
        subprocess.run([*git, *command], check=True)


def wheel(folder: Path, version: str, *files: Path) -> Path:
    """A runner's wheel as setuptools names it."""
    name = f"runyard_worker-{Version(version)}"
    made = folder / f"{name}-py3-none-any.whl"
    with ZipFile(made, "w") as archive:
        for file in files:
            archive.write(file, f"worker/{file.name}")
        archive.writestr(
            f"{name}.dist-info/METADATA", f"Metadata-Version: 2.4\nName: runyard-worker\nVersion: {Version(version)}\n"
        )
    return made


def migration(clone: Path, name: str) -> Path:
    return clone / "supabase" / "migrations" / name


def call(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, f"scripts/{script}", *map(str, arguments)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=900, check=False)


def check(clone: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return call("release_check.py", "--root", clone, "--dist", clone / "dist", *options)


def test_a_version_with_a_changelog_section_is_ready_and_the_section_becomes_the_notes(clone: Path) -> None:
    done = check(clone, "--words", "--tag", f"v{__version__}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "### Added" in (clone / "dist" / "NOTES.md").read_text()


@pytest.mark.parametrize("name", PLACES)
def test_a_file_with_another_version_is_reported(clone: Path, name: str) -> None:
    file = clone / name
    file.write_text(re.sub(re.escape(__version__), "0.0.7", file.read_text()))
    done = check(clone, "--tag", f"v{__version__}")
    assert done.returncode == 1
    assert f"{name} says 0.0.7" in done.stdout
    assert not list((clone / "dist").glob("*.whl")), "nothing is built for a release whose words are not right"


def test_a_version_without_a_changelog_section_builds_nothing(clone: Path) -> None:
    changelog = clone / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(f"## {__version__}", "## Unreleased"))
    done = check(clone)
    assert done.returncode == 1
    assert f"has no section for {__version__}" in done.stdout
    assert not (clone / "dist").exists()


@pytest.mark.parametrize("version", ["0.2.0", "1.10.0-rc.1"])
def test_one_command_writes_a_version_into_every_place(clone: Path, version: str) -> None:
    done = call("versions.py", version, "--root", clone)
    assert done.returncode == 0, done.stderr
    assert {line.split()[0] for line in done.stdout.splitlines()} == {version}
    assert f"has no section for {version}" in check(clone, "--words").stdout


@pytest.mark.parametrize("version", ["v0.2.0", "0.2", "00.2.0", "latest", "0.2.0 ", "0.2.0\n"])
def test_an_invalid_version_is_written_nowhere(clone: Path, version: str) -> None:
    done = call("versions.py", version, "--root", clone)
    assert (done.returncode, "is not a version" in done.stderr) == (2, True)
    assert f'"{__version__}"' in (clone / "worker/version.py").read_text()


def test_a_candidates_wheel_has_its_version_as_wheels_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PROJECT / "scripts")
    release_check = importlib.import_module("release_check")
    made = wheel(tmp_path, "1.4.0-rc.1", PROJECT / "worker" / "version.py")
    assert "-1.4.0rc1-" in made.name
    assert release_check.find_wheel(tmp_path, "1.4.0-rc.1") == made
    assert release_check.check_wheel(made, "1.4.0-rc.1", "worker") == 2
    assert release_check.find_wheel(tmp_path, "1.4.0") is None
    with pytest.raises(release_check.Wrong):
        release_check.check_wheel(made, "1.4.0", "worker")


@pytest.fixture
def after_a_release(clone: Path) -> Path:
    """The clone at the next version; people have the one before."""
    tag(clone, __version__)
    call("versions.py", "99.0.0", "--root", clone)
    (clone / "CHANGELOG.md").write_text("# Changelog\n\n## 99.0.0\n\n- It is faster.\n")
    return clone


def test_after_a_release_migrations_are_added(after_a_release: Path) -> None:
    migration(after_a_release, "20260301000000_third.sql").write_text("select 3;\n")
    done = check(after_a_release, "--words")
    assert done.returncode == 0, done.stdout
    assert "3 files, frozen" in done.stdout


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda clone: migration(clone, FIRST).write_text("select 'changed';\n"), f"{FIRST} is in v{__version__} and was changed"),
        (lambda clone: migration(clone, FIRST).unlink(), f"{FIRST} is in v{__version__} and was removed"),
        (
            lambda clone: migration(clone, "20260101000001_between.sql").write_text("select 1;\n"),
            f"20260101000001_between.sql would run before migrations that v{__version__} has already run",
        ),
    ],
)  # fmt: skip
def test_after_a_release_its_migrations_stay_as_they_were(
    after_a_release: Path, damage: Callable[[Path], object], told: str
) -> None:
    damage(after_a_release)
    done = check(after_a_release, "--words")
    assert done.returncode == 1
    assert told in done.stdout


def test_migrations_of_released_versions_are_as_they_were() -> None:
    found = subprocess.run(
        [sys.executable, "scripts/frozen.py"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout.strip()) == (0, ""), "put the change into a new migration"


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_checksums_are_those_that_sha256sum_compares(tmp_path: Path) -> None:
    (tmp_path / "a file").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    assert call("checksums.py", tmp_path).returncode == 0
    assert call("checksums.py", tmp_path).returncode == 0, "it does not count itself"
    compare = ["sha256sum", "--strict", "--check", "SHA256SUMS"]
    told = subprocess.run(compare, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["a file: OK", "b: OK"]


def test_a_release_without_files_is_refused(tmp_path: Path) -> None:
    done = call("checksums.py", tmp_path)
    assert (done.returncode, "offers nothing" in done.stderr) == (1, True)
