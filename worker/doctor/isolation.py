"""Whether jobs are isolated: a child starts as a job would, and tries each act that its kind of isolation is to keep it from."""

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from worker.children.child import Command
from worker.children.hardening import hide_from_children
from worker.children.isolation import REMEDY, Isolation, find_isolation
from worker.children.sandbox.landlock import LEAST_VERSION, version
from worker.doctor import probe
from worker.doctor.check import Check, fail, ok, warn
from worker.doctor.probe import KEY_CALLS, SESSION_KEYRING, started_at
from worker.settings.dispatcher import IsolationMode, IsolationWay
from worker.settings.load import secret_places
from worker.settings.model import Settings

_END_SECONDS, _POLL_SECONDS = 5.0, 0.05
_IPC_CREAT, _IPC_RMID = 0o1000, 0
_KEYCTL_UNLINK = 9


@dataclass(frozen=True)
class Scene:
    """The probe's settings, and the mark of the process that it tries to leave."""

    facts: str
    mark: str

    def end_leftovers(self) -> bool:
        """Return whether a process of the probe still runs after seconds, and end it."""
        ends_at = time.monotonic() + _END_SECONDS
        while (pids := list(self._leftovers())) and time.monotonic() < ends_at:
            time.sleep(_POLL_SECONDS)
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return bool(pids)

    def _leftovers(self) -> Iterator[int]:
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if entry.read_bytes().split(b"\0")[-2:-1] == [self.mark.encode()]:
                    yield int(entry.parent.name)


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


@contextmanager
def made_scene(base: Path, environ: Mapping[str, str]) -> Iterator[Scene]:
    """Make what the probe looks for, beside the folders of jobs."""
    mark = f"runyard-doctor-{uuid.uuid4().hex}"
    with ExitStack() as stack:
        other, public = (Path(stack.enter_context(tempfile.TemporaryDirectory(dir=base))) for _ in range(2))
        public.chmod(0o755)
        for folder, mode in ((other, 0o600), (public, 0o644)):
            (folder / "state").touch(mode)
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="runyard-")), "socket")
        for address in (str(sockets), f"\0{mark}"):
            stack.enter_context(_listener(address))
        stack.enter_context(_key(mark))
        facts = {
            "pid": os.getpid(),
            "started_at": started_at(os.getpid()),
            "secrets": [str(place) for place in secret_places(environ) if _is_secret(place)],
            "file": str(other / "state"),
            "public_file": str(public / "state"),
            "path_socket": str(sockets),
            "abstract_socket": mark,
            "shared_memory": stack.enter_context(_shared_memory()),
            "mark": mark,
        }
        yield Scene(json.dumps(facts), mark)


@contextmanager
def _listener(address: str) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as outside:
        outside.bind(address)
        outside.listen()
        yield


@contextmanager
def _shared_memory() -> Iterator[int]:
    """A piece that only this user may attach; -1 where the system has none, which nobody attaches."""
    libc = ctypes.CDLL(None)
    number = int(libc.shmget(0, 4096, _IPC_CREAT | 0o600))
    try:
        yield number
    finally:
        libc.shmctl(number, _IPC_RMID, None)


@contextmanager
def _key(name: str) -> Iterator[None]:
    """A key in this process's keyring; none where keys cannot be used."""
    libc = ctypes.CDLL(None)
    add, control = KEY_CALLS.get(os.uname().machine, (-1, -1))
    number = libc.syscall(add, b"user", name.encode(), b"secret", 6, SESSION_KEYRING)
    try:
        yield
    finally:
        libc.syscall(control, _KEYCTL_UNLINK, number, SESSION_KEYRING)


def _is_secret(place: Path) -> bool:
    return os.access(place, os.R_OK) and (place.is_file() or any(place.iterdir()))
