"""The cache of engines: outside the clone, by version and platform, safe against two at once."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.engines.catalog import Engine
from cli.folders import cache_folder as shared_cache

CACHE_VARIABLE = "RUNYARD_ENGINE_CACHE"


def cache_folder() -> Path:
    """Return the user's cache folder for engines."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser()
    return shared_cache() / "engines"


def binary_folder(engine: Engine) -> Path:
    """Return the folder that holds, or will hold, an engine's binary and its progress."""
    return cache_folder() / engine.key


def cached(engine: Engine) -> Path | None:
    """Return the cached binary, if it exists and can be run."""
    path = binary_folder(engine) / engine.name
    return path if os.access(path, os.X_OK) else None


def find(engine: Engine) -> Path | None:
    """Return the engine on PATH, else in the cache."""
    found = shutil.which(engine.name)
    return Path(found) if found else cached(engine)


def install(engine: Engine, made: Path) -> Path:
    """Move a finished binary into the cache in one step, so that nobody sees half of it."""
    folder = binary_folder(engine)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{engine.name}.{os.getpid()}"
    shutil.copyfile(made, part)
    part.chmod(0o755)
    # Runners use the binary only while it is this one.
    (folder / f"{engine.name}.sha256").unlink(missing_ok=True)
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    placed = part.rename(folder / engine.name)
    placed.with_name(f"{engine.name}.sha256").write_text(f"{digest}\n", encoding="ascii")
    return placed


@contextmanager
def locked(engine: Engine) -> Iterator[None]:
    """Hold the engine's lock; the kernel frees it with the process, however that ends."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / f"{engine.key}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_locked(engine: Engine) -> bool:
    """Return whether somebody is providing the engine at this moment."""
    path = cache_folder() / f"{engine.key}.lock"
    if not path.exists():
        return False
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
