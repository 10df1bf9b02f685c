"""Bringing a release's file beside the program that it will replace: bounded, checked, on disk, or not there at all."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from worker.download import download
from worker.errors import JobFailed, Retryable
from worker.program import Program
from worker.update.release import BY_HAND, Wanted

MOST_BYTES = 512 * 1024 * 1024


async def fetch_beside(
    program: Program, wanted: Wanted, check: Callable[[str], None], say: Callable[[str], None]
) -> Path:
    """Fetch into a new file in the program's own folder, so that taking its place is one rename."""
    # Several runners of one machine may share the file: each fetches for itself.
    new = program.path.with_name(f".{program.path.name}.{wanted.version}.{os.getpid()}.new")
    say(f"Fetching {wanted.url}")
    try:
        new.unlink(missing_ok=True)
        digest = await download(wanted.url, new, say=say, check=check, most_bytes=MOST_BYTES)
        _check_digest(digest, wanted)
        _settle(program, new)
    except BaseException as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _cannot_write(program, error) from error
        if isinstance(error, Retryable):
            raise JobFailed(error.message, code="update_fetch", hint="Try again, or look at the address.") from error
        raise
    say(f"Its SHA-256 is {digest}, as published.")
    return new


def _check_digest(digest: str, wanted: Wanted) -> None:
    if digest != wanted.sha256:
        raise JobFailed(
            f"The file has SHA-256 {digest}; published was {wanted.sha256}.",
            code="update_checksum",
            hint="It was changed or cut short on the way. Nothing was replaced; find out which before you try again.",
        )


def _settle(program: Program, new: Path) -> None:
    """Give it the old file's rights, and put it on disk before anybody relies on it."""
    shutil.copymode(program.path, new)
    with new.open("rb") as file:
        os.fsync(file.fileno())


def _cannot_write(program: Program, error: OSError) -> JobFailed:
    return JobFailed(
        f"{program.path.parent} cannot be written: {error.strerror}.",
        code="update_folder",
        hint=f"Keep the program in a folder that the runner's user may write to. {BY_HAND}",
    )
