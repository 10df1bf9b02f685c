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

NAME = "Isolation"
_SECONDS = 30
_CONTENT = "only for another job"


def isolation(settings: Settings, environ: Mapping[str, str]) -> Check:
    """Say how jobs are shut in, after a child has tried to read what is not its own."""
    if settings.dispatcher.is_remote:
        return ok(NAME, f"every job has a container of its own ({settings.dispatcher.type.value})")
    found = find_isolation(settings, environ)
    try:
        escapes = attempts(found, settings, environ)
    except (OSError, subprocess.SubprocessError) as error:
        return fail(NAME, f"a child could not be started as a job would: {error}", REMEDY)
    return judge(found, escapes)


def judge(found: Isolation, escapes: list[str]) -> Check:
    """Weigh what a child got at against what the settings ask for."""
    mode = found.view.settings.engine.isolation.mode
    seen = f"jobs are shut in by {found.fact}" if found.way else f"jobs are not shut in ({found.why or mode.value})"
    if escapes:
        seen += f"; a job can read {', '.join(escapes)}"
    if found.way and not escapes:
        return ok(NAME, f"{seen}; a child read nothing but its own")
    return fail(NAME, seen, REMEDY) if found.way or mode is IsolationMode.REQUIRED else warn(NAME, seen, REMEDY)


def attempts(found: Isolation, settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Start a child in a folder like a job's, and return what it could read although it is not its own."""
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
        return [what for what, place in places.items() if _can_read(found, Path(own), place)]


def _is_secret(place: Path) -> bool:
    return os.access(place, os.R_OK) and (place.is_file() or any(place.iterdir()))


def _can_read(found: Isolation, root: Path, place: Path) -> bool:
    for name in ("tmp", "home"):
        (root / name).mkdir(exist_ok=True, mode=0o700)
    target = shlex.quote(str(place))
    # The memory is no file that can be read from its start, but opening it is what needs the right.
    script = (
        f'if [ -d {target} ]; then [ -n "$(ls -A {target})" ] && cat {target}/* > tmp/read; else exec 3< {target}; fi'
    )
    command = found.enclose(Command(("/bin/sh", "-c", script), root, {"PATH": "/usr/bin:/bin"}), root)
    done = subprocess.run(
        command.argv, input=command.stdin, env=dict(command.env), cwd=command.cwd, capture_output=True,
        timeout=_SECONDS, check=False,
    )  # fmt: skip
    found.end(root)
    return done.returncode == 0
