"""Spans of time as people write them (`1h30m`), and time limits of jobs (`plan=1h, apply=4h`)."""

import re
from collections.abc import Mapping

_SPAN = re.compile(r"(?=.)(?:(\d{1,3})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,7})s?)?")
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
# What a limit is for, and the most that it may be.
_MOST = {"plan": 7 * 86400, "apply": 7 * 86400, "hook": 600}


def span(seconds: float) -> str:
    """Write a span: 1h30m."""
    rest, parts = round(seconds), []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def read_time_limits(text: str) -> dict[str, int]:
    """Read limits; what is not named is inherited. A mistake raises a ValueError with the remedy."""
    limits = {}
    for part in filter(None, re.split(r"[,\s]+", text.strip())):
        name, _, value = part.partition("=")
        found = _SPAN.fullmatch(value)
        seconds = (
            sum(int(n or 0) * size for n, size in zip(found.groups(), _UNITS.values(), strict=True)) if found else 0
        )
        if not 1 <= seconds <= _MOST.get(name, 0):
            raise ValueError(
                f'"{part}" is not a time limit. Write plan=1h, apply=4h (at most 7d) and hook=60s (at most 10m).'
            )
        limits[name] = seconds
    return limits


def write_time_limits(limits: Mapping[str, float]) -> str:
    """Write limits as they are read."""
    return ", ".join(f"{name}={span(limits[name])}" for name in _MOST if name in limits)
