"""A job's log on disk: written at once, cut into numbered chunks, readable again until it is acknowledged.

`log.txt` has the redacted text as it came; `chunks.jsonl` has the start and end of each chunk. Text after the last
chunk after a crash is still on disk and becomes the last chunk.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

LARGEST_CHUNK = 60_000

TEXT_FILE = "log.txt"
INDEX_FILE = "chunks.jsonl"
# A full disk must not stop an apply: this much text is then kept in memory instead.
MEMORY_BYTES = 1024 * 1024
_CUT_AT_BYTES = 48 * 1024
# A log of so many chunks is a flood: from here on only their size is limited, so that it costs the project no more than it must.
MANY_CHUNKS = 10_000


@dataclass(frozen=True)
class Chunk:
    """One numbered piece of the log."""

    seq: int
    step: str
    body: str


@dataclass(frozen=True)
class _Place:
    step: str
    start: int
    end: int
    memory: bytes | None = None


class Spool:
    """Keeps what was logged until the server has it; safe to use from several threads."""

    def __init__(self, directory: Path, most_lines: int | None = None) -> None:
        """Open a spool, finding again whatever an earlier process left in it; a chunk has at most so many lines."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._lock = Lock()
        self._most_lines = most_lines
        self._text = os.open(directory / TEXT_FILE, flags, 0o600)
        self._index = os.open(directory / INDEX_FILE, flags | os.O_APPEND, 0o600)
        self._places: list[_Place] = []
        self._pending: list[bytes] = []
        self._pending_step = "prepare"
        self._end = 0
        self._hash = hashlib.sha256()
        self._bytes = 0
        self._memory_left = MEMORY_BYTES
        self.is_disk_full = False
        self.lost_bytes = 0
        self._find_again()

    @property
    def last_seq(self) -> int:
        """The number of the newest chunk, 0 when there is none."""
        return len(self._places)

    def append(self, step: str, text: str) -> None:
        """Write text at once; a change of step, or enough text, cuts a chunk."""
        data = text.encode()
        with self._lock:
            if step != self._pending_step:
                self._cut()
                self._pending_step = step
            if self._keep(data):
                self._pending.append(data)
            if sum(map(len, self._pending)) >= _CUT_AT_BYTES:
                self._cut(is_line_wanted=True)

    def cut(self) -> None:
        """Make chunks of everything that waits."""
        with self._lock:
            self._cut()

    def read(self, first: int, last: int) -> Iterator[Chunk]:
        """Read chunks again by number, both ends included."""
        for seq in range(max(first, 1), min(last, self.last_seq) + 1):
            place = self._places[seq - 1]
            yield Chunk(seq, place.step, self._body(place).decode(errors="replace"))

    def summary(self) -> dict[str, Any]:
        """Return what the server checks at the end: last number, bytes and SHA-256."""
        return {"last_seq": self.last_seq, "bytes": self._bytes, "sha256": self._hash.hexdigest()}

    def sync(self) -> None:
        """Wait until everything that was written is on disk: a power cut does not lose it then."""
        os.fdatasync(self._text)
        os.fdatasync(self._index)

    def close(self) -> None:
        """Close the files; they stay on disk until their directory is removed."""
        os.close(self._text)
        os.close(self._index)

    def _keep(self, data: bytes) -> bool:
        if not self.is_disk_full:
            try:
                _write_at(self._text, data, self._end)
            except OSError:
                self.is_disk_full = True
                # Text that is not on disk stays in memory from here on, chunk by chunk.
                self._cut()
            else:
                self._end += len(data)
                return True
        if len(data) > self._memory_left:
            self.lost_bytes += len(data)
            return False
        self._memory_left -= len(data)
        return True

    def _cut(self, *, is_line_wanted: bool = False) -> None:
        data = b"".join(self._pending)
        start = self._end - len(data)
        most_lines = self._most_lines if self.last_seq < MANY_CHUNKS else None
        pieces, rest = cut_text(data, is_rest_wanted=is_line_wanted, most_lines=most_lines)
        for piece in pieces:
            place = _Place(self._pending_step, start, start + len(piece), piece if self.is_disk_full else None)
            self._register(place, piece)
            start += len(piece)
        self._pending = [rest] if rest else []

    def _register(self, place: _Place, piece: bytes) -> None:
        self._places.append(place)
        self._hash.update(piece)
        self._bytes += len(piece)
        if not self.is_disk_full:
            line = json.dumps({"step": place.step, "start": place.start, "end": place.end}) + "\n"
            try:
                os.write(self._index, line.encode())
            except OSError:
                self.is_disk_full = True

    def _body(self, place: _Place) -> bytes:
        if place.memory is not None:
            return place.memory
        return os.pread(self._text, place.end - place.start, place.start)

    def _find_again(self) -> None:
        size = os.fstat(self._text).st_size
        for place in _read_index(self._index):
            if place.start != self._end or place.end > size:
                break
            self._places.append(place)
            body = self._body(place)
            self._hash.update(body)
            self._bytes += len(body)
            self._end = place.end
            self._pending_step = place.step
        # A crash may have torn the last character in two.
        if rest := os.pread(self._text, size - self._end, self._end).decode(errors="ignore").encode():
            self._end += len(rest)
            self._pending = [rest]


def _write_at(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    try:
        while view:
            written = os.pwrite(file, view, offset)
            view = view[written:]
            offset += written
    except OSError:
        os.ftruncate(file, offset - (len(data) - len(view)))
        raise


def _read_index(file: int) -> Iterator[_Place]:
    size = os.fstat(file).st_size
    for line in os.pread(file, size, 0).splitlines():
        try:
            entry = json.loads(line)
            yield _Place(entry["step"], entry["start"], entry["end"])
        except (ValueError, KeyError, TypeError):
            return


def cut_text(
    data: bytes, *, is_rest_wanted: bool = False, largest: int = LARGEST_CHUNK, most_lines: int | None = None
) -> tuple[list[bytes], bytes]:
    """Cut bytes of UTF-8 into chunks; the rest after the last line end is given back when wanted."""
    pieces: list[bytes] = []
    start = 0
    while (end := min(_size_end(data, start, largest), _line_end(data, start, most_lines))) < len(data):
        pieces.append(data[start:end])
        start = end
    data = data[start:]
    if is_rest_wanted:
        end = data.rfind(b"\n") + 1
        return [*pieces, data[:end]] if end else pieces, data[end:]
    return [*pieces, data] if data else pieces, b""


def _size_end(data: bytes, start: int, largest: int) -> int:
    """Return where a chunk that begins at `start` must end to be no larger than that."""
    if len(data) - start <= largest:
        return len(data)
    return data.rfind(b"\n", start, start + largest) + 1 or _character_end(data, start + largest, start + 1)


def _line_end(data: bytes, start: int, most_lines: int | None) -> int:
    """Return where a chunk that begins at `start` must end to have no more lines than that."""
    if most_lines is None or data.count(b"\n", start) < most_lines:
        return len(data)
    end = start
    for _ in range(most_lines):
        end = data.find(b"\n", end) + 1
    return end


def _character_end(data: bytes, position: int, least: int) -> int:
    # 0b10xxxxxx continues a character; step back to the byte that begins it.
    while position > least and data[position] & 0xC0 == 0x80:
        position -= 1
    return position
