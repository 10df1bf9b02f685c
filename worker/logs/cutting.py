"""Where a chunk may end: after a line if there is one, never inside a character."""

LARGEST_CHUNK = 60_000


def cut_text(data: bytes, *, is_rest_wanted: bool = False, largest: int = LARGEST_CHUNK) -> tuple[list[bytes], bytes]:
    """Cut bytes of UTF-8 into chunks; the rest after the last line end is given back when wanted."""
    pieces: list[bytes] = []
    while len(data) > largest:
        end = data.rfind(b"\n", 0, largest) + 1 or _character_end(data, largest)
        pieces.append(data[:end])
        data = data[end:]
    if is_rest_wanted:
        end = data.rfind(b"\n") + 1
        return [*pieces, data[:end]] if end else pieces, data[end:]
    return [*pieces, data] if data else pieces, b""


def _character_end(data: bytes, position: int) -> int:
    # 0b10xxxxxx continues a character; step back to the byte that begins it.
    while position > 1 and data[position] & 0xC0 == 0x80:
        position -= 1
    return position
