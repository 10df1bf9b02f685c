"""Calls to the kernel and to other processes that every kind of sandbox needs.

These modules run in the keeper, which is started for every child (`python -I -S`): they import nothing of the runner, and only
modules that Python has loaded anyway or brings in itself (json, signal and typing would make it three times as slow to start).
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import errno
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

CANNOT_START = 127
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 36, 38
_SYS_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
_JOIN_SESSION = 1
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91, "riscv64": 91, "ppc64le": 184, "s390x": 185}


def watch(child: int, signals: set[int], interrupt: Any) -> int:
    """Hand the first interrupt on, bury whatever ends here, and return the child's wait status."""
    is_interrupted = False
    while True:
        if signal.sigwait(signals) == signal.SIGINT:
            if not is_interrupted:
                is_interrupted = True
                interrupt()
        elif (status := bury(child)) is not None:
            return status


def bury(child: int) -> int | None:
    """Bury whatever has ended here; return the child's wait status once it is among them."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in (child, 0):
            return status if pid == child else None


def execute(argv: list[str], env: dict[str, str]) -> NoReturn:
    """Become the program, with the signals as every program expects them; an interrupt that has come already is due here.

    Nothing can be imported any more, as `os.execvpe` would: Python itself may be in a home that the child does not see.
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


def parent_and_inner(pid: str) -> tuple[int, int]:
    """Return a process's parent, and its number inside of its own namespace."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            facts = dict(line.split(b":\t", 1) for line in file.read().splitlines() if b":\t" in line)
        return int(facts[b"PPid"]), int(facts[b"NSpid"].split()[-1])
    except (OSError, KeyError, ValueError):
        return 0, 0


def leave_keyring() -> None:
    """Begin a new keyring: a process that inherits the runner's can read its keys, in a namespace and as another user too."""
    try:
        system("syscall", _SYS_KEYCTL[os.uname().machine], _JOIN_SESSION, None)
    except OSError as error:
        # A container whose filter refuses the call refuses every other use of keys as well.
        if error.errno not in (errno.EPERM, errno.ENOSYS):
            raise


def machine_parts(folder: str = "/proc") -> list[str]:
    """List the entries of /proc that belong to no process and could be written to: the machine's settings, for root.

    The kernel compares user numbers there, not capabilities, and root in a sandbox is root's number outside.
    """
    paths = [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if not name.isdigit()]
    modes = [(path, os.lstat(path).st_mode) for path in paths]
    return [path for path, mode in modes if not stat.S_ISLNK(mode) and (stat.S_ISDIR(mode) or mode & 0o222)]


def drop_rights() -> None:
    """Keep no capability, not even by becoming root again."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    number = 0
    while prctl(PR_CAPBSET_DROP, number, must_work=False) == 0:
        number += 1
    header = ctypes().create_string_buffer((0x20080522).to_bytes(4, sys.byteorder) + bytes(4))
    system("syscall", _SYS_CAPSET[os.uname().machine], header, ctypes().create_string_buffer(24))


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


def say(text: str) -> None:
    """Write to the job's log."""
    os.write(2, f"[runyard] {text}\n".encode())
