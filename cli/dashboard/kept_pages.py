"""Built pages, kept by what they were built from: another clone, port or test run takes one instead of building it."""

import fcntl
import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from wire import ports

# The one file of a build that names the address the page connects to.
ADDRESS_FILES = "assets/reflex-env-*.js"
# Every page is built for this one, and then moved: the address changes no file's name.
BUILT_ADDRESS = f"http://localhost:{ports.DASHBOARD}"
KEPT = 3


def provide_page(
    shelf: Path, fingerprint: Callable[[], str], client: Path, address: str, build: Callable[[], None]
) -> None:
    """Have the page of these sources in `client`, for an address; builds it when nobody has."""
    with _alone(shelf):
        kept = shelf / fingerprint()
        if kept.exists():
            os.utime(kept)
            shutil.rmtree(client, ignore_errors=True)
            shutil.copytree(kept, client)
        else:
            build()
            # Of sources that were changed meanwhile nobody knows which went into the page.
            if fingerprint() == kept.name:
                _keep(kept, client)
    _move(client, address)


def _keep(kept: Path, client: Path) -> None:
    """Put a copy on the shelf, complete or not at all, and remove the oldest."""
    part = kept.with_name(f"{uuid4().hex}.part")
    shutil.copytree(client, part)
    part.rename(kept)
    pages = sorted((path for path in kept.parent.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for old in pages[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def _move(client: Path, address: str) -> None:
    """Make the page connect to another address: `http://localhost:3000` and, for its socket, `ws://localhost:3000`."""
    for file in client.glob(ADDRESS_FILES):
        text = file.read_text()
        for old, new in ((BUILT_ADDRESS, address), (_socket(BUILT_ADDRESS), _socket(address))):
            text = text.replace(f"{old}/", f"{new}/")
        file.write_text(text)
        packed = file.with_name(f"{file.name}.gz")
        if packed.exists():
            packed.write_bytes(gzip.compress(text.encode(), mtime=0))


def _socket(address: str) -> str:
    return address.replace("http", "ws", 1)


@contextmanager
def _alone(shelf: Path) -> Iterator[None]:
    """Build once when several start together: the others wait and take what the first one built."""
    shelf.mkdir(parents=True, exist_ok=True)
    with (shelf / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
