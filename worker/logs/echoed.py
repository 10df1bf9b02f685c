"""A value as a shell shows it that interprets backslashes: `echo` of dash, `echo -e` and `printf %b` of bash."""

import re

from worker.logs.decoder import OutputDecoder

_SIGNS = dict(zip(b"abeEfnrtv\\", b"\a\b\x1b\x1b\f\n\r\t\v\\", strict=True))
# `\c` ends the output.
_SHELLS = (
    re.compile(rb"(?s)\\(?:(c).*|0([0-7]{0,3})|([abfnrtv\\]))"),
    # Newer dash.
    re.compile(rb"(?s)\\(?:(c).*|0([0-7]{0,3})|([abefnrtv\\]))"),
    re.compile(rb"(?s)\\(?:(c).*|0?([0-7]{1,3})|([abeEfnrtv\\])|x([0-9A-Fa-f]{1,2}))"),
)


def echoed(value: str) -> set[str]:
    """Return what the shells print instead of the value."""
    if "\\" not in value:
        return set()
    data = value.encode(errors="surrogateescape")
    return {OutputDecoder().feed(shell.sub(_shown, data), is_last=True) for shell in _SHELLS}


def _shown(match: re.Match[bytes]) -> bytes:
    end, octal, sign, *hexadecimal = match.groups()
    if end:
        return b""
    if sign:
        return bytes([_SIGNS[sign[0]]])
    code = int(octal or b"0", 8) if octal is not None else int(hexadecimal[0], 16)
    return bytes([code & 0xFF])
