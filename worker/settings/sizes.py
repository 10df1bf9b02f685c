"""Amounts of memory, as people write them."""

import re

UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
PATTERN = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b|i)?\s*$", re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Return the bytes of `42 MB`, `512Mi` or `1073741824`; Docker counts in powers of 1024, so do we."""
    found = PATTERN.match(text)
    if found is None:
        raise ValueError(f"{text!r} is not an amount of memory such as 512 MB")
    return int(float(found[1]) * UNITS[found[2].lower()])
