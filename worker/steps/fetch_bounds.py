"""The time and the room that a fetch from git may take: the owner of the repository decides about both otherwise."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from worker.errors import JobFailed
from worker.settings.model import GitSettings

# A file takes a block at least.
_BLOCK = 4096
_PAUSE_SECONDS = 1.0
_HINT = "Leave what is not code out of the repository, or raise the runner's setting {name}."


@asynccontextmanager
async def bounded(folder: Path, limits: GitSettings) -> AsyncIterator[None]:
    """End what runs in the block when it takes too long, or more room below the folder than a repository may."""
    most, seconds = limits.most_megabytes * 1024 * 1024, limits.timeout_seconds
    try:
        async with asyncio.timeout(seconds) as limit:
            watch = asyncio.create_task(_watch(folder, most, limit))
            try:
                yield
            finally:
                watch.cancel()
    except TimeoutError as error:
        if not limit.expired():
            raise
        if not await asyncio.to_thread(_is_larger, folder, most):
            words, name = f"The repository was not read within {seconds:g} s.", "Git.TimeoutSeconds"
            raise JobFailed(words, code="fetch_failed", hint=_HINT.format(name=name)) from error
    if await asyncio.to_thread(_is_larger, folder, most):
        words = f"The repository takes more than {limits.most_megabytes:,} MiB on the runner's disk."
        raise JobFailed(words, code="too_large", hint=_HINT.format(name="Git.MostMegabytes"))


async def _watch(folder: Path, most: int, limit: asyncio.Timeout) -> None:
    """Expire the timeout once the folder is too large; a slow look at many files waits the longer for the next."""
    pause = _PAUSE_SECONDS
    while True:
        await asyncio.sleep(pause)
        began = time.monotonic()
        if await asyncio.to_thread(_is_larger, folder, most):
            limit.reschedule(0)
            return
        pause = max(_PAUSE_SECONDS, 5 * (time.monotonic() - began))


def _is_larger(folder: Path, most: int) -> bool:
    size, folders = 0, [str(folder)]
    while folders and size <= most:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    size += max(_BLOCK, entry.stat(follow_symlinks=False).st_size)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            # Git removes its temporary files meanwhile.
            continue
    return size > most
