"""Content for one child of a job that no other process can change, and that no other child sees."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def sealed(content: bytes, folder: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the path by which a child opens the content, and the descriptors that it must inherit for that."""
    if not sys.platform.startswith("linux"):
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(content)
            file.flush()
            yield file.name, ()
        return
    import fcntl

    memory = os.memfd_create("sealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(memory), "wb") as file:
            file.write(content)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
        yield f"/proc/self/fd/{memory}", (memory,)
    finally:
        os.close(memory)
