"""The operator's cache of providers, which all jobs of a runner share: one `init` at a time where an engine does not lock it itself."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from packaging.version import Version

from worker.attempt.workspace import Workspace
from worker.enums import EngineName
from worker.finder import FoundEngine

CACHE_VARIABLE = "TF_PLUGIN_CACHE_DIR"
_POLL_SECONDS = 0.05


@asynccontextmanager
async def provider_cache(space: Workspace, engine: FoundEngine) -> AsyncIterator[None]:
    """Let one job at a time fill the cache; a folder that the job itself names is its own affair."""
    folder = space.context.environ.get(CACHE_VARIABLE, "")
    if not folder or space.env.get(CACHE_VARIABLE) != folder or locks_itself(engine):
        yield
        return
    async with alone_in(Path(folder), space.say):
        yield


def locks_itself(engine: FoundEngine) -> bool:
    """Whether the engine may fill a cache while another does: OpenTofu since 1.10, Terraform in no version."""
    return engine.name is EngineName.TOFU and Version(engine.version) >= Version("1.10.0")


@asynccontextmanager
async def alone_in(folder: Path, say: Callable[[str], None]) -> AsyncIterator[None]:
    """Hold a folder's lock, which other runners of this machine respect, too; the kernel frees it with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    # The folder itself: jobs may write in it, and could put a link in the place of a file.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        is_said = False
        while not _take(descriptor):
            if not is_said:
                say("Waiting for another job that fills the provider cache.")
                is_said = True
            await asyncio.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
