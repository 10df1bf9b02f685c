"""Bytes of a child as text that the database can store, and the texts in a value, however deep."""

import codecs
from collections.abc import Callable, Iterator
from typing import Any


class OutputDecoder:
    """Decodes UTF-8 piece by piece; what is not text becomes a visible mark."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes, *, is_last: bool = False) -> str:
        """Decode the next piece; a character cut in two waits for its other half."""
        # PostgreSQL's text has no NUL.
        return self._decoder.decode(data, is_last).replace("\0", "\ufffd")


Mask = Callable[[str], str]


def texts_of(value: Any) -> Iterator[str]:
    """Yield every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner)


def masked(value: Any, mask: Mask) -> Any:
    """Return a value of JSON with every text in it masked, names of members as well."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {mask(str(name)): masked(inner, mask) for name, inner in value.items()}
    return [masked(inner, mask) for inner in value] if isinstance(value, list) else value


def masked_lines(texts: list[str], mask: Mask) -> list[str]:
    """Mask texts without line breaks as the lines of one text: one by one they are masked thirty times slower."""
    lines = mask("\n".join(texts)).split("\n")
    # A secret of several lines has been found across texts.
    return lines if len(lines) == len(texts) else [mask(text) for text in texts]
