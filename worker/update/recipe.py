"""The steps by which a runner updates itself.

The job outlives the process that begins it: it is given back when the process restarts, and whichever version comes up
claims it again. The new version ends it with success; the old one, back in its place, with what went wrong.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from packaging.version import InvalidVersion, Version

from worker.api.replies import ClaimedJob
from worker.attempt.workspace import Step, Workspace
from worker.download import download
from worker.enums import JobPhase, JobType
from worker.errors import JobFailed, JobInterrupted, Retryable
from worker.program import Program, without_loader
from worker.settings.model import UpdateSettings
from worker.update.handover import Updater
from worker.version import __version__

BY_HAND = "Update this runner by hand; its page shows the command."


@dataclass(frozen=True)
class Wanted:
    """One file of one release."""

    version: str
    url: str
    sha256: str


def read_wanted(payload: dict[str, Any], artifact: str, current: str) -> Wanted:
    """Choose the file for this platform; an older version only where the job allows it."""
    spec = payload.get("lifecycle") or {}
    version = str(spec.get("version") or "")
    _refuse_downgrade(version, current, is_asked=spec.get("allow_downgrade") is True)
    offered = [each for each in spec.get("artifacts") or [] if each.get("name") == artifact]
    if not offered:
        raise JobFailed(
            f"Release {version} has no file {artifact}.",
            code="update_no_artifact",
            hint=f"Publish the release with a file for this platform. {BY_HAND}",
        )
    return Wanted(version, str(offered[0].get("url")), str(offered[0].get("sha256")))


def _refuse_downgrade(version: str, current: str, *, is_asked: bool) -> None:
    try:
        is_older = Version(version) < Version(current)
    except InvalidVersion as error:
        raise JobFailed(f"{version!r} is not a version.", code="bad_payload") from error
    if is_older and not is_asked:
        raise JobFailed(
            f"This runner is at {current}, which is newer than {version}.",
            code="update_downgrade",
            hint="Name the older version when you ask for the update, if you want to go back to it.",
        )


def origin_of(url: str) -> str:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return f"{parts.scheme}://{parts.hostname}:{port}"


def check_address(url: str, settings: UpdateSettings, project: str) -> None:
    """Refuse an address that may be listened to on the way, or that the operator did not name; redirects as well."""
    origin = origin_of(url)
    if origin == origin_of(project):
        return
    if not origin.startswith("https://"):
        raise JobFailed(
            f"The new version would come from {origin}, which is neither https nor the project's own address.",
            code="update_address",
            hint=f"Publish the release with an https address. {BY_HAND}",
        )
    if settings.origins and origin not in {origin_of(each) for each in settings.origins}:
        raise JobFailed(
            f"The new version would come from {origin}, which Update.Origins does not list.",
            code="update_address",
            hint=f"Add it to Update.Origins if you trust it. {BY_HAND}",
        )


MOST_BYTES = 512 * 1024 * 1024

_VERSION_SECONDS = 120.0


def is_own_update(job: ClaimedJob) -> bool:
    """Whether a job is about the runner that claims it, rather than about one in the cloud."""
    return job.type is JobType.UPDATE_WORKER and (job.payload.get("lifecycle") or {}).get("is_own") is True


def update_recipe(space: Workspace, updater: Updater | None) -> list[Step]:
    """List what is left to do: everything, or only the report."""
    if updater is None:
        return [Step("permission", "Permission", JobPhase.PREPARE, _refuse)]
    if (note := updater.problem_of(space.job.id)) is not None:
        return [Step("trial", "New version", JobPhase.REPORT, _failing(note.version, note.problem))]
    if space.job.payload["lifecycle"].get("version") == __version__:
        return [Step("arrived", "New version", JobPhase.REPORT, _arrived)]
    return _Update(space, updater).steps()


async def _refuse(space: Workspace) -> None:
    why = "Its log says why." if space.context.settings.update.enabled else "Start it with Update.Enabled."
    raise JobFailed("This runner cannot update itself.", code="update_not_permitted", hint=f"{why} {BY_HAND}")


async def _arrived(space: Workspace) -> None:
    space.say(f"This runner is at {__version__}.")
    space.result["version"] = __version__


def _failing(version: str, problem: str) -> Callable[[Workspace], Awaitable[None]]:
    async def fail(_: Workspace) -> None:
        raise JobFailed(
            f"Version {version} cannot work here; the runner continues with {__version__}. {problem}",
            code="update_rolled_back",
            hint="The trial's own output is in trial.log in the instance's directory on the runner.",
        )

    return fail


class _Update:
    """One attempt to get from this version to another."""

    # The file of the release that the job wants; the first step finds it.
    wanted: Wanted

    def __init__(self, space: Workspace, updater: Updater) -> None:
        self._updater = updater
        self._new = Path()
        self._space = space

    def steps(self) -> list[Step]:
        """Fetch and check before anything stops; then drain and leave."""
        return [
            Step("fetch", "Fetch the release", JobPhase.FETCH, self._fetch),
            Step("check", "Check it", JobPhase.INPUTS, self._check),
            Step("restart", "Drain and restart", JobPhase.INIT, self._restart),
        ]

    async def _fetch(self, space: Workspace) -> None:
        program, settings = self._updater.program, space.context.settings
        self.wanted = read_wanted(space.job.payload, program.artifact, __version__)
        check = lambda url: check_address(url, settings.update, settings.server.url)  # noqa: E731
        self._new = await fetch_beside(program, self.wanted, check, space.say)

    async def _check(self, space: Workspace) -> None:
        """Ask the file for its version; one that cannot even print that is not worth draining for."""
        environ = without_loader(space.context.environ)
        with self._or_nothing():
            code, said = await asyncio.to_thread(_ask_version, self._updater.program, self._new, environ)
            words = space.log.redactor.redact(said.strip())
            if code != 0 or words.splitlines()[-1:] != [self.wanted.version]:
                raise JobFailed(
                    f"The file does not start as {self.wanted.version}: exit code {code}, {words[-500:]!r}.",
                    code="update_broken",
                    hint="The release was built wrongly, or for another Python. Nothing was replaced.",
                )
        space.say(f"It reports version {self.wanted.version}.")

    async def _restart(self, space: Workspace) -> None:
        space.say("Draining: running jobs finish, new ones wait.")
        with self._or_nothing():
            await self._updater.drain(space.ref)
            self._updater.leave_for(self._new, self.wanted.version, space.job.id)
        raise JobInterrupted(f"Restarting as {self.wanted.version}.", code="runner_restart")

    @contextmanager
    def _or_nothing(self) -> Iterator[None]:
        """Leave things as they were when the step fails or is cancelled."""
        try:
            yield
        except BaseException:
            self._updater.carry_on()
            self._new.unlink(missing_ok=True)
            raise


def _ask_version(program: Program, file: Path, environ: dict[str, str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            program.command(file, "version"), env=environ, capture_output=True, text=True, timeout=_VERSION_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return -1, str(error)
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr


async def fetch_beside(
    program: Program, wanted: Wanted, check: Callable[[str], None], say: Callable[[str], None]
) -> Path:
    """Fetch into a new file in the program's own folder, so that taking its place is one rename."""
    # Several runners of one machine may share the file: each fetches for itself.
    new = program.path.with_name(f".{program.path.name}.{wanted.version}.{os.getpid()}.new")
    say(f"Fetching {wanted.url}")
    try:
        new.unlink(missing_ok=True)
        digest = await download(wanted.url, new, say=say, check=check, most_bytes=MOST_BYTES)
        _check_digest(digest, wanted)
        _settle(program, new)
    except BaseException as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _cannot_write(program, error) from error
        if isinstance(error, Retryable):
            raise JobFailed(error.message, code="update_fetch", hint="Try again, or look at the address.") from error
        raise
    say(f"Its SHA-256 is {digest}, as published.")
    return new


def _check_digest(digest: str, wanted: Wanted) -> None:
    if digest != wanted.sha256:
        raise JobFailed(
            f"The file has SHA-256 {digest}; published was {wanted.sha256}.",
            code="update_checksum",
            hint="It was changed or cut short on the way. Nothing was replaced; find out which before you try again.",
        )


def _settle(program: Program, new: Path) -> None:
    """Give it the old file's rights, and put it on disk before anybody relies on it."""
    shutil.copymode(program.path, new)
    with new.open("rb") as file:
        os.fsync(file.fileno())


def _cannot_write(program: Program, error: OSError) -> JobFailed:
    return JobFailed(
        f"{program.path.parent} cannot be written: {error.strerror}.",
        code="update_folder",
        hint=f"Keep the program in a folder that the runner's user may write to. {BY_HAND}",
    )
