"""Hooks: the module's own scripts, run by `sh`, refused unless approved where approval is on."""

import asyncio
import hashlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from worker.attempt.spec import Hook, JobSpec
from worker.attempt.workspace import Workspace
from worker.errors import JobFailed
from worker.files.own_files import sealed
from worker.settings.model import Settings

_LARGEST_HOOK = 1024 * 1024

LONGEST_HOOK_SECONDS = 600.0


async def run_hook(space: Workspace, name: str, hook: Hook) -> None:
    """Run one hook in the module's folder with the job's environment."""
    script = hook.script.encode()
    settings = space.context.settings
    if settings.hooks_preapproval.enabled:
        directory = settings.hooks_preapproval.preapproved_hooks_directory
        check_approved(name, script, directory, settings.executor.approved_hooks)
    limit = min(
        hook.timeout_seconds or space.spec.time_limits.hook or settings.hooks.timeout_seconds, LONGEST_HOOK_SECONDS
    )
    with sealed(script, space.root) as (path, descriptors):
        before, space.env = space.env, {**_environment(space, hook.script), "RUNYARD_HOOK": name}
        try:
            async with asyncio.timeout(limit):
                what = f"sh {name} (sha256 {digest(script)[:12]})"
                await space.run(["/bin/sh", path], what=what, pass_fds=descriptors)
        except TimeoutError as error:
            raise JobFailed(
                f"The hook {name} did not end within {limit:g} s.", code="hook_timeout",
                hint="Make it quicker, or raise the time limit of hooks (at most 10 minutes) of the module, or on the runner.",
            ) from error  # fmt: skip
        except JobFailed as error:
            raise JobFailed(error.message, code="hook_failed", hint="The hook's own output is in the log.") from error
        finally:
            space.env = before


def _environment(space: Workspace, script: str) -> dict[str, str]:
    """Leave out secrets that the script does not name: what else it starts, such as a program that reports, needs none."""
    named = set(re.findall(r"\w+", script))
    left_out = sorted(space.variables.secret_env - named)
    if left_out:
        space.say(f"Secrets that the script does not name are left out: {', '.join(left_out)}")
    return {name: value for name, value in space.env.items() if name not in left_out}


def check_approved(name: str, script: bytes, directory: Path, approved: Collection[str] = ()) -> None:
    """Refuse a script whose content is not among the approved files, nor among those that a dispatching runner sent."""
    found = digest(script)
    if found not in approved and found not in set(_approved(directory)):
        raise JobFailed(
            f"The hook {name} (sha256 {found}) is not approved on this runner.", code="hook_not_approved",
            hint=f"Put a file with exactly this content into {directory} on the runner, or change the hook.",
        )  # fmt: skip


def approved_hooks(spec: JobSpec, settings: Settings) -> list[str]:
    """The job's hooks that this runner approves, by SHA-256, for an executor that has no such directory."""
    if not settings.hooks_preapproval.enabled:
        return []
    wanted = {digest(script.encode()) for script in spec.scripts()}
    return sorted(wanted & set(_approved(settings.hooks_preapproval.preapproved_hooks_directory)))


def digest(script: bytes) -> str:
    """The content's name."""
    return hashlib.sha256(script).hexdigest()


def _approved(directory: Path) -> Iterator[str]:
    if not directory.is_dir():
        return
    for file in sorted(directory.rglob("*")):
        if file.is_file() and file.stat().st_size <= _LARGEST_HOOK:
            yield digest(file.read_bytes())
