"""Whether jobs are isolated: a child starts as a job would, and tries each act that its kind of isolation is to keep it from."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from worker.children.child import Command
from worker.children.hardening import hide_from_children
from worker.children.isolation import REMEDY, Isolation, find_isolation
from worker.children.sandbox.landlock import LEAST_VERSION, version
from worker.doctor import probe
from worker.doctor.check import Check, fail, ok, warn
from worker.doctor.scene import Scene, made_scene
from worker.settings import Settings
from worker.settings.isolation import IsolationMode, IsolationWay

_ALL = frozenset(IsolationWay)
_OWN_MOUNTS = frozenset({IsolationWay.BUBBLEWRAP, IsolationWay.NAMESPACES})
_LANDLOCK = IsolationWay.LANDLOCK


@dataclass(frozen=True)
class Promise:
    """One act that a job is kept from; the name completes "a job cannot …"."""

    key: str
    name: str
    kinds: frozenset[IsolationWay] = _ALL
    least_landlock: int = 0
    """The Landlock that the kernel needs for it, whatever the kind."""

    def binds(self, way: IsolationWay | None, landlock: int) -> bool:
        """Whether it is given in this kind of isolation, on a kernel with this Landlock."""
        return way in self.kinds and landlock >= self.least_landlock


PROMISES = (
    Promise("secrets", "read the runner's secrets"),
    Promise("memory", "read the runner's memory or environment"),
    Promise("job_files", "read files of other jobs"),
    Promise("public_files", "read files outside of the system that every user can read", _OWN_MOUNTS | {_LANDLOCK}),
    Promise("processes", "see other processes", _OWN_MOUNTS),
    Promise("signals", "signal other processes, change their limits or slow them down"),
    Promise("modes", "change mode or owner of files that are not its own"),
    Promise("times", "change times of files that are not its own", _ALL - {_LANDLOCK}),
    Promise("watches", "watch files of other jobs"),
    Promise("abstract_sockets", "connect to abstract sockets of other processes", least_landlock=LEAST_VERSION),
    Promise("path_sockets", "connect to sockets in folders of the runner's user", _ALL - {_LANDLOCK}),
    Promise("shared_memory", "use System V memory, queues or semaphores of other jobs"),
    Promise("keys", "read keys that the kernel keeps for the runner"),
    Promise("settings", "change settings of the machine in /proc"),
    Promise("leftovers", "leave a process running after its step"),
)

NAME, REACH, DEPTH = "Isolation", "Reach of a job", "Length of paths"
# A provider opens a socket in its job's folder for passing files; the kernel allows its name so many characters.
LONGEST_SOCKET = 107
_SOCKET_OF_A_JOB = "job-12345678-10-01234567/tmp/plugin4294967295"
_SECONDS = 60
_NO_PYTHON = "Install python3 in /usr/bin, so that the doctor can try what a job can reach."


def isolation(settings: Settings, environ: Mapping[str, str]) -> list[Check]:
    """Show how jobs are isolated, and what a child could do that is not its own business."""
    if settings.dispatcher.is_remote:
        return [ok(NAME, f"every job has a container of its own ({settings.dispatcher.type.value})")]
    found = find_isolation(settings, environ)
    if not sys.platform.startswith("linux"):
        return [strength(found)]
    try:
        worked, is_done = attempts(found, environ)
    except (OSError, subprocess.SubprocessError) as error:
        return [fail(NAME, f"a child could not be started as a job would: {error}", REMEDY)]
    tried = reach(found, worked) if is_done else warn(REACH, "could not be tried", _NO_PYTHON)
    return [strength(found), tried, *depth(found)]


def depth(found: Isolation) -> list[Check]:
    """Warn where the name of a provider's socket would be longer than the kernel allows."""
    base = found.view.settings.working_directory.temp_directory
    room = LONGEST_SOCKET - len(f"/{_SOCKET_OF_A_JOB}")
    if found.temporary(base).parent != base or len(str(base)) <= room:
        return []
    remedy = f"Set WorkingDirectory.TempDirectory to a path of at most {room} characters, or install bubblewrap."
    return [warn(DEPTH, f"providers cannot open their sockets below {base}: the path is too long", remedy)]


def strength(found: Isolation) -> Check:
    """Compare the kind that was found with the one that the settings require."""
    if found.is_enough_for_strangers:
        return ok(NAME, f"jobs are isolated by {found.fact}")
    seen = f"jobs are {f'isolated by {found.fact}' if found.way else 'not isolated'} ({found.weakness})"
    is_required = found.view.settings.engine.isolation.mode is IsolationMode.REQUIRED
    return (fail if is_required or found.leaves_jobs_root else warn)(NAME, seen, REMEDY)


def reach(found: Isolation, worked: list[Promise]) -> Check:
    """Show what a job can do to others; a broken promise is a failure, whatever the settings are."""
    kernel = version()
    broken = [promise.name for promise in worked if promise.binds(found.way, kernel)]
    others = [promise.name for promise in worked if promise.name not in broken]
    if broken:
        return fail(REACH, f"a job can {', '.join(broken)}, although {found.fact} is to prevent it", REMEDY)
    if found.way:
        left = f"; it can {', '.join(others)}" if others else ""
        return ok(REACH, f"a child could do nothing that {found.fact} is to prevent{left}")
    is_required = found.view.settings.engine.isolation.mode is IsolationMode.REQUIRED
    return (fail if is_required else warn)(REACH, f"a job can {', '.join(others)}", REMEDY)


def attempts(found: Isolation, environ: Mapping[str, str]) -> tuple[list[Promise], bool]:
    """Run the probe as a job, and return what it could do, and whether it came to its end."""
    hide_from_children()
    base = found.view.settings.working_directory.temp_directory
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=base) as own, made_scene(base, environ) as scene:
        keys = run_probe(_with_python(found), Path(own), scene)
        if scene.end_leftovers():
            keys.add("leftovers")
        else:
            keys.discard("leftovers")
    return [promise for promise in PROMISES if promise.key in keys], "done" in keys


def run_probe(found: Isolation, root: Path, scene: Scene) -> set[str]:
    """Start the probe in a folder like a job's, and return the words that it printed."""
    for name in ("tmp", "home"):
        (root / name).mkdir(exist_ok=True, mode=0o700)
    program = Path(probe.__file__).read_text(encoding="utf-8")
    argv = (_python(), "-I", "-S", "-c", program, scene.facts)
    command = found.enclose(Command(argv, root, {"PATH": "/usr/bin:/bin"}), root)
    done = subprocess.run(
        command.argv, input=command.stdin, env=dict(command.env), cwd=command.cwd, capture_output=True,
        timeout=_SECONDS, check=False,
    )  # fmt: skip
    found.end(root)
    return set(done.stdout.decode(errors="replace").split())


def _python() -> str:
    """A Python that jobs see: the system's, or else the one that runs this."""
    return shutil.which("python3", path="/usr/bin:/usr/local/bin") or os.path.realpath(sys.executable)


def _with_python(found: Isolation) -> Isolation:
    """Show the probe its Python, where that is not part of the system."""
    if _python().startswith("/usr/"):
        return found
    settings = found.view.settings.model_copy(deep=True)
    settings.engine.isolation.read_only_paths.append(Path(sys.base_prefix))
    return replace(found, view=replace(found.view, settings=settings))
