"""States that the server did not store: offered again, and only to the project and runner that wrote them."""

import asyncio
from contextlib import suppress
from pathlib import Path

from worker.attempt.context import JobContext
from worker.errors import WorkerError
from worker.runtime_log import get_logger
from worker.session.identity import INSTANCES
from worker.statebackend.delivery import hand_over
from worker.statebackend.journal import kept_entries


async def hand_over_kept(context: JobContext) -> None:
    """Give the server the states that wait for a person on this disk."""
    await _adopt_old(context)
    _name_moved(context)
    for path, entry in kept_entries(context.kept_states, context.seal):
        await hand_over(context.server, path, entry, "It was kept on the runner's disk.")


async def _adopt_old(context: JobContext) -> None:
    """Move what an earlier version left in the folder of all projects to ours, if it is ours.

    Its files name no project. In a working directory that only one runner has ever used they are that runner's; else the
    server decides, and learns no more than the attempt and the time.
    """
    found = kept_entries(context.kept_of_all, context.seal)
    is_only_ours = _runners(context) <= {str(context.settings.runner.id)}
    for path, entry in found:
        try:
            is_ours = is_only_ours or await context.server.knows_state(entry.ref, entry.number, entry.written_at)
        except WorkerError as error:
            get_logger("worker.recovery").warning("a kept state waits", file=str(path), why=error.message)
            continue
        if not is_ours:
            get_logger("worker.recovery").info("a kept state is of another runner, and stays", file=str(path))
        else:
            await asyncio.to_thread(_move, path, context.kept_states)


def _move(path: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Two instances of a runner may start at once.
    with suppress(FileNotFoundError):
        path.rename(folder / path.name)


def _runners(context: JobContext) -> set[str]:
    """List the runners that have worked in this directory; a folder's name begins with their id."""
    folder = context.settings.working_directory.working_directory / INSTANCES
    return {each.name[:36] for each in folder.glob("*-*-*-*-*")}


def _name_moved(context: JobContext) -> None:
    """Name the states of this runner that wait for a project at another address: it may have moved."""
    ours = context.kept_states
    for other in context.kept_of_all.glob(f"*/{ours.name}"):
        if other != ours and any(other.iterdir()):
            get_logger("worker.recovery").warning(
                "states of this runner wait for a project at another address",
                folder=str(other), hint=f"If that project is this one, move the files to {ours} and start again.",
            )  # fmt: skip
