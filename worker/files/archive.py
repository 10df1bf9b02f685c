"""Unpacking a module's archive under the same rules as any other file of a job."""

import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from worker.errors import JobFailed
from worker.files.safe_writer import SafeWriter

MOST_BYTES = 512 * 1024 * 1024
MOST_FILES = 20_000
_PIECE = 256 * 1024


def unpack(archive: Path, destination: Path) -> int:
    """Unpack a tar (plain, gz, bz2, xz) or zip file and return the number of files."""
    with SafeWriter(destination, most_bytes=MOST_BYTES, most_files=MOST_FILES) as writer:
        if zipfile.is_zipfile(archive):
            return _unpack_zip(archive, writer)
        return _unpack_tar(archive, writer)


def _unpack_tar(archive: Path, writer: SafeWriter) -> int:
    count = 0
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                count += _write_member(tar, member, writer)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise _unreadable(error) from error
    return count


def _write_member(tar: tarfile.TarFile, member: tarfile.TarInfo, writer: SafeWriter) -> int:
    name = _clean(member.name)
    if member.isdir():
        if name:
            writer.make_directory(name)
        return 0
    file = tar.extractfile(member) if member.isreg() else None
    if file is None:
        raise _not_a_file(member.name)
    with file:
        writer.write(name, _pieces(file), mode=member.mode)
    return 1


def _unpack_zip(archive: Path, writer: SafeWriter) -> int:
    count = 0
    try:
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                count += _write_entry(zipped, entry, writer)
    except (zipfile.BadZipFile, EOFError, RuntimeError) as error:
        raise _unreadable(error) from error
    return count


def _write_entry(zipped: zipfile.ZipFile, entry: zipfile.ZipInfo, writer: SafeWriter) -> int:
    mode = entry.external_attr >> 16
    name = _clean(entry.filename)
    if entry.is_dir():
        if name:
            writer.make_directory(name)
        return 0
    if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        raise _not_a_file(entry.filename)
    with zipped.open(entry) as file:
        writer.write(name, _pieces(file), mode=mode or 0o644)
    return 1


def _clean(name: str) -> str:
    # "./" in front is how tar writes the archive of a directory; nothing else is forgiven.
    return name.removeprefix("./").rstrip("/") if name not in {".", "./"} else ""


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _not_a_file(name: str) -> JobFailed:
    return JobFailed(
        f"The archive holds {name[:200]!r}, which is neither a file nor a directory.",
        code="unsafe_archive",
        hint="Links and devices are refused; pack the files themselves.",
    )


def _unreadable(error: Exception) -> JobFailed:
    return JobFailed(
        f"The archive cannot be read: {error}.",
        code="bad_archive",
        hint="A .tar, .tar.gz, .tar.bz2, .tar.xz or .zip file is expected.",
    )
