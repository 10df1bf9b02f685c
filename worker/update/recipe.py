"""The steps by which a runner updates itself.

The job outlives the process that begins it: it is given back when the process restarts, and whichever version comes up
claims it again. The new version ends it with success; the old one, back in its place, with what went wrong.
"""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from worker.api.replies import ClaimedJob
from worker.attempt.step import Step
from worker.attempt.workspace import Workspace
from worker.enums import JobPhase, JobType
from worker.errors import JobFailed, JobInterrupted
from worker.program import Program, without_loader
from worker.update.fetching import fetch_beside
from worker.update.release import BY_HAND, Wanted, check_address, read_wanted
from worker.update.updater import Updater
from worker.version import __version__

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

    def __init__(self, space: Workspace, updater: Updater) -> None:
        self._updater = updater
        self._new = Path()
        self._wanted: Wanted | None = None
        self._space = space

    def steps(self) -> list[Step]:
        """Fetch and check before anything stops; then drain and leave."""
        return [
            Step("fetch", "Fetch the release", JobPhase.FETCH, self._fetch),
            Step("check", "Check it", JobPhase.INPUTS, self._check),
            Step("restart", "Drain and restart", JobPhase.INIT, self._restart),
        ]

    @property
    def wanted(self) -> Wanted:
        """The file of the release that the job wants; the first step finds it."""
        assert self._wanted is not None
        return self._wanted

    async def _fetch(self, space: Workspace) -> None:
        program, settings = self._updater.program, space.context.settings
        self._wanted = read_wanted(space.job.payload, program.artifact, __version__)
        check = lambda url: check_address(url, settings.update, settings.server.url)  # noqa: E731
        self._new = await fetch_beside(program, self._wanted, check, space.say)

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
