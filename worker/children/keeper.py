"""The process between a runner and one child of a job: shuts it in, hands one interrupt on, returns its exit code.

It is started by path, outside of any environment (`python -I -S`), for every child: so it imports nothing of the runner, and only
what Python has loaded anyway or brings in itself (json, signal and typing would make it three times as slow to start).
What to do comes on its standard input, so that no variable of the job is in effect or in a process list out here.
It is started with interrupts blocked: one that came while Python starts would be lost, one time in a hundred.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import marshal
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

CANNOT_START = 127
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_SET_DUMPABLE = 1, 38, 24, 4
_NEW_NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x08000000  # user, mount, pid, ipc
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_SLAVE, _MNT_DETACH = 4096, 16384, 1 << 19, 2
# The same numbers on every architecture that has the calls at all.
_SYS_MOUNT_SETATTR, _AT_RECURSIVE = 442, 0x8000
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91, "riscv64": 91, "ppc64le": 184, "s390x": 185}
# How often to look for a child that bubblewrap is about to start.
_POLL_SECONDS = 0.01
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def main() -> NoReturn:
    """Read the order, shut the child in, stay until it has ended, and end like it."""
    with os.fdopen(os.dup(0), "rb") as order_file:
        order = marshal.loads(order_file.read())  # noqa: S302  (from the runner, which is the same Python)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # The runner's death is one interrupt for the child, as it is without a sandbox.
    prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    try:
        status = WAYS[order["way"]](order)
    except OSError as error:
        say(f"{error.filename or order['argv'][0]}: {error.strerror}")
        sys.exit(CANNOT_START)
    end_like(status)


def end_like(status: int) -> NoReturn:
    """Leave with the exit code of a wait status, or by the same signal."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)


# --------------------------------------------------------------------------------------------------- bubblewrap


