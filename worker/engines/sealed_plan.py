"""The plan as the engine made it, kept in the runner's memory: shown, saved and applied are the same bytes."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

from worker.attempt.workspace import Workspace
from worker.errors import JobFailed
from worker.files.own_files import sealed

SHA256 = "plan_sha256"


def seal_plan(space: Workspace) -> None:
    """Keep the plan that the engine has just written; nothing where it wrote none."""
    plan = space.read(space.plan_file)
    if plan is not None:
        _seal(space, plan)


def load_sealed(space: Workspace, plan: bytes) -> None:
    """Seal a saved plan that is the one that was approved, and give hooks a copy."""
    digest, named = hashlib.sha256(plan).hexdigest(), space.job.plan_sha256
    if named and digest != named:
        raise _changed(f"The saved plan's SHA-256 is {digest}, and the approved plan's is {named}.")
    _seal(space, plan)
    space.write(space.plan_file, plan)


def sealed_bytes(space: Workspace) -> bytes:
    """Return the sealed plan; a hook that changed its copy meant to change what is applied, which nobody has approved."""
    if space.plan is None:
        raise JobFailed("The engine left no plan.", code="no_plan", hint="Plan again; the log shows what it did.")
    # Not through a link: that is not the copy any more.
    if os.path.lexists(space.plan_file) and (copy := space.read(space.plan_file)) != space.plan:
        found = "it is not a plain file" if copy is None else f"its SHA-256 is {hashlib.sha256(copy).hexdigest()}"
        raise _changed(f"The plan file was changed after planning: {found}, and it was {space.result[SHA256]}.")
    return space.plan


@contextmanager
def opened_plan(space: Workspace) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the path by which an engine opens exactly the sealed plan, and the descriptors that it must inherit."""
    with sealed(sealed_bytes(space), space.root) as (path, descriptors):
        yield path, descriptors


def _seal(space: Workspace, plan: bytes) -> None:
    space.plan = plan
    space.result[SHA256] = hashlib.sha256(plan).hexdigest()


def _changed(words: str) -> JobFailed:
    return JobFailed(
        f"{words} Nothing was applied.", code="plan_changed",
        hint="See which hook writes to the plan file. Then plan again.",
    )  # fmt: skip
