"""The files of the state folder's supervisor, for other terminals to read: a lock, a process id and the status of the parts."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stack.errors import Taken
from stack.settings import Settings, command


class RunFiles:
    """The files in `.runyard/run/`."""

    def __init__(self, settings: Settings) -> None:
        self.folder = settings.run_folder
        self.lock_file = self.folder / "supervisor.lock"
        self.state_file = self.folder / "state.json"
        self.ready_file = self.folder / "ready"

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Be the one supervisor of this folder; the lock ends with the process, in whatever way that ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.lock_file.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._taken() from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self._clear()
            try:
                yield
            finally:
                self._clear()
                file.truncate(0)

    def holder(self) -> int | None:
        """The running supervisor's process id."""
        try:
            with self.lock_file.open("r") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(file.read() or 0) or None
        except (OSError, ValueError):
            return None
        return None

    def write_state(self, state: dict[str, Any]) -> None:
        """Publish the parts' state whole, never half."""
        _replace(self.state_file, json.dumps(state))

    def read_state(self) -> dict[str, Any]:
        """The parts' state as last published."""
        try:
            state: dict[str, Any] = json.loads(self.state_file.read_text())
        except (OSError, ValueError):
            return {}
        return state

    def running_settings(self) -> Settings | None:
        """The settings that the running supervisor was started with; nothing while none runs."""
        recorded = self.read_state().get("settings") if self.holder() is not None else None
        return None if recorded is None else Settings(**recorded)

    def mark_ready(self) -> None:
        """Record that every part has been healthy once."""
        _replace(self.ready_file, "ready\n")

    def _taken(self) -> Taken:
        pid = self.holder()
        message = f"This stack already runs (process {pid}, folder {self.folder.parent})."
        return Taken(
            message,
            f"`{command('status')}` shows it, `{command('down')}` stops it. "
            "For a second one set RUNYARD_HOME and RUNYARD_PORT_OFFSET.",
        )

    def _clear(self) -> None:
        self.state_file.unlink(missing_ok=True)
        self.ready_file.unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(path)
