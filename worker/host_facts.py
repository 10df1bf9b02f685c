"""The facts about the machine that the runners page shows."""

import os
import platform
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.enums import EngineName
from worker.finder import EngineFinder
from worker.process_status import ProcessStatus
from worker.program import Program
from worker.runtime_log import RecentLog
from worker.settings.model import Settings
from worker.version import __version__

# Pages know the runner's health by how it begins.
NO_ENGINE = "no engine was found: run `runyard engines ensure tofu` on the runner"

# Reported among the versions of an engine. The claim accepts a text that is not a version, and leaves the decision to the runner.
ON_DEMAND = "any on demand"


@dataclass(eq=False)
class HostFacts:
    """Gathers facts; only the engines, the notes and the newest problems ever change."""

    settings: Settings
    finder: EngineFinder
    process_status: ProcessStatus
    isolation: str
    # Set only if the runner may replace it.
    program: Program | None = None
    recent: RecentLog | None = None

    def __post_init__(self) -> None:
        settings, program = self.settings, self.program
        self._fixed: dict[str, Any] = {
            "hostname": socket.gethostname(),
            "platform": f"{platform.system().lower()}/{platform.machine()}",
            "os": platform.platform(terse=True),
            "python": platform.python_version(),
            "cpus": os.cpu_count() or 1,
            "isolation": self.isolation,
            "dispatcher": settings.dispatcher.type.value,
            "disk_free_gb": _free_gigabytes(settings.working_directory.working_directory),
            "version": __version__,
            # The file of a release that this runner would fetch to update itself.
            "self_update": program.artifact if program else None,
        }

    def __call__(self) -> dict[str, Any]:
        """Return all facts as they are now."""
        engines = {name.value: engine.version for name, engine in sorted(self.finder.found.items())}
        settings = self.settings
        on_demand = [ON_DEMAND] if settings.engine.fetch_command else []
        known = {
            "capacity": settings.capacity,
            "clouds": self.process_status.clouds,
            "dispatcher_engines": settings.dispatcher.data.engines or self.process_status.image_engines,
        }
        # A runner that starts executors needs no engine of its own.
        is_lacking = not engines and not on_demand and not settings.dispatcher.is_remote
        versions = {name: [engine.version for engine in self.finder.versions.get(name, [])] for name in EngineName}
        return {
            **self._fixed,
            **{name: value for name, value in known.items() if value is not None},
            "engines": engines,
            "engine_versions": {
                name.value: [*each, *on_demand] for name, each in sorted(versions.items()) if each or on_demand
            },
            "engine_note": self.finder.note() or (NO_ENGINE if is_lacking else None),
            "last_error": self.process_status.last_error,
            "degraded": self.process_status.degraded,
            "clock_off": self.process_status.skew.reported,
            "log": self.recent.lines() if self.recent else [],
        }


def _free_gigabytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free // 10**9
    except OSError:
        return None
