"""A program on disk, and somewhere to get a new one from."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.update.releases import releases
from worker.program import Program


@pytest.fixture
def origin() -> Iterator[str]:
    """A server with releases, which is also the project's own address."""
    with releases() as address:
        yield address


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """An installed program in a folder of its own."""
    file = tmp_path / "bin" / "runyard-worker"
    file.parent.mkdir()
    file.write_text("#!/bin/sh\nexit 0\n")
    file.chmod(0o750)
    return Program(file, "runyard-worker-linux-x86_64.pex", (), ("run", "--capacity", "2"), {"WORKER_TOKEN": "t"})
