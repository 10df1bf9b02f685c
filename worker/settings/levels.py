"""Log levels by category, with the seeds' names and their longest-prefix rule."""

import logging
from collections.abc import Mapping

from worker.settings.base import Word


class LogLevelName(Word):
    """The level names that `Logging.LogLevel` accepts."""

    TRACE = "Trace"
    DEBUG = "Debug"
    INFORMATION = "Information"
    WARNING = "Warning"
    ERROR = "Error"
    CRITICAL = "Critical"
    NONE = "None"


TRACE_LEVEL = 5
SILENT_LEVEL = logging.CRITICAL + 10

NUMBERS: Mapping[LogLevelName, int] = {
    LogLevelName.TRACE: TRACE_LEVEL,
    LogLevelName.DEBUG: logging.DEBUG,
    LogLevelName.INFORMATION: logging.INFO,
    LogLevelName.WARNING: logging.WARNING,
    LogLevelName.ERROR: logging.ERROR,
    LogLevelName.CRITICAL: logging.CRITICAL,
    LogLevelName.NONE: SILENT_LEVEL,
}


def level_for(levels: Mapping[str, LogLevelName], category: str) -> int:
    """Return the numeric level of a category: its longest matching prefix, else `Default`."""
    best, length = LogLevelName.INFORMATION, -1
    for key, name in levels.items():
        size = 0 if key.lower() == "default" else len(key)
        if (size == 0 or _matches(key.lower(), category.lower())) and size >= length:
            best, length = name, size
    return NUMBERS[best]


def _matches(prefix: str, category: str) -> bool:
    """Match as .NET does: by the beginning, whatever comes next; one `*` matches anything."""
    first, star, rest = prefix.partition("*")
    return category.startswith(first) and (not star or category[len(first) :].endswith(rest))
