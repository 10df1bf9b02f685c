"""The cache of providers that jobs of one runner share."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from worker.engines.plugin_cache import alone_in, locks_itself
from worker.enums import EngineName
from worker.finder import FoundEngine

HOLD = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); print(1, flush=True); input()"


@pytest.mark.parametrize(
    ("name", "version", "does"),
    [("tofu", "1.12.6", True), ("tofu", "1.10.0", True), ("tofu", "1.9.1", False), ("terraform", "1.13.0", False)],
)
def test_only_recent_opentofu_locks_the_cache_itself(name: str, version: str, does: bool) -> None:
    assert locks_itself(FoundEngine(EngineName(name), Path("/x"), version)) is does


@pytest.mark.anyio
async def test_an_init_waits_for_the_one_of_another_process_and_continues_when_that_dies(tmp_path: Path) -> None:
    said: list[str] = []
    entered = asyncio.Event()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline()

    async def use() -> None:
        async with alone_in(tmp_path, said.append):
            entered.set()

    async def has_said() -> bool:
        return bool(said)

    using = asyncio.create_task(use())
    await eventually(has_said)
    assert (said, entered.is_set()) == (["Waiting for another job that fills the provider cache."], False)
    holder.kill()
    holder.wait()
    await using
    assert entered.is_set()
    async with alone_in(tmp_path / "new", said.append):
        assert (tmp_path / "new").is_dir()
    assert len(said) == 1
