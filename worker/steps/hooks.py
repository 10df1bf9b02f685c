"""Hooks: the module's own scripts, run by `sh`, refused unless approved where approval is on."""

import asyncio
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from worker.errors import JobFailed
from worker.jobs.spec import Hook
from worker.jobs.workspace import Workspace

LONGEST_HOOK_SECONDS = 600.0
_LARGEST_HOOK = 1024 * 1024


async def run_hook(space: Workspace, name: str, hook: Hook) -> None:
    """Run one hook in the module's folder with the job's environment."""
    script = hook.script.encode()
    settings = space.around.settings
    if settings.hooks_preapproval.enabled:
        check_approved(name, script, settings.hooks_preapproval.preapproved_hooks_directory)
    limit = min(hook.timeout_seconds or settings.hooks.timeout_seconds, LONGEST_HOOK_SECONDS)
    with _sealed(script, space.root) as (path, descriptors):
        before, space.env = space.env, {**space.env, "RUNYARD_HOOK": name}
        try:
            await asyncio.wait_for(
                space.run(["/bin/sh", path], what=f"sh {name} (sha256 {_digest(script)[:12]})", pass_fds=descriptors),
                limit,
            )
        except TimeoutError as error:
            raise JobFailed(
                f"The hook {name} did not end within {limit:g} s.", code="hook_timeout",
                hint="Make it quicker, or raise Hooks.TimeoutSeconds on the runner (at most 600).",
            ) from error  # fmt: skip
        except JobFailed as error:
            raise JobFailed(error.message, code="hook_failed", hint="The hook's own output is in the log.") from error
        finally:
            space.env = before


def check_approved(name: str, script: bytes, directory: Path) -> None:
    """Refuse a script whose content is not among the approved files."""
    digest = _digest(script)
    if digest not in set(_approved(directory)):
        raise JobFailed(
            f"The hook {name} (sha256 {digest}) is not approved on this runner.", code="hook_not_approved",
            hint=f"Put a file with exactly this content into {directory} on the runner, or change the hook.",
        )  # fmt: skip


def _approved(directory: Path) -> Iterator[str]:
    if not directory.is_dir():
        return
    for file in sorted(directory.rglob("*")):
        if file.is_file() and file.stat().st_size <= _LARGEST_HOOK:
            yield _digest(file.read_bytes())


def _digest(script: bytes) -> str:
    return hashlib.sha256(script).hexdigest()


@contextmanager
def _sealed(script: bytes, root: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Hand out a copy that nobody can change between its check and its run."""
    if not sys.platform.startswith("linux"):
        with tempfile.NamedTemporaryFile(dir=root, suffix=".sh") as file:
            file.write(script)
            file.flush()
            yield file.name, ()
        return
    import fcntl

    memory = os.memfd_create("hook", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(memory, script)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
        yield f"/proc/self/fd/{memory}", (memory,)
    finally:
        os.close(memory)
