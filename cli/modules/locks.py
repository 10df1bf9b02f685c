"""A state's lock in words: what is known about it, and whether it is safe to break."""

from collections.abc import Mapping
from typing import Any


def evidence(found: Mapping[str, Any]) -> str:
    """Print the verdict first, then each line that led to it."""
    if not found["is_locked"]:
        return "Not locked."
    lines = [f"  {each['weighs']}: {each['text']}" for each in found["evidence"]]
    return "\n".join([f"Breaking the lock {found['lock_id']} is {found['verdict']}.", *lines])
