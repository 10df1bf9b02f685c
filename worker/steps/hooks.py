"""Hooks: the module's own scripts, run by `sh`, refused unless approved where approval is on."""

import asyncio
import re

from worker.attempt.approval import check_approved, digest
from worker.attempt.spec import Hook
from worker.attempt.workspace import Workspace
from worker.errors import JobFailed
from worker.files.sealed import sealed

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
