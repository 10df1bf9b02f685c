"""The ladder of engines: PATH, cache, a checked release, a real build; one at a time, with visible progress."""

import hashlib
import io
import os
import platform
import shutil
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typer

from cli.commands.engines import chosen
from cli.engines.cache import binary_folder, find, is_locked, locked
from cli.engines.catalog import ENGINES, Engine, EngineError
from cli.engines.ladder import ensure
from cli.engines.progress import Progress, read_progress
from cli.engines.toolchain import needed_go
from tests.support.waiting import wait_until

SCRIPT = b"#!/bin/sh\necho Fake v1.0.0\n"
# No import: with an empty cache even "fmt" takes a minute to compile on a busy machine.
MAIN = """package main

func main() { println("hello") }
"""


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder without writing to stderr."""

    def log_message(self, *args: object) -> None:
        """Log nothing."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test an empty cache and a PATH without engines."""
    monkeypatch.setenv("RUNYARD_ENGINE_CACHE", str(tmp_path / "engines"))
    return tmp_path / "engines"


@pytest.fixture
def releases(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Serve a folder of releases over HTTP."""
    folder = tmp_path / "releases"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def sample(url: str = "http://127.0.0.1:9", recipes: Path | None = None) -> Engine:
    """Return an engine of the test's own."""
    return Engine(
        name="runyard-sample",
        title="Sample",
        version="1.0.0",
        package="runyard.dev/sample",
        archive=url + "/sample_{version}_{system}_{arch}.tar.gz",
        sums=url + "/sums",
        recipes=recipes or Path("/nonexistent"),
    )


def publish(folder: Path, engine: Engine, checksum: str | None = None) -> None:
    """Put a release and its checksums into the served folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in (("README.md", b"hello"), (f"dist/{engine.name}", SCRIPT)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    name = engine.archive_url().rsplit("/", 1)[1]
    (folder / name).write_bytes(buffer.getvalue())
    wanted = checksum or hashlib.sha256(buffer.getvalue()).hexdigest()
    (folder / "sums").write_text(f"{'0' * 64}  other.tar.gz\n{wanted}  {name}\n")


def test_path_comes_first_then_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = sample()
    assert find(engine) is None
    kept = binary_folder(engine) / engine.name
    kept.parent.mkdir(parents=True)
    kept.write_bytes(SCRIPT)
    assert find(engine) is None, "a file that may not be run does not count as an engine"
    kept.chmod(0o755)
    assert find(engine) == kept
    own = tmp_path / "bin" / engine.name
    own.parent.mkdir()
    shutil.copy(kept, own)
    monkeypatch.setenv("PATH", f"{own.parent}{os.pathsep}{os.environ['PATH']}")
    assert find(engine) == own
    assert ensure(engine) == own
    assert ensure(engine, is_pinned=True) == kept


def test_a_release_is_fetched_checked_and_kept(releases: tuple[Path, str]) -> None:
    folder, url = releases
    engine = sample(url)
    publish(folder, engine)
    steps: list[Progress] = []
    path = ensure(engine, steps.append)
    assert path == binary_folder(engine) / engine.name
    assert path.read_bytes() == SCRIPT
    assert path.with_name(f"{engine.name}.sha256").read_text().strip() == hashlib.sha256(SCRIPT).hexdigest()
    assert path.stat().st_mode & stat.S_IXUSR
    assert [step.percent for step in steps] == sorted(step.percent for step in steps)
    last = read_progress(engine)
    assert last is not None
    assert (last.percent, last.is_done) == (100, True)


def test_a_release_that_is_the_program_itself_is_kept_as_it_is(releases: tuple[Path, str]) -> None:
    folder, url = releases
    engine = replace(sample(url), archive=url + "/sample_{system}_{arch}_static", sums=url + "/{system}_{arch}.sums")
    name = engine.archive_url().rsplit("/", 1)[1]
    (folder / name).write_bytes(SCRIPT)
    (folder / engine.sums_url().rsplit("/", 1)[1]).write_text(f"{hashlib.sha256(SCRIPT).hexdigest()}  {name}\n")
    assert ensure(engine).read_bytes() == SCRIPT


def test_a_release_with_another_checksum_is_refused(releases: tuple[Path, str]) -> None:
    folder, url = releases
    engine = sample(url)
    publish(folder, engine, checksum="a" * 64)
    assert "its checksum file says aaaa" in refusal(engine)


def test_another_version_is_a_folder_of_its_own_and_never_built_without_pinned_sources(
    releases: tuple[Path, str],
) -> None:
    folder, url = releases
    (other,) = chosen("tofu@1.9.1")
    assert (other.name, other.version, other.key.startswith("tofu-1.9.1-")) == ("tofu", "1.9.1", True)
    other = replace(other, archive=f"{url}/tofu_{{version}}.tar.gz", sums=f"{url}/sums")
    with pytest.raises(EngineError, match=r"OpenTofu 1\.9\.1 is not available"):
        ensure(other, is_pinned=True)
    publish(folder, other)
    assert ensure(other, is_pinned=True).parent.name == other.key
    for wrong in ("tofu@latest", "tofu@1.9", "dance@1.9.1"):
        with pytest.raises(typer.BadParameter):
            chosen(wrong)


def refusal(engine: Engine) -> str:
    """Return why a release was passed over, on the way to a build that cannot be."""
    steps: list[Progress] = []
    with pytest.raises(EngineError, match="no recipe"):
        ensure(engine, steps.append)
    assert find(engine) is None
    return " ".join(step.words for step in steps)


def test_a_release_that_does_not_run_is_not_kept(releases: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, url = releases
    engine = sample(url)
    monkeypatch.setattr(sys.modules[__name__], "SCRIPT", b"#!/bin/sh\nexit 7\n")
    publish(folder, engine)
    assert "does not run on this machine" in refusal(engine)


@pytest.mark.parametrize(
    ("name", "machine", "file"),
    [
        ("tofu", "aarch64", "tofu_1.12.6_linux_arm64.tar.gz"),
        ("terraform", "aarch64", "terraform_1.5.7_linux_arm64.zip"),
        ("pulumi", "aarch64", "pulumi-v3.200.0-linux-arm64.tar.gz"),
        ("pulumi-language-yaml", "aarch64", "pulumi-language-yaml-v1.10.0-linux-arm64.tar.gz"),
        ("opa", "aarch64", "opa_linux_arm64_static"),
        ("tofu", "x86_64", "tofu_1.12.6_linux_amd64.tar.gz"),
        ("pulumi", "x86_64", "pulumi-v3.200.0-linux-x64.tar.gz"),
    ],
)
def test_releases_are_named_as_their_makers_name_them(
    monkeypatch: pytest.MonkeyPatch, name: str, machine: str, file: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    assert ENGINES[name].archive_url().rsplit("/", 1)[1] == file


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_an_engine_is_built_when_no_release_is_available(tmp_path: Path, cache: Path) -> None:
    recipe = tmp_path / "recipes" / "runyard-sample"
    recipe.mkdir(parents=True)
    (recipe / "go.mod").write_text("module runyard.dev/sample\n\ngo 1.21\n")
    (recipe / "main.go").write_text(MAIN)
    engine = sample(recipes=tmp_path / "recipes")
    steps: list[Progress] = []
    path = ensure(engine, steps.append)
    assert subprocess.run([path], capture_output=True, text=True, check=True).stderr == "hello\n"
    assert any(step.words.startswith("Compiling") for step in steps)
    assert sorted(entry.name for entry in cache.iterdir()) == [engine.key, f"{engine.key}.lock"]


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_a_failed_build_reports_the_reason_and_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    recipe = tmp_path / "recipes" / "runyard-sample"
    recipe.mkdir(parents=True)
    (recipe / "go.mod").write_text("module runyard.dev/sample\n\ngo 1.21\n")
    (recipe / "main.go").write_text('package main\n\nimport _ "runyard.dev/absent"\n\nfunc main() {}\n')
    engine = sample(recipes=tmp_path / "recipes")
    with pytest.raises(EngineError, match="absent"):
        ensure(engine)
    last = read_progress(engine)
    assert last is not None
    assert last.error is not None
    assert "absent" in last.error, "the first line has the reason"
    assert "could not be prepared" in last.note
    assert not [entry for entry in cache.iterdir() if entry.name.startswith(("build-", "fetch-"))]


def test_two_callers_do_the_work_once(releases: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, url = releases
    engine = sample(url)
    publish(folder, engine)
    found: list[Path] = []
    is_at_the_lock = threading.Event()

    def knock(wanted: Engine) -> AbstractContextManager[None]:
        is_at_the_lock.set()
        return locked(wanted)

    monkeypatch.setattr("cli.engines.ladder.locked", knock)
    with locked(engine):
        assert is_locked(engine)
        waiter = threading.Thread(target=lambda: found.append(ensure(engine)))
        waiter.start()
        # Only now: a process that looks later finds the first one's result, and does not wait at all.
        assert is_at_the_lock.wait(180)
        kept = binary_folder(engine) / engine.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(b"#!/bin/sh\n# made by the first\n")
        kept.chmod(0o755)
        assert not found
    waiter.join(180)
    assert found == [kept]
    assert b"made by the first" in kept.read_bytes()
    wait_until(lambda: not is_locked(engine))


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_every_recipe_pins_its_engine(name: str) -> None:
    engine = ENGINES[name]
    text = (engine.recipe / "go.mod").read_text()
    assert f" v{engine.version}" in text
    assert (engine.recipe / "go.sum").stat().st_size > 1000
    assert needed_go(engine) <= needed_go(ENGINES["tofu"]), "the pinned Go must build them all"


def test_the_command_prints_the_path_of_a_cached_engine_and_fails_without_one(cache: Path) -> None:
    command = [sys.executable, "-m", "cli", "engines", "path", "pulumi-language-yaml"]
    env = {**os.environ, "PATH": "/usr/bin:/bin"}
    absent = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert (absent.returncode, absent.stdout) == (3, "")
    engine = replace(ENGINES["pulumi-language-yaml"])
    kept = cache / engine.key / engine.name
    kept.parent.mkdir(parents=True)
    kept.write_bytes(SCRIPT)
    kept.chmod(0o755)
    present = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert present.stdout.strip() == str(kept)
