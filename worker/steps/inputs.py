"""Inputs and extra files, written beside the source."""

from worker.attempt.workspace import Workspace
from worker.engines.driver import driver_for
from worker.files.safe_writer import SafeWriter
from worker.steps.bound_inputs import read_bound

MOST_EXTRA_BYTES = 16 * 1024 * 1024
MOST_EXTRA_FILES = 200


async def write_inputs(space: Workspace) -> None:
    """Write extra files and variables that are files, then the inputs in the engine's own form."""
    with SafeWriter(space.work, most_bytes=MOST_EXTRA_BYTES, most_files=MOST_EXTRA_FILES) as writer:
        for file in space.spec.module.extra_files:
            size = writer.write(file.path, file.content.encode(), mode=file.mode_bits)
            space.say(f"Extra file {file.path}, {size:,} bytes")
        for path, content in sorted(space.variables.files.items()):
            size = writer.write(path, content.encode(), mode=0o644)
            space.say(f"File {path}, {size:,} bytes")
    space.bound = await read_bound(space)
    await driver_for(space).write_inputs(space)
