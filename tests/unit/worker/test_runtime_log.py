"""The runner's own log: by category, with secrets masked, as JSON or for people."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from worker.logs.redactor import Redactor
from worker.runtime_log import RecentLog, configure_logging, get_logger
from worker.settings.levels import LogLevelName


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers, root.level = handlers, level
    logging.getLogger("httpx").setLevel(logging.NOTSET)


def logged(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_the_longest_prefix_decides() -> None:
    stream = io.StringIO()
    levels = {"Default": LogLevelName.WARNING, "worker": LogLevelName.ERROR, "worker.session": LogLevelName.DEBUG}
    configure_logging({**levels, "worker.noise": LogLevelName.NONE}, "json", str, stream)
    for category in ("worker.session", "worker.jobs", "worker.noise", "other"):
        for level in ("debug", "warning", "critical"):
            getattr(get_logger(category), level)(level)
    said = [(each["category"], each["event"]) for each in logged(stream)]
    assert said == [
        ("worker.session", "debug"), ("worker.session", "warning"), ("worker.session", "critical"),
        ("worker.jobs", "critical"), ("other", "warning"), ("other", "critical"),
    ]  # fmt: skip


@pytest.mark.parametrize("style", ["json", "pretty"])
def test_tracebacks_show_neither_secrets_nor_local_variables(style: str) -> None:
    stream = io.StringIO()
    configure_logging({"Default": LogLevelName.INFORMATION}, style, Redactor(["ryw_the_token"]).redact, stream)
    local = "value-of-a-" + "variable"
    try:
        int("ryw_the_token")
    except ValueError:
        get_logger("worker").exception("a step failed")
    assert "ValueError: " in stream.getvalue()
    assert "ryw_the_token" not in stream.getvalue()
    assert local not in stream.getvalue()


def test_secrets_are_masked_in_messages_and_values() -> None:
    stream = io.StringIO()
    configure_logging({"Default": LogLevelName.INFORMATION}, "json", Redactor(["ryw_the_token"]).redact, stream)
    get_logger("worker").info("using ryw_the_token", url="https://bob:hunter22@host/", why="ryw_the_token was refused")
    assert "ryw_the_token" not in stream.getvalue()
    assert "hunter22" not in stream.getvalue()


def test_libraries_log_to_the_same_stream() -> None:
    stream = io.StringIO()
    configure_logging({"Default": LogLevelName.INFORMATION}, "json", str, stream)
    logging.getLogger("botocore").warning("slow down")
    logging.getLogger("realtime").error("handled by the supervisor")
    assert [(each["category"], each["event"], each["level"]) for each in logged(stream)] == [
        ("botocore", "slow down", "warning")
    ]


def test_a_named_library_logs_at_its_level() -> None:
    stream = io.StringIO()
    levels = {"Default": LogLevelName.DEBUG, "httpx": LogLevelName.INFORMATION}
    configure_logging(levels, "json", str, stream)
    for name in ("httpx", "httpcore", "botocore"):
        logging.getLogger(name).debug("debug")
        logging.getLogger(name).info("info")
    assert [(each["category"], each["event"]) for each in logged(stream)] == [("httpx", "info")]


def test_pretty_is_for_people() -> None:
    stream = io.StringIO()
    configure_logging({"Default": LogLevelName.INFORMATION}, "pretty", str, stream)
    get_logger("worker").info("session open", runner="one")
    assert "session open" in stream.getvalue()
    with pytest.raises(json.JSONDecodeError):
        logged(stream)


def test_the_newest_problems_are_kept_masked_and_short() -> None:
    recent = configure_logging(
        {"Default": LogLevelName.INFORMATION}, "json", Redactor(["ryw_the_token"]).redact, io.StringIO()
    )
    log = get_logger("worker")
    log.info("connected")
    log.warning("cut off from the server", id="cut_off", why="ryw_the_token was refused", failures=3)
    (line,) = recent.lines()
    assert (line["level"], line["text"]) == (
        "warning",
        "cut off from the server (why: *** was refused, failures: 3)",
    )
    for number in range(30):
        log.error("x" * 1000, number=number)
    assert len(recent.lines()) == RecentLog.LINES
    assert {len(line["text"]) for line in recent.lines()} == {RecentLog.LENGTH}
