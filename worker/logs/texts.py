"""The texts in a value, however deep: what must be masked of a sensitive one."""

from collections.abc import Iterator
from typing import Any


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
