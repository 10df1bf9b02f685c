"""The progress of an engine: a small file beside the binary-to-be, for pages and runners to read."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from cli.engines.cache import binary_folder
from cli.engines.catalog import Engine

PROGRESS_FILE = "progress.json"


@dataclass(frozen=True)
class Progress:
    """One step forward, in percent and in words."""

    engine: str
    version: str
    percent: int
    words: str
    is_done: bool = False
    error: str | None = None
    updated_at: float = 0.0

    @property
    def note(self) -> str:
        """Format it as the fleet page does."""
        if self.error:
            return f"{self.engine} could not be prepared: {self.error}"
        return f"{self.engine} is being prepared, {self.percent} %"


Report = Callable[[Progress], None]


def progress_path(engine: Engine) -> Path:
    """Return where the engine's progress is written."""
    return binary_folder(engine) / PROGRESS_FILE


def read_progress(engine: Engine) -> Progress | None:
    """Return the last progress, if there is any."""
    try:
        return Progress(**json.loads(progress_path(engine).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


class Reporter:
    """Writes each new percent to the file and hands it to anyone who watches."""

    def __init__(self, engine: Engine, watch: Report | None = None) -> None:
        self.engine = engine
        self.watch = watch
        self.last: tuple[int, str] | None = None

    def say(self, percent: float, words: str, *, is_done: bool = False, error: str | None = None) -> None:
        """Report, unless percent and first word are as before."""
        mark = (int(percent), words.split(" ", 1)[0])
        if mark == self.last and not is_done and error is None:
            return
        self.last = mark
        progress = Progress(
            self.engine.name, self.engine.version, int(percent), words, is_done, error, round(time.time(), 1)
        )
        self._write(progress)
        if self.watch:
            self.watch(progress)

    def _write(self, progress: Progress) -> None:
        path = progress_path(self.engine)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{PROGRESS_FILE}.{os.getpid()}")
        part.write_text(json.dumps(asdict(progress)), encoding="utf-8")
        part.rename(path)
