"""Unpacking a module's archive under the same rules as any other file of a job."""

import mmap
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

from worker.errors import JobFailed
from worker.files.safe_writer import SafeWriter

MOST_BYTES = 512 * 1024 * 1024
MOST_FILES = 20_000
_PIECE = 256 * 1024
# Each file of a tar has its header and at most two that extend it, which tarfile reads whole.
_MOST_HEADERS = 3 * MOST_FILES
_LONGEST_EXTENSION = 256 * 1024
_EXTENSIONS = frozenset((
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
))  # fmt: skip
# Others are decompressed in one go, whatever their size. Programs that make zip files use these two.
_PACKED = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
_ENTRY = b"PK\x01\x02"


def unpack(archive: Path, destination: Path) -> int:
    """Unpack a tar (plain, gz, bz2, xz) or zip file and return the number of files."""
    with SafeWriter(destination, most_bytes=MOST_BYTES, most_files=MOST_FILES) as writer, _blamed():
        if zipfile.is_zipfile(archive):
            return _unpack_zip(archive, writer)
        return _unpack_tar(archive, writer)


def _bounded_header() -> type[tarfile.TarInfo]:
    """Make the class of one archive's headers, which counts them: tarfile has no limits of its own."""

    class Header(tarfile.TarInfo):
        left = _MOST_HEADERS

        def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
            # Every Python calls this for each header that it read; some no longer call `frombuf`.
            Header.left -= 1
            if Header.left < 0:
                raise _too_many()
            if self.type in _EXTENSIONS and self.size > _LONGEST_EXTENSION:
                raise _unreadable(f"a header of {self.size:,} bytes")
            if self.type == tarfile.GNUTYPE_SPARSE:
                raise _not_a_file(self.name)
            return super()._proc_member(tar)  # type: ignore[misc, no-any-return]

        def _proc_gnusparse_10(self, following: tarfile.TarInfo, *_: object) -> NoReturn:
            # The map of its holes would be read whole.
            raise _not_a_file(following.name)

    return Header


def _unpack_tar(archive: Path, writer: SafeWriter) -> int:
    with tarfile.open(archive, "r:*", tarinfo=_bounded_header()) as tar:
        return sum(_write_member(tar, member, writer) for member in tar)


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
    _check_directory(archive)
    with zipfile.ZipFile(archive) as zipped:
        return sum(_write_entry(zipped, entry, writer) for entry in zipped.infolist())


def _check_directory(archive: Path) -> None:
    """Count the entries before zipfile makes an object of each; a file that contains other zip files may look longer."""
    with archive.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = -1
        for _ in range(4 * MOST_FILES):
            if (at := content.find(_ENTRY, at + 1)) < 0:
                return
    raise _too_many()


def _write_entry(zipped: zipfile.ZipFile, entry: zipfile.ZipInfo, writer: SafeWriter) -> int:
    mode = entry.external_attr >> 16
    name = _clean(entry.filename)
    if entry.is_dir():
        if name:
            writer.make_directory(name)
        return 0
    if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        raise _not_a_file(entry.filename)
    if entry.compress_type not in _PACKED:
        raise _unreadable("its files are neither deflated nor stored")
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


def _too_many() -> JobFailed:
    return JobFailed(
        "The archive has too many files.", code="too_many_files", hint=f"At most {MOST_FILES:,} are unpacked."
    )


@contextmanager
def _blamed() -> Iterator[None]:
    """Whatever a broken archive makes its reader raise is the archive's fault; a full disk is not."""
    try:
        yield
    except JobFailed:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _unreadable(str(error) or type(error).__name__) from error


def _unreadable(why: str) -> JobFailed:
    return JobFailed(
        f"The archive cannot be read: {why}.",
        code="bad_archive",
        hint="A .tar, .tar.gz, .tar.bz2, .tar.xz or .zip file is expected.",
    )
