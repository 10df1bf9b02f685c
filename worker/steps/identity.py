"""The job's identities in clouds: a token file for each, renewed in place while the job runs."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from worker.api.replies import IssuedTokens
from worker.api.retrying import retry_for
from worker.attempt.workspace import Workspace
from worker.clock import backoff
from worker.errors import JobFailed, Retryable, WorkerError
from worker.exchange import exchange
from worker.files.own_files import remove_own, replace_own
from worker.steps.identity_variables import PROVIDER_VARIABLES, IdentityFiles, set_up
from worker.vaults import log_in

FIRST_TOKENS_SECONDS = 60.0
# Renewed at half of their life, so that an SDK that reads the file always has some time left.
_RENEW_AT = 0.5
_SHORTEST_WAIT_SECONDS = 1.0
# Renewed so, older tokens have expired: the log need not look for them any more.
_LIVE_GENERATIONS = 3


async def give_identities(space: Workspace) -> None:
    """Write the tokens, point the providers at them, and renew them until the attempt ends."""
    server = space.context.server
    known = await server.identities(space.ref)
    for kind in known.withheld:
        _withhold(space, kind)
    if not known.identities:
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
        files = IdentityFiles(each, folder, issued.phase, f"runyard-{space.job.id}-{space.job.attempt}")
        _configure(space, files)
        if each.kind == "vault":
            await _log_in_to_vault(space, files)
    renewing = asyncio.create_task(keep_renewed(space, issued))
    space.leaving.push_async_callback(_end, renewing)


async def write_tokens(space: Workspace, issued: IssuedTokens, expired: IssuedTokens | None = None) -> None:
    """Put each token where the job reads it; none is shown in the log."""
    await asyncio.to_thread(space.log.hide, issued.secrets, expired.secrets if expired else ())
    for each in issued.tokens:
        await asyncio.to_thread(replace_own, space.root, _file(space, each.name), each.token.encode())


async def keep_renewed(
    space: Workspace, issued: IssuedTokens, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Renew the tokens until the server refuses: then the attempt has lost its lease, and the files are removed."""
    known, failures = deque([issued]), 0
    while True:
        wait = max(_SHORTEST_WAIT_SECONDS, known[-1].expires_in * _RENEW_AT)
        await sleep(backoff(failures) if failures else wait)
        try:
            known.append(await space.context.server.identity_tokens(space.ref))
            await write_tokens(space, known[-1], expired=known.popleft() if len(known) > _LIVE_GENERATIONS else None)
            failures = 0
        except WorkerError as error:
            # The runner retries after a refusal by something on the way; only the project's own refusal is final.
            if error.is_ours and not isinstance(error, Retryable):
                _remove_tokens(space, issued, error.message)
                return
            failures += 1
        except OSError as error:
            failures += 1
            space.say(f"[runyard] The job's tokens could not be written: {error.strerror}")


def _remove_tokens(space: Workspace, issued: IssuedTokens, why: str) -> None:
    space.say(f"[runyard] The job's identities end here: {why}")
    for each in issued.tokens:
        with suppress(OSError):
            remove_own(space.root, _file(space, each.name))


def _withhold(space: Workspace, kind: str) -> None:
    """Take the machine's credentials for a provider away: without its identity, the job would act as the machine."""
    dropped = sorted(name for name in space.env if name.startswith(PROVIDER_VARIABLES.get(kind, ())))
    space.env = {name: value for name, value in space.env.items() if name not in dropped}
    left_out = f"; left out of its environment: {', '.join(dropped)}" if dropped else ""
    space.say(f"Identity {kind} is withheld from the plan of a pull request{left_out}")


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


async def _log_in_to_vault(space: Workspace, files: IdentityFiles) -> None:
    """Give the job a token of Vault itself: neither its provider nor its command reads the issuer's token from a file."""
    address, mount = files.setting("address"), files.setting("mount") or "jwt"
    try:
        token = await log_in(address, mount, files.setting("role"), files.identity.token, files.setting("namespace"))
    except Retryable as error:
        raise JobFailed(
            f"The job's identity in Vault is not available: {error.message}", code="no_identity",
            hint="Check the role's bound audience and claims: runyard identities test shows the token's.",
        ) from error  # fmt: skip
    await asyncio.to_thread(space.log.hide, [token])
    space.env = {**space.env, "VAULT_TOKEN": token}


def _file(space: Workspace, name: str) -> Path:
    return space.root / "identity" / f"{name}.jwt"


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def exchange_tokens(space: Workspace) -> None:
    """Try every identity before the job fails with the first refusal: a person repairs all of them at once."""
    server = space.context.server
    if not (await server.identities(space.ref)).identities:
        raise JobFailed("The module has no identity.", code="no_identity", hint="runyard identities attach adds one.")
    issued = await server.identity_tokens(space.ref)
    answers, problems = space.result.setdefault("identities", {}), []
    for each in issued.tokens:
        space.log.hide([each.token])
        files = IdentityFiles(each, space.root, issued.phase, f"runyard-{space.job.id}-{space.job.attempt}")
        try:
            answers[each.name] = await exchange(each.kind, files.setting, each.token, files.session_name)
        except Retryable as error:
            answers[each.name] = error.message
            problems.append(error.message)
        space.say(f"{each.name}: {answers[each.name]}")
    if problems:
        raise JobFailed(
            problems[0],
            code="identity_refused",
            hint="Compare the trust policy with the token: runyard identities test.",
        )
