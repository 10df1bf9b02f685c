"""Every part's output: prefixed on the terminal, whole in a file of its own."""

import os
import re
import sys
import time
from pathlib import Path
from typing import TextIO

COLOURS = {"postgres": 34, "gateway": 36, "functions": 33, "dashboard": 35}
OTHER_COLOUR = 32
LARGEST_LOG = 20 * 1024 * 1024
LONGEST_LINE = 2000
HIDDEN = {
    # Every refused statement is an ERROR to PostgreSQL; on the terminal only what stops the server counts.
    "postgres": re.compile(r"^(?!.*\b(FATAL|PANIC)\b)|.*database system is (starting up|shutting down)"),
    # Runners tell their whole day; the dashboard shows it better.
    "runner": re.compile(r'.*"level": "(debug|info)"'),
}


def open_log(path: Path) -> TextIO:
    """A file that its owner alone reads: what a part prints is nobody else's."""
    return open(path, "a", opener=lambda name, flags: os.open(name, flags, 0o600))


class Journal:
    """Writes lines to the terminal and to `.runyard/logs/`."""

    def __init__(self, folder: Path, terminal: TextIO = sys.stdout, width: int = 10) -> None:
        self.folder = folder
        self.terminal = terminal
        self.width = width
        self.is_coloured = terminal.isatty()
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)

    def path(self, part: str) -> Path:
        """The part's log file."""
        return self.folder / f"{part}.log"

    def line(self, part: str, text: str) -> None:
        """One line of a part's own output."""
        self._keep(part, text)
        hidden = HIDDEN.get(part.partition(" ")[0])
        if hidden is None or not hidden.match(text):
            self._show(part, text)

    def note(self, part: str, text: str) -> None:
        """Something the supervisor says about a part."""
        self._keep(part, f"-- {text}")
        self._show(part, text)

    def say(self, text: str = "") -> None:
        """Something for the person at the terminal, without a prefix."""
        self._write(text)

    def tail(self, part: str, lines: int = 15) -> str:
        """The last lines of a part's log, for an error message."""
        try:
            return "\n".join(self.path(part).read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    def _show(self, part: str, text: str) -> None:
        prefix = f"{part:<{self.width}} | "
        if self.is_coloured:
            prefix = f"\x1b[{COLOURS.get(part, OTHER_COLOUR)}m{prefix}\x1b[0m"
        self._write(prefix + text[:LONGEST_LINE])

    def _write(self, text: str) -> None:
        try:
            self.terminal.write(text + "\n")
            self.terminal.flush()
        except OSError:
            pass  # the terminal went away; the files still have everything

    def _keep(self, part: str, text: str) -> None:
        path = self.path(part)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        try:
            if path.exists() and path.stat().st_size > LARGEST_LOG:
                path.replace(path.with_suffix(".log.1"))
            with open_log(path) as file:
                file.write(f"{stamp} {text}\n")
        except OSError:
            pass  # a full disk; the terminal still shows it, and the parts continue
