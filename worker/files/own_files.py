"""Files of a job, read and written by the runner: a link that the job has put there leads nowhere; and content for one child alone."""

import ctypes
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KEEP_SIZE = 1
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_own(root: Path, path: Path, *, offset: int = 0) -> bytes | None:
    """Return a plain file's content from an offset on; nothing where there is none, or a link on the way to it."""
    try:
        with os.fdopen(_open(root, path, _READ), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            file.seek(offset)
            return file.read()
    except OSError:
        return None


def write_own(root: Path, path: Path, content: bytes) -> None:
    """Write a new file, in place of whatever has its name."""
    folder = _enter(root, path.parent)
    try:
        with suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=folder)
        with os.fdopen(os.open(path.name, _CREATE, 0o600, dir_fd=folder), "wb") as file:
            file.write(content)
    finally:
        os.close(folder)


def reserve_own(root: Path, path: Path, size: int) -> None:
    """Make an empty file that has room on the disk already, for a program that writes it when the disk may be full."""
    if not sys.platform.startswith("linux"):
        return
    folder = _enter(root, path.parent)
    try:
        file = os.open(path.name, _CREATE, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        # Python's own call would make the file longer, and its reader would find something in it.
        if ctypes.CDLL(None, use_errno=True).fallocate(file, _KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(size)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(file)


def replace_own(root: Path, path: Path, content: bytes) -> None:
    """Write a file that the job may be reading: it sees the old content or the new one, and its user can read both."""
    folder = _enter(root, path.parent)
    draft = f".{secrets.token_hex(8)}"
    try:
        with os.fdopen(os.open(draft, _CREATE, 0o600, dir_fd=folder), "wb") as file:
            owner = os.fstat(folder)
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            file.write(content)
        os.replace(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise
    finally:
        os.close(folder)


def remove_own(root: Path, path: Path) -> None:
    """Remove a file of the job's own, if it is still there."""
    with suppress(FileNotFoundError, NotADirectoryError):
        folder = _enter(root, path.parent)
        try:
            os.unlink(path.name, dir_fd=folder)
        finally:
            os.close(folder)


def _open(root: Path, path: Path, flags: int) -> int:
    folder = _enter(root, path.parent)
    try:
        return os.open(path.name, flags, dir_fd=folder)
    finally:
        os.close(folder)


def _enter(root: Path, folder: Path) -> int:
    """Go down from the job's own folder, one real folder after the other."""
    real = root.resolve()
    current = os.open(real, _FOLDER)
    for name in folder.relative_to(real if folder.is_relative_to(real) else root).parts:
        try:
            following = os.open(name, _FOLDER, dir_fd=current)
        finally:
            os.close(current)
        current = following
    return current


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
