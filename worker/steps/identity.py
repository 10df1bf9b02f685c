"""The job's identities in clouds: a token file for each, renewed in place while the job runs."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from worker.api.replies import IssuedTokens
from worker.api.retrying import retry_for
from worker.attempt.workspace import Workspace
from worker.clock import backoff
from worker.errors import JobFailed, Retryable, WorkerError
from worker.files.own_files import remove_own, replace_own
from worker.steps.identity_variables import IdentityFiles, set_up

FIRST_TOKENS_SECONDS = 60.0
# Renewed at half of their life, so that an SDK that reads the file always has some time left.
_RENEW_AT = 0.5
_SHORTEST_WAIT_SECONDS = 1.0


async def give_identities(space: Workspace) -> None:
    """Write the tokens, point the providers at them, and renew them until the attempt ends."""
    server = space.context.server
    if not await server.has_identities(space.ref):
        return
    try:
        issued = await retry_for(FIRST_TOKENS_SECONDS, lambda: server.identity_tokens(space.ref))
    except Retryable as error:
        # Without its own identity a job would act with whatever credentials the machine has.
        hint = error.hint or "Check the edge function job-identity of the project."
        raise JobFailed(
            f"The job's identities are not available: {error.message}", code="no_identity", hint=hint
        ) from error
    folder = space.root / "identity"
    folder.mkdir(mode=0o700)
    await write_tokens(space, issued)
    for each in issued.tokens:
        _configure(space, IdentityFiles(each, folder, issued.phase, f"runyard-{space.job.id}-{space.job.attempt}"))
    renewing = asyncio.create_task(keep_renewed(space, issued))
    space.leaving.push_async_callback(_end, renewing)


async def write_tokens(space: Workspace, issued: IssuedTokens) -> None:
    """Put each token where the job reads it; none is shown in the log."""
    await asyncio.to_thread(space.log.hide, *(each.token for each in issued.tokens))
    for each in issued.tokens:
        await asyncio.to_thread(replace_own, space.root, _file(space, each.name), each.token.encode())


async def keep_renewed(
    space: Workspace, issued: IssuedTokens, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Renew the tokens until the server refuses: then the attempt has lost its lease, and the files are removed."""
    names, failures = [each.name for each in issued.tokens], 0
    while True:
        await sleep(backoff(failures) if failures else max(_SHORTEST_WAIT_SECONDS, issued.expires_in * _RENEW_AT))
        try:
            issued = await space.context.server.identity_tokens(space.ref)
            await write_tokens(space, issued)
            failures = 0
        except WorkerError as error:
            # What something on the way refuses is sent again; only the project's own refusal is final.
            if isinstance(error, Retryable) or not error.is_ours:
                failures += 1
                continue
            space.say(f"[runyard] The job's identities end here: {error.message}")
            for name in names:
                with suppress(OSError):
                    remove_own(space.root, _file(space, name))
            return
        except OSError as error:
            failures += 1
            space.say(f"[runyard] The job's tokens could not be written: {error.strerror}")


def _configure(space: Workspace, files: IdentityFiles) -> None:
    setup = set_up(files)
    for path, content in setup.files.items():
        replace_own(space.root, path, content)
    dropped = sorted(name for name in setup.rivals if name in space.env)
    kept = {name: value for name, value in space.env.items() if name not in setup.rivals}
    space.env = {**kept, **setup.variables}
    role = files.setting("role") or files.setting("account") or files.setting("client_id")
    left_out = f"; left out of its environment: {', '.join(dropped)}" if dropped else ""
    space.say(f"Identity {files.identity.name}, phase {files.phase}{f': {role}' if role else ''}{left_out}")


def _file(space: Workspace, name: str) -> Path:
    return space.root / "identity" / f"{name}.jwt"


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
