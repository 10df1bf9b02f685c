"""The places where a chunk may end: after a line if there is one, never inside a character."""

LARGEST_CHUNK = 60_000


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
