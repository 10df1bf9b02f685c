"""Processes that the stand-in APIs run in place of containers: real ones, with the container's environment."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path


class Box:
    """A process that a stand-in API started as if it were a container."""

    def __init__(self, bin_folder: Path, command: list[str], environment: Mapping[str, str]) -> None:
        """Start the command with nothing but its own environment and a PATH to the test's executables."""
        path = f"{bin_folder}{os.pathsep}{os.defpath}"
        self.environment = dict(environment)
        self.process = subprocess.Popen(
            [str(bin_folder / command[0]), *command[1:]], env={**environment, "PATH": path}, start_new_session=True
        )

    def signal(self, name: str) -> None:
        """Send a signal by its name."""
        if self.process.poll() is None:
            self.process.send_signal(getattr(signal, name))

    def wait(self) -> int:
        """Return the exit code the way a container runtime reports it."""
        code = self.process.wait()
        return code if code >= 0 else 128 - code

    def exit_code(self) -> int | None:
        """Return the exit code, if it has ended."""
        return None if self.process.poll() is None else self.wait()


def write_executor(folder: Path, script: str) -> Path:
    """Write a `runyard-worker` with the behaviour that the test needs."""
    folder.mkdir(exist_ok=True)
    file = folder / "runyard-worker"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return folder
