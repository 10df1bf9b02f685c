"""The ladder: PATH, the cache, an official release, a build."""

import subprocess
import tempfile
from pathlib import Path

from cli.engines.build import built
from cli.engines.cache import binary_folder, cache_folder, cached, find, install, locked
from cli.engines.catalog import ENGINES, Engine, EngineError
from cli.engines.progress import Report, Reporter
from cli.engines.release import fetch


def ensure(engine: Engine, watch: Report | None = None, *, is_pinned: bool = False) -> Path:
    """Return the engine's binary, providing it if need be; a second caller waits for the first.

    `is_pinned` passes over PATH, whose version may be another.
    """
    if found := cached(engine) if is_pinned else find(engine):
        return found
    reporter = Reporter(engine, watch)
    with locked(engine):
        if found := cached(engine):
            return found
        try:
            made = provide(engine, reporter)
        except EngineError as error:
            reporter.say(0, f"{engine.title} is not there", error=str(error).splitlines()[0])
            raise
    reporter.say(100, f"{engine.title} {engine.version} is ready", is_done=True)
    return made


def provide(engine: Engine, report: Reporter) -> Path:
    """Fetch the release; build when it cannot be had."""
    report.say(0, f"Preparing {engine.title} {engine.version}")
    binary_folder(engine).mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache_folder()) as folder:
            return keep(engine, fetch(engine, Path(folder), report))
    except EngineError as unreachable:
        if engine.version != ENGINES.get(engine.name, engine).version:
            # Only the sources of the catalogue's version are pinned by checksums in this repository.
            raise EngineError(f"{engine.title} {engine.version} is not available: {unreachable}") from unreachable
        report.say(3, f"Building {engine.title} {engine.version}: {unreachable}")
    with built(engine, report) as made:
        return keep(engine, made)


def keep(engine: Engine, made: Path) -> Path:
    """Put a binary into the cache once it has been seen to run."""
    made.chmod(0o755)
    try:
        subprocess.run([str(made), engine.probe], check=True, capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineError(f"{engine.title} does not run on this machine: {error}") from error
    return install(engine, made)
