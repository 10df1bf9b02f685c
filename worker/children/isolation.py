"""Isolates every child of a job, in the strongest way that this machine allows."""

import errno
import marshal
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from worker.children.child import Command
from worker.children.mounts import View
from worker.children.sandbox.landlock import LEAST_VERSION, version
from worker.children.sandbox.seccomp import is_supported
from worker.children.users import COOKIE_VARIABLE, end_processes, give_folder, pick_user, user_of
from worker.settings.dispatcher import IsolationMode, IsolationWay
from worker.settings.load import secret_places
from worker.settings.model import Settings

NONE, OFF, CONTAINER = "none", "off", "container"
REMEDY = (
    "Install bubblewrap (`apt-get install bubblewrap`, `dnf install bubblewrap`) and let this user make user namespaces, "
    "or give every job a container of its own with a dispatcher."
)
_PACKAGES = str(Path(__file__).parents[2])
# Python's own library comes first on the path; the runner's packages beside `worker` are not loaded.
KEEPER = (
    "-I", "-S", "-c",
    f"import sys; sys.path.append({_PACKAGES!r}); from worker.children.sandbox.keeper import main; main()",
)  # fmt: skip
# A trial that takes longer proves nothing about the kind: the runner ends and is started again, rather than continuing with less.
_PROBE_SECONDS = 60
# A way that leaves the runner's secrets in reach is none: as another user one reads what everybody may read.
_KEPT = """for each in PLACE PLACE/*; do
  if [ -f "$each" ] && cat "$each" > /dev/null 2>&1; then echo "a job could read $each"; exit 1; fi
done"""


@dataclass(frozen=True)
class Isolation:
    """The isolation of jobs on this machine; without a way there is none, and `why` has the obstacle of each way."""

    view: View
    way: IsolationWay | None = None
    why: str = ""
    bubblewrap: str = ""

    @property
    def fact(self) -> str:
        """The kind of isolation, as the runner's page shows it."""
        settings = self.view.settings
        if settings.dispatcher.is_remote:
            return CONTAINER
        if settings.engine.isolation.mode is IsolationMode.OFF:
            return OFF
        return self.way.value if self.way else NONE

    @property
    def is_enough_for_strangers(self) -> bool:
        """Whether jobs of different organisations may share this runner: Landlock leaves sockets of this user in reach."""
        return self.fact not in {NONE, OFF, IsolationWay.LANDLOCK}

    @property
    def are_jobs_root(self) -> bool:
        """Whether the processes of a job are root to the kernel, whatever is mounted and dropped around them."""
        return os.geteuid() == 0 and self.fact not in {CONTAINER, IsolationWay.USER}

    @property
    def leaves_jobs_root(self) -> bool:
        """Whether no kind works here, so that a job would be root on this machine. Not with `off` or no kind to try."""
        return self.fact == NONE and bool(self.view.settings.engine.isolation.ways) and os.geteuid() == 0

    @property
    def common_places(self) -> list[str]:
        """The paths where one job could leave something for the next; jobs in containers of their own have none."""
        settings = self.view.settings
        paths = (
            []
            if settings.dispatcher.is_remote
            else [*settings.engine.isolation.writable_paths, *self.view.plugin_cache()]
        )
        return [str(path) for path in paths]

    @property
    def warning(self) -> str:
        """The first line of a job's log where nothing isolates the job; nothing where something does."""
        if self.fact not in {NONE, OFF}:
            return ""
        reason = self.why or "switched off by Engine.Isolation"
        return f"[runyard] Not isolated: this job can do everything that its runner's user can ({reason})."

    @property
    def weakness(self) -> str:
        """The reason why strangers may not share this runner."""
        if self.way is IsolationWay.LANDLOCK:
            return "Landlock leaves sockets of this user in reach"
        return self.why or "switched off"

    def temporary(self, root: Path) -> Path:
        """Return the folder for temporary files of a job: the short /tmp where a sandbox replaces the system's, else one below `root`."""
        has_own_view = self.way in {IsolationWay.BUBBLEWRAP, IsolationWay.NAMESPACES}
        return Path("/tmp") if has_own_view else root / "tmp"  # noqa: S108

    def shows(self, path: Path) -> bool:
        """Whether a job's source may be a place of the machine."""
        return self.view.settings.engine.isolation.mode is IsolationMode.OFF or self.view.shows(path)

    def enclose(self, command: Command, root: Path, *, for_git: bool = False) -> Command:
        """Return the command that runs another one isolated, with its job's folder."""
        if self.way is None and not command.is_offline:
            return command
        if command.is_offline and not (sys.platform.startswith("linux") and is_supported()):
            raise OSError(errno.ENOSYS, "this machine cannot keep a program from the network", command.argv[0])
        if shutil.which(command.argv[0], path=command.env.get("PATH")) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command.argv[0])
        order = {
            "way": self.way.value if self.way else NONE,
            "is_offline": command.is_offline,
            "argv": command.argv,
            "cwd": str(command.cwd),
            **self._order(command, root, for_git),
        }
        cookie = {name: value for name, value in command.env.items() if name == COOKIE_VARIABLE}
        return replace(
            command,
            argv=(sys.executable, *KEEPER),
            cwd=Path("/"),
            env=cookie,
            stdin=marshal.dumps(order),
            is_interrupt_blocked=True,
        )

    def end(self, root: Path) -> None:
        """End what a child left behind; in a sandbox everything has ended with it already."""
        if user := user_of(root):
            end_processes(user)

    def _order(self, command: Command, root: Path, for_git: bool) -> dict[str, Any]:
        if self.way is None:
            return {"env": dict(command.env)}
        if self.way is IsolationWay.USER:
            user = user_of(root) or pick_user()
            give_folder(root, user)
            return {"user": user, "env": {**command.env, "HOME": str(root / "home")}}
        if self.way is IsolationWay.LANDLOCK:
            home = {} if for_git else {"HOME": str(root / "home")}
            return {
                "allowed": self.view.allowed(root, command.env, for_git=for_git), "links": self.view.links(root / "home"),
                "env": {**command.env, **home},
            }  # fmt: skip
        mounts = self.view.mounts(root, command.env, for_git=for_git)
        return {"mounts": mounts, "env": dict(command.env), "bubblewrap": self.bubblewrap}


