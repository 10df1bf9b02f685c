"""A policy set that is a command: it gets the plan in files of its own, and leaves findings or a cost in a folder."""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wire.checks import COMMAND_FILE
from wire.spans import span
from worker.attempt.workspace import Workspace
from worker.children.environment import host_variables, sensitive_values
from worker.engines.check_report import LARGEST_REPORT, is_report, read_reports
from worker.engines.policy import failed_set
from worker.errors import EngineKilled, JobFailed

COMMAND_SECONDS = 300.0
MOST_REPORTS = 20
# A shell, and a sandbox, tell the end by a signal as 128 and its number.
_EXITED = tuple(range(129))
_EVERY_END = tuple(range(-64, 256))


class CheckCommand:
    """A set that is a command, for one plan after the other."""

    def __init__(self, space: Workspace, files: Mapping[str, str]) -> None:
        """Read which command it is; the server has checked that it is one."""
        self._space, self._files = space, files
        order = json.loads(files[COMMAND_FILE])
        self._argv: list[str] = order["argv"]
        self._has_network = order.get("network") is True

    @property
    def reads_code(self) -> bool:
        """Whether it wants the module's files as well as the plan."""
        return any("{code}" in part for part in self._argv) or any(
            "RUNYARD_CODE" in text for text in self._files.values()
        )

    async def check(self, plan: bytes, run: Mapping[str, Any], addresses: Iterable[str]) -> dict[str, Any]:
        """Run the command for a plan, and read what it leaves."""
        space = self._space
        files = {f"set/{name}": text.encode() for name, text in self._files.items()}
        folder = new_folder(space, "check-", {**files, "plan.json": plan, "run.json": json.dumps(run).encode()})
        (results := folder / "results").mkdir(mode=0o700)
        places = {"plan": folder / "plan.json", "run": folder / "run.json", "results": results, "code": space.work}
        argv = self._argv
        for name, place in places.items():
            argv = [part.replace(f"{{{name}}}", str(place)) for part in argv]
        try:
            with _apart(space, folder / "set", places, has_network=self._has_network):
                async with asyncio.timeout(COMMAND_SECONDS):
                    code = await space.run(argv, ok=_EVERY_END)
        except TimeoutError:
            return failed_set(f"The command did not end within {span(COMMAND_SECONDS)}.")
        except (JobFailed, EngineKilled) as error:
            return failed_set(error.message)
        if code not in _EXITED:
            return failed_set(f"{self._argv[0]} was killed by signal {-code if code < 0 else code - 128}.")
        return self._read(results, code, [f"{space.work}/", f"{folder}/"], addresses)

    def _read(self, results: Path, code: int, folders: list[str], addresses: Iterable[str]) -> dict[str, Any]:
        try:
            names = sorted(name for name in os.listdir(results) if is_report(name))  # noqa: PTH208
        except OSError:
            return failed_set("The command removed the folder of its results.")
        if not names and code != 0:
            return failed_set(f"{self._argv[0]} ended with exit code {code} and left no report.", "Its log says why.")
        if len(names) > MOST_REPORTS or any((results / name).lstat().st_size > LARGEST_REPORT for name in names):
            return failed_set(f"The command left more than {MOST_REPORTS} reports, or one larger than 10 MiB.")
        bodies = {name: self._space.read(results / name) or b"" for name in names}
        return read_reports(bodies, folders, addresses, self._space.log.redactor.redact)


def new_folder(space: Workspace, prefix: str, files: Mapping[str, bytes]) -> Path:
    """Write files into a new folder: the job may have put a link where one of a known name would be."""
    folder = Path(tempfile.mkdtemp(dir=space.root, prefix=prefix))
    for name, body in files.items():
        target = folder / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        space.write(target, body)
    return folder


@contextmanager
def _apart(space: Workspace, work: Path, places: Mapping[str, Path], *, has_network: bool) -> Iterator[None]:
    """Give the command a folder, a home and an environment of its own, and a network only where the set asks for it."""
    env, before, home = space.env, space.work, space.root / "home"
    host = host_variables(space.context.environ, space.context.settings.engine.pass_environment) if has_network else {}
    space.log.redactor.add(*sensitive_values(host))
    space.env = {**host, **env, **{f"RUNYARD_{name.upper()}": str(place) for name, place in places.items()}}
    # Tools read settings from there, and the code that was planned could write to it.
    kept = Path(tempfile.mkdtemp(dir=space.root, prefix="home-")) / "home"
    home.rename(kept)
    home.mkdir(mode=0o700)
    space.work, space.is_offline = work, not has_network
    try:
        yield
    finally:
        space.env, space.work, space.is_offline = env, before, False
        shutil.rmtree(home, ignore_errors=True)
        kept.rename(home)
