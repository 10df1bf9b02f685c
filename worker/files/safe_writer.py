"""The relative paths that a job may name, and a writer that stays below one directory, whatever links it already contains."""

import errno
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from worker.errors import JobFailed

DEEPEST_PATH = 32
LONGEST_PATH = 1024
LONGEST_NAME = 255


def split_path(path: str) -> tuple[str, ...]:
    """Split a job's relative path into names, refusing everything that could lead elsewhere."""
    reason = _why_refused(path)
    if reason:
        raise JobFailed(
            f"The path {path[:200]!r} is refused: {reason}.",
            code="unsafe_path",
            hint="Use a relative path below the module's own directory.",
        )
    return tuple(path.split("/"))


def slug(name: str) -> str:
    """Spell any name as that of a folder; names that look alike after cleaning do not share one."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:40].strip(".") or "instance"
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _why_refused(path: str) -> str:
    names = path.split("/")
    checks = (
        (not path, "it is empty"),
        (any(ord(char) < 32 or ord(char) == 127 for char in path), "it has a control character"),
        ("\\" in path, "it has a backslash"),
        (path.startswith(("/", "~")), "it is absolute"),
        (any(name in {"", ".", ".."} for name in names), "it has an empty, '.' or '..' part"),
        (len(names) > DEEPEST_PATH, f"it is deeper than {DEEPEST_PATH}"),
        (len(path.encode(errors="replace")) > LONGEST_PATH, "it is too long"),
        (any(len(name.encode(errors="replace")) > LONGEST_NAME for name in names), "a name is too long"),
        (any("\ud800" <= char <= "\udfff" for char in path), "it is not valid text"),
    )
    return next((reason for is_bad, reason in checks if is_bad), "")


_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE_BITS = 0o755


class SafeWriter:
    """Creates new files below `root`, each parent opened without following links."""

    def __init__(self, root: Path, *, most_bytes: int, most_files: int) -> None:
        """Open the root; the limits count over the writer's whole life."""
        self._root = os.open(root, _DIRECTORY_FLAGS)
        self._bytes_left = most_bytes
        self._files_left = self._folders_left = most_files

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._root)

    def write(self, path: str, content: bytes | Iterable[bytes], *, mode: int = 0o600) -> int:
        """Create one new file and return its size; an existing name is refused."""
        names = split_path(path)
        self._count_file(path)
        with self._parent(names[:-1], path) as parent, self._created(parent, names[-1], path, mode) as file:
            pieces = [content] if isinstance(content, bytes) else content
            return sum(self._write_piece(file, piece, path) for piece in pieces)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; existing real directories are fine."""
        with self._parent(split_path(path), path):
            return

    def link(self, path: str, target: str) -> None:
        """Create a link; nothing here follows it, wherever it leads."""
        names = split_path(path)
        self._count_file(path)
        with self._parent(names[:-1], path) as parent, self._taken(path):
            os.symlink(target, names[-1], dir_fd=parent)

    def _count_file(self, path: str) -> None:
        self._files_left -= 1
        if self._files_left < 0:
            raise JobFailed(f"Too many files: {path!r} is one more than allowed.", code="too_many_files")

    def _write_piece(self, file: int, piece: bytes, path: str) -> int:
        self._bytes_left -= len(piece)
        if self._bytes_left < 0:
            raise JobFailed(f"Too much data: {path!r} exceeds the size limit.", code="too_large")
        view = memoryview(piece)
        while view:
            view = view[os.write(file, view) :]
        return len(piece)

    @contextmanager
    def _parent(self, names: tuple[str, ...], path: str) -> Iterator[int]:
        current = os.dup(self._root)
        try:
            for name in names:
                following = self._enter(current, name, path)
                os.close(current)
                current = following
            yield current
        finally:
            os.close(current)

    @contextmanager
    def _taken(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileExistsError as error:
            raise JobFailed(f"The file {path!r} already exists and is not overwritten.", code="file_exists") from error

    @contextmanager
    def _created(self, parent: int, name: str, path: str, mode: int) -> Iterator[int]:
        with self._taken(path):
            file = os.open(name, _CREATE_FLAGS, 0o600, dir_fd=parent)
        try:
            yield file
            os.fchmod(file, (mode & _MODE_BITS) | 0o600)
        finally:
            os.close(file)

    def _enter(self, parent: int, name: str, path: str) -> int:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
            self._folders_left -= 1
        if self._folders_left < 0:
            raise JobFailed(f"Too many folders: {path!r} is in one more than allowed.", code="too_many_files")
        try:
            return os.open(name, _DIRECTORY_FLAGS, dir_fd=parent)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                raise JobFailed(
                    f"The path {path!r} leads through {name!r}, which is a link or a file.",
                    code="unsafe_path",
                ) from error
            raise
