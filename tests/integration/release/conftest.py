"""A tree that is ready to be tagged, and where its release is offered."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stack.settings import PROJECT
from tests.integration.edge.conftest import edge
from tests.integration.edge.test_edge_functions_publishing import url

__all__ = ["edge", "url"]


@pytest.fixture
def version() -> str:
    """One that no other test of this stack publishes."""
    return f"{700 + random.randrange(100)}.{random.randrange(10_000)}.{random.randrange(10_000)}"


@pytest.fixture
def tree(version: str, tmp_path: Path) -> Path:
    """This working tree after the steps that docs/runner/releases.md names: version and changelog."""
    target = tmp_path / "tree"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (PROJECT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, target / name)
    changelog = target / "CHANGELOG.md"
    text = changelog.read_text()
    changelog.write_text(text.replace("## Unreleased", f"## {version}\n\n- It is faster.\n\n## Earlier", 1))
    make = ["make", f"PY={sys.executable}", "SETUP=true"]
    subprocess.run([*make, "version", f"V={version}"], cwd=target, check=True, capture_output=True)
    return target