def _search(view: View) -> Isolation:
    """Try each way with a child that does nothing."""
    problems = []
    for way in view.settings.engine.isolation.ways:
        found = Isolation(view, way, bubblewrap=shutil.which("bwrap") or "")
        problem = _obstacle(found) or _try(found)
        if not problem:
            return found
        problems.append(f"{way.value}: {problem}")
    return Isolation(view, why="; ".join(problems))


def _obstacle(isolation: Isolation) -> str:
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    if isolation.way is IsolationWay.BUBBLEWRAP and not isolation.bubblewrap:
        return "bwrap is not installed"
    if isolation.way is IsolationWay.USER and os.geteuid() != 0:
        return "needs root"
    if isolation.way is IsolationWay.LANDLOCK and (has := version()) < LEAST_VERSION:
        return f"needs Landlock {LEAST_VERSION}, as Linux 6.12 has it; here is {has or 'none'}"
    if isolation.way is IsolationWay.LANDLOCK and not is_supported():
        return "its filter of system calls needs x86-64 or arm64"
    return ""


def _try(isolation: Isolation) -> str:
    """Run the shell in a folder like a job's, with every engine in reach."""
    base = isolation.view.settings.working_directory.temp_directory
    try:
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        if isolation.way is IsolationWay.USER:
            # Passed through by the jobs' users; each one's own folder in it is closed to the others.
            base.chmod(0o711)
        with tempfile.TemporaryDirectory(prefix="isolation-", dir=base) as folder:
            return try_out(isolation, Path(folder))
    except OSError as error:
        return f"{error.filename or base}: {error.strerror}"


def find_isolation(
    settings: Settings, environ: Mapping[str, str], engines: Callable[[], Iterable[Path]] = tuple
) -> Isolation:
    """Find the first way that works here; no search where it is off or every job has a container."""
    view = View(settings, environ, engines)
    if settings.engine.isolation.mode is IsolationMode.OFF or settings.dispatcher.is_remote:
        return Isolation(view)
    return _search(view)


def try_out(isolation: Isolation, root: Path) -> str:
    """Return why a child cannot run like this, or nothing."""
    for name in ("tmp", "home"):
        (root / name).mkdir(mode=0o700)
    view = isolation.view
    folders = (folder for folder in view.settings.engine.additional_binary_paths if os.access(folder, os.X_OK))
    tests = [f"test -x {shlex.quote(str(each))}" for each in (*view.engines(), *folders)]
    kept = [_KEPT.replace("PLACE", shlex.quote(str(place))) for place in secret_places(view.environ)]
    script = "\n".join([*kept, " && ".join([*tests, "echo . > tmp/probe"])])
    command = Command(("sh", "-c", script), root, {"PATH": "/usr/bin:/bin"})
    enclosed = isolation.enclose(command, root)
    done = subprocess.run(
        enclosed.argv, input=enclosed.stdin, env=dict(enclosed.env), cwd=enclosed.cwd, capture_output=True,
        timeout=_PROBE_SECONDS, check=False,
    )  # fmt: skip
    said = (done.stdout + done.stderr).decode(errors="replace").strip()
    return "" if done.returncode == 0 else said or "a child cannot reach its folder or its engine"