def in_bubblewrap(order: dict[str, Any]) -> int:
    """Let bubblewrap build the sandbox; it dies with this process, and everything inside dies with it."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    words = [*bubblewrap_words(order), "--info-fd", str(writing)]
    memory = os.memfd_create("words", 0)
    os.write(memory, b"".join(word.encode() + b"\0" for word in words))
    os.lseek(memory, 0, os.SEEK_SET)
    signals = {signal.SIGINT, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    outer = os.fork()
    if outer == 0:
        argv = [order["bubblewrap"], "--args", str(memory), "--", *order["argv"]]
        execute(argv, dict(os.environ))
    os.close(memory)
    os.close(writing)
    status = watch(outer, signals, lambda: interrupt_inside(reading))
    # bubblewrap says "killed by a signal" as shells do.
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
    return code - 128 if 128 < code <= 128 + signal.SIGRTMAX else status


def bubblewrap_words(order: dict[str, Any]) -> list[str]:
    """Say the sandbox in bubblewrap's words."""
    words = [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--die-with-parent",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ]
    forms = {"ro": "--ro-bind", "rw": "--bind", "link": "--symlink"}
    for kind, source, target in order["mounts"]:
        words += ["--tmpfs", target] if kind == "empty" else [forms[kind], source, target]
    words += ["--remount-ro", "/", "--chdir", order["cwd"]]
    for name, value in order["env"].items():
        words += ["--setenv", name, value]
    return words


def interrupt_inside(info: int) -> None:
    """Interrupt the child itself: bubblewrap would take the signal for its own end."""
    answer = os.read(info, 4096)
    # {"child-pid": 123, …}
    first = int(answer.partition(b'"child-pid":')[2].replace(b"}", b",").split(b",")[0] or 0)
    while first and os.path.exists(f"/proc/{first}"):
        # The first process inside is bubblewrap's own, the second one is the child.
        found = [int(name) for name in os.listdir("/proc") if name.isdigit() and parent_and_inner(name) == (first, 2)]
        if found:
            os.kill(found[0], signal.SIGINT)
            return
        time.sleep(_POLL_SECONDS)


def parent_and_inner(pid: str) -> tuple[int, int]:
    """Return a process's parent, and its number inside of its own namespace."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            facts = dict(line.split(b":\t", 1) for line in file.read().splitlines() if b":\t" in line)
        return int(facts[b"PPid"]), int(facts[b"NSpid"].split()[-1])
    except (OSError, KeyError, ValueError):
        return 0, 0


# --------------------------------------------------------------------------------------------------- namespaces


def in_namespaces(order: dict[str, Any]) -> int:
    """Build the sandbox from the kernel's own parts."""
    user, group = os.geteuid(), os.getegid()
    system("unshare", _NEW_NAMESPACES)
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{user} {user} 1")
    write("/proc/self/gid_map", f"{group} {group} 1")
    signals = {signal.SIGINT, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    reading, writing = os.pipe()
    first = os.fork()
    if first == 0:
        os.close(reading)
        be_first(order, signals, writing)
    os.close(writing)
    status = watch(first, signals, lambda: os.kill(first, signal.SIGINT))
    answer = os.read(reading, 32)
    return int(answer) if answer else status


def be_first(order: dict[str, Any], signals: set[int], writing: int) -> NoReturn:
    """Be the first process inside: everything else in there ends with it."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        build_root(order["mounts"])
        os.chdir(order["cwd"])
        drop_rights()
    except OSError as error:
        say(f"the sandbox cannot be built: {error.filename or ''} {error.strerror}")
        os._exit(CANNOT_START)
    child = os.fork()
    if child == 0:
        execute(order["argv"], order["env"])
    prctl(_PR_SET_DUMPABLE, 0)
    status = watch(child, signals, lambda: os.kill(child, signal.SIGINT))
    os.write(writing, str(status).encode())
    os._exit(0)


def build_root(mounts: list[tuple[str, str, str]]) -> None:
    """Put a new root together from parts of the old one, and let go of the rest."""
    mount("none", "/", "", _MS_REC | _MS_SLAVE)
    mount("tmpfs", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    for folder in ("/tmp/new", "/tmp/old"):
        os.mkdir(folder)
    mount("/tmp/new", "/tmp/new", "", _MS_BIND)
    pivot("/tmp", "/tmp/old")
    os.mkdir("/new/proc")
    mount("proc", "/new/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    build_devices("/new/dev")
    for kind, source, target in mounts:
        place(kind, source, "/new" + target)
    set_read_only("/new", 0)
    os.chdir("/new")
    pivot(".", ".")
    system("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def place(kind: str, source: str, target: str) -> None:
    """Make one part of the new root."""
    if kind == "link":
        os.symlink(source, target)
        return
    if kind == "empty":
        os.makedirs(target, exist_ok=True)
        mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
        return
    old = "/old" + source
    if os.path.isdir(old):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.lexists(target):
            touch(target)
    mount(old, target, "", _MS_BIND | _MS_REC)
    if kind == "ro":
        set_read_only(target, _AT_RECURSIVE)


def build_devices(folder: str) -> None:
    """Make the few devices that every program expects."""
    os.mkdir(folder)
    mount("tmpfs", folder, "tmpfs", _MS_NOSUID | _MS_NOEXEC, "mode=755")
    for name in DEVICES:
        if os.path.exists(f"/old/dev/{name}"):
            touch(f"{folder}/{name}")
            mount(f"/old/dev/{name}", f"{folder}/{name}", "", _MS_BIND)
    os.mkdir(f"{folder}/shm", 0o1777)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{folder}/{name}")


def drop_rights() -> None:
    """Keep no capability, not even by becoming root again."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    number = 0
    while prctl(_PR_CAPBSET_DROP, number, must_work=False) == 0:
        number += 1
    header = ctypes().create_string_buffer((0x20080522).to_bytes(4, sys.byteorder) + bytes(4))
    system("syscall", _SYS_CAPSET[os.uname().machine], header, ctypes().create_string_buffer(24))


# --------------------------------------------------------------------------------------------------- a user


def as_user(order: dict[str, Any]) -> int:
    """Become the job's own user; the runner ends everything of this user afterwards."""
    os.setgroups([])
    os.setresgid(order["user"], order["user"], order["user"])
    os.setresuid(order["user"], order["user"], order["user"])
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    # Changing the user has taken the wish back.
    prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    os.chdir(order["cwd"])
    execute(order["argv"], order["env"])


# --------------------------------------------------------------------------------------------------- Landlock


def with_landlock(order: dict[str, Any]) -> int:
    """Load what only this way needs, from beside this file."""
    sys.path.append(order["packages"])
    sys.modules["worker.children.keeper"] = sys.modules[__name__]
    from worker.children.landlock import in_landlock

    return in_landlock(order)


WAYS = {"bubblewrap": in_bubblewrap, "namespaces": in_namespaces, "user": as_user, "landlock": with_landlock}

# --------------------------------------------------------------------------------------------------- the kernel


def watch(child: int, signals: set[int], interrupt: Any) -> int:
    """Hand the first interrupt on, bury whatever ends here, and return the child's wait status."""
    is_interrupted = False
    while True:
        if signal.sigwait(signals) == signal.SIGINT:
            if not is_interrupted:
                is_interrupted = True
                interrupt()
            continue
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == child:
                return status
            if pid == 0:
                break


def execute(argv: list[str], env: dict[str, str]) -> NoReturn:
    """Become the program, with the signals as every program expects them; an interrupt that has come already is due here.

    Nothing can be imported any more, as `os.execvpe` would: Python itself may lie in a home that the child does not see.
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    name, problem = argv[0], ""
    for folder in [""] if "/" in name else env.get("PATH", os.defpath).split(":"):
        try:
            os.execve(os.path.join(folder, name), argv, env)
        except (FileNotFoundError, NotADirectoryError) as error:
            problem = problem or str(error.strerror)
        except OSError as error:
            problem = str(error.strerror)
    say(f"{name}: {problem}")
    os._exit(CANNOT_START)


def set_read_only(target: str, flags: int) -> None:
    """Take away the right to write, from everything mounted below as well where `flags` say so."""
    read_only = (_MS_RDONLY | _MS_NOSUID).to_bytes(8, sys.byteorder) + bytes(24)
    attributes = ctypes().create_string_buffer(read_only, 32)
    system("syscall", _SYS_MOUNT_SETATTR, -100, target.encode(), flags, attributes, 32)


def pivot(new: str, old: str) -> None:
    """Make one folder the root, and put the old root into another."""
    system("syscall", _SYS_PIVOT_ROOT[os.uname().machine], new.encode(), old.encode())
    os.chdir("/")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount something somewhere."""
    system("mount", source.encode(), target.encode(), kind.encode() or None, flags, options.encode() or None)


def prctl(option: int, value: int, *, must_work: bool = True) -> int:
    """Set something about this process."""
    result = int(libc().prctl(option, int(value), 0, 0, 0))
    if result != 0 and must_work:
        raise OSError(ctypes().get_errno(), "the kernel refuses a setting of the process")
    return result


def system(name: str, *arguments: Any) -> int:
    """Call a function of the C library that answers -1 when it fails."""
    words = [ctypes().c_long(each) if isinstance(each, int) else each for each in arguments]
    answer = int(getattr(libc(), name)(*words))
    if answer == -1:
        error = ctypes().get_errno()
        where = next((each.decode() for each in arguments[1:] if isinstance(each, bytes)), name)
        raise OSError(error, os.strerror(error), where)
    return answer


def ctypes() -> Any:
    """Import it late: a user of one's own needs it for one call only."""
    import ctypes as module

    return module


def libc(kept: list[Any] = []) -> Any:  # noqa: B006  (loaded once: it costs more than what is called)
    """The C library."""
    if not kept:
        kept.append(ctypes().CDLL(None, use_errno=True))
    return kept[0]


def touch(path: str) -> None:
    """Make an empty file to mount something on."""
    os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o644))


def write(path: str, text: str) -> None:
    """Write to a file of the kernel in one go."""
    with open(path, "wb", buffering=0) as file:
        file.write(text.encode())


def say(text: str) -> None:
    """Tell the job's log."""
    os.write(2, f"[runyard] {text}\n".encode())


if __name__ == "__main__":
    main()
