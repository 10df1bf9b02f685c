"""Whether a job is shut in: a child is started as a job would start it, and tries to get out."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from worker.children.child import Command
from worker.children.hardening import hide_from_children
from worker.children.isolation import REMEDY, Isolation, find_isolation
from worker.doctor.check import Check, fail, ok, warn
from worker.settings import Settings
from worker.settings.isolation import IsolationMode
from worker.settings.load import secret_places

NAME, REACH = "Isolation", "Reach of a job"
_SECONDS = 30
_CONTENT = "only for another job"


def isolation(settings: Settings, environ: Mapping[str, str]) -> list[Check]:
    """Say how jobs are shut in, and what a child got at that tried to reach what is not its own."""
    if settings.dispatcher.is_remote:
        return [ok(NAME, f"every job has a container of its own ({settings.dispatcher.type.value})")]
    found = find_isolation(settings, environ)
    try:
        escapes = attempts(found, settings, environ)
    except (OSError, subprocess.SubprocessError) as error:
        return [fail(NAME, f"a child could not be started as a job would: {error}", REMEDY)]
    return [strength(found), reach(found, escapes)]


def strength(found: Isolation) -> Check:
    """Weigh the way that was found against what the settings ask for."""
    mode = found.view.settings.engine.isolation.mode
    if found.is_enough_for_strangers:
        return ok(NAME, f"jobs are shut in by {found.fact}")
    seen = f"jobs are {f'shut in by {found.fact}' if found.way else 'not shut in'} ({found.weakness})"
    return fail(NAME, seen, REMEDY) if mode is IsolationMode.REQUIRED else warn(NAME, seen, REMEDY)


def reach(found: Isolation, escapes: list[str]) -> Check:
    """Say what a job can reach although it is not its own; nothing is forgiven where jobs are said to be shut in."""
    if not escapes:
        return ok(REACH, "a child reached nothing but its own")
    seen = f"a job can reach {', '.join(escapes)}"
    is_promised = found.way or found.view.settings.engine.isolation.mode is IsolationMode.REQUIRED
    return fail(REACH, seen, REMEDY) if is_promised else warn(REACH, seen, REMEDY)


def attempts(found: Isolation, settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Start a child in a folder like a job's, and return what it got at although it is not its own."""
    hide_from_children()
    base = settings.working_directory.temp_directory
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=base) as own, tempfile.TemporaryDirectory(dir=base) as other:
        file = Path(other, "state")
        file.write_text(_CONTENT, encoding="utf-8")
        places = {
            **{f"the secrets in {place}": place for place in secret_places(environ) if _is_secret(place)},
            "the runner's memory": Path(f"/proc/{os.getpid()}/mem"),
            "the runner's environment": Path(f"/proc/{os.getpid()}/environ"),
            "another job's files": file,
        }
        tries = {what: _reading(place) for what, place in places.items()}
        tries["the runner's process, to end it"] = f"kill -0 {os.getpid()}"
        return [what for what, script in tries.items() if _works(found, Path(own), script)]


def _is_secret(place: Path) -> bool:
    return os.access(place, os.R_OK) and (place.is_file() or any(place.iterdir()))


def _reading(place: Path) -> str:
    """A script that reads a file, or all files of a folder."""
    target = shlex.quote(str(place))
    # The memory is no file that can be read from its start, but opening it is what needs the right.
    return (
        f'if [ -d {target} ]; then [ -n "$(ls -A {target})" ] && cat {target}/* > tmp/read; else exec 3< {target}; fi'
    )


def _works(found: Isolation, root: Path, script: str) -> bool:
    for name in ("tmp", "home"):
        (root / name).mkdir(exist_ok=True, mode=0o700)
    command = found.enclose(Command(("/bin/sh", "-c", script), root, {"PATH": "/usr/bin:/bin"}), root)
    done = subprocess.run(
        command.argv, input=command.stdin, env=dict(command.env), cwd=command.cwd, capture_output=True,
        timeout=_SECONDS, check=False,
    )  # fmt: skip
    found.end(root)
    return done.returncode == 0
