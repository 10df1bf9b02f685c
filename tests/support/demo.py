"""The demo as `make up` starts it, with short outages: one for the tests of a file that break something in it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.launcher.faults.switch import socket_path
from tests.integration.worker_bench import find_tofu
from tests.support.stack import RunningStack, start_stack


@pytest.fixture(scope="module")
def demo(run_folder: Path) -> Iterator[RunningStack]:
    """A stack with its page, the demo's organisation and its runners."""
    if find_tofu() is None:
        pytest.skip("there is no OpenTofu; `make engines` provides it")
    home = Path(tempfile.mkdtemp(prefix="demo-", dir=run_folder))
    home.chmod(0o755)
    with start_stack(home, RUNYARD_DRILL_SECONDS="3") as stack:
        switch = socket_path(stack.settings.run_folder)
        if switch is None or not switch.exists():
            pytest.skip("the demo has no runners on this machine: nothing shuts its jobs in")
        yield stack
