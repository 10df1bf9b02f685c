"""The runner's own diagnostic log on stdout, by category; a job's log never goes there."""

import logging
import sys
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TextIO

import structlog
from structlog.typing import FilteringBoundLogger, WrappedLogger

from worker.settings.levels import LogLevelName, level_for

# Libraries that log what our supervisors already handle and log in our words.
_NOISY = ("realtime", "httpx", "httpcore", "websockets", "asyncio", "stamina")


class CategoryFilter:
    """Drops what is below the level of its category: the longest prefix wins."""

    def __init__(self, levels: Mapping[str, LogLevelName]) -> None:
        self._levels = dict(levels)

    def __call__(self, logger: WrappedLogger, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Pass the event on or drop it."""
        category = str(event.get("category", "worker"))
        if getattr(logging, method.upper(), logging.INFO) < level_for(self._levels, category):
            raise structlog.DropEvent
        return event


class SecretMask:
    """Masks secrets in what operators read, too."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact

    def __call__(self, logger: WrappedLogger, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Redact every text value."""
        for key, value in event.items():
            if isinstance(value, str):
                event[key] = self._redact(value)
        return event


class RecentLog:
    """Keeps the newest warnings and errors, for the runner's page: its operator may have no access to the machine."""

    LINES = 20
    LENGTH = 400
    _METHODS = frozenset({"warning", "error", "critical", "exception"})
    _APART = frozenset({"event", "level", "timestamp", "category", "id", "exception"})

    def __init__(self) -> None:
        self._lines: deque[dict[str, str]] = deque(maxlen=self.LINES)

    def __call__(self, logger: WrappedLogger, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Keep the event if it is a problem, and pass it on."""
        if method in self._METHODS:
            more = ", ".join(f"{key}: {value}" for key, value in event.items() if key not in self._APART)
            text = f"{event.get('event', '')}{f' ({more})' if more else ''}"[: self.LENGTH]
            self._lines.append({"at": str(event.get("timestamp")), "level": str(event.get("level")), "text": text})
        return event

    def lines(self) -> list[dict[str, str]]:
        """Return the lines, the oldest first."""
        return list(self._lines)


class _Forward(logging.Handler):
    """Hands a library's records to the same stream."""

    def emit(self, record: logging.LogRecord) -> None:
        method = record.levelname.lower()
        logger = get_logger(record.name)
        getattr(logger, method if hasattr(logger, method) else "info")(record.getMessage())


def configure_logging(
    levels: Mapping[str, LogLevelName], style: str, redact: Callable[[str], str], stream: TextIO | None = None
) -> RecentLog:
    """Set up the process's log once, at its start; the answer keeps its newest problems."""
    out, recent = stream or sys.stdout, RecentLog()
    is_pretty = style == "pretty" or (style == "auto" and out.isatty())
    # Tracebacks are plain on a terminal, too: the coloured ones print local variables, and with them tokens.
    pretty = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer: Any = pretty if is_pretty else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            CategoryFilter(levels),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            SecretMask(redact),
            recent,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    _quieten_libraries(levels)
    return recent


def get_logger(category: str) -> FilteringBoundLogger:
    """Return the logger of one part of the runner."""
    logger: FilteringBoundLogger = structlog.get_logger(category=category)
    return logger


def _quieten_libraries(levels: Mapping[str, LogLevelName]) -> None:
    """Let libraries log warnings, the noisy ones nothing; one that LogLevel names logs at that level."""
    logging.basicConfig(handlers=[_Forward()], level=logging.WARNING, force=True)
    named = {key.lower() for key in levels} - {"default"}
    for name in {*_NOISY, *named}:
        logging.getLogger(name).setLevel(level_for(levels, name) if name in named else logging.CRITICAL)
