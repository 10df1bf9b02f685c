"""The sandbox that needs no right at all: a process gives up what it may open, for itself and for all that it starts.

Landlock works where no namespace can be made: in a container with Docker's defaults, in a pod, in a chroot. Processes are not
apart in it, so one of ours stays outside, adopts whatever the child abandons, and ends it.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import _socket
import _thread
import os
import stat
import sys

from worker.children.sandbox import kernel
from worker.children.sandbox.permissions import serve
from worker.children.sandbox.seccomp import install

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

# With this version of it (Linux 6.12) a process can neither signal nor reach abstract sockets outside.
LEAST_VERSION = 6
_SYS_CREATE, _SYS_ADD, _SYS_RESTRICT = 444, 445, 446
_ASK_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 14, 1 << 15
_EVERYTHING = (1 << 16) - 1
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_RIGHTS = {"ro": _EXECUTE | _READ_FILE | _READ_DIR, "rw": _EVERYTHING}
_SOCKETS, _SIGNALS = 1, 2


def version() -> int:
    """Return which Landlock the kernel has; 0 where it has none, or where it is switched off."""
    try:
        return kernel.system("syscall", _SYS_CREATE, None, 0, _ASK_VERSION)
    except OSError:
        return 0


def in_landlock(order: dict[str, Any]) -> int:
    """Run the child below a process that outlives a kill of the child's group just long enough to end the rest."""
    signals = {signal.SIGINT, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, {*signals, signal.SIGTERM})
    reading, writing = os.pipe()
    leader = os.getpid()
    guardian = os.fork()
    if guardian == 0:
        os.close(reading)
        guard(order, leader, writing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    os.close(writing)
    status = kernel.watch(guardian, signals, lambda: os.kill(guardian, signal.SIGINT))
    answer = os.read(reading, 32)
    return int(answer) if answer else status


def guard(order: dict[str, Any], leader: int, writing: int) -> NoReturn:
    """Adopt whatever is abandoned; end all of it with the child, or with the leader."""
    os.setsid()
    # Root's rights would pass some of the limits: one of them reads every process's memory. This process changes modes for the child.
    kernel.drop_rights()
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != leader:
        os._exit(kernel.CANNOT_START)
    channel, childs_end = _socket.socketpair()
    child = os.fork()
    if child == 0:
        os.close(writing)
        channel.close()
        run(order, childs_end)
    childs_end.close()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    if listener := receive(channel):
        own = [path for kind, path in order["allowed"] if kind == "rw" and not path.startswith("/dev/")]
        _thread.start_new_thread(serve, (listener, own))
    status = stay(child)
    end_descendants()
    if status is not None:
        os.write(writing, str(status).encode())
    os._exit(0)


def receive(channel: _socket.socket) -> int:
    """Receive the child's filter; 0 where the child ended before it had one."""
    _, messages, *_ = channel.recvmsg(1, _socket.CMSG_SPACE(4))
    channel.close()
    return int.from_bytes(messages[0][2], sys.byteorder) if messages else 0


def run(order: dict[str, Any], channel: _socket.socket) -> NoReturn:
    """Give up everything but what is named, and become the program."""
    try:
        os.chdir(order["cwd"])
        restrict(order["allowed"])
        link_home(order["links"])
        listener = install()
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))]
        channel.sendmsg([b"."], rights)
        # With it a job could answer its own calls.
        os.close(listener)
        channel.close()
    except OSError as error:
        kernel.say(f"the sandbox cannot be built: {error.filename or ''} {error.strerror}")
        os._exit(kernel.CANNOT_START)
    kernel.execute(order["argv"], order["env"])


def link_home(links: list[tuple[str, str]]) -> None:
    """Show what the operator named of the runner's home in the job's own; the limits hold already, whatever a job left in the way."""
    for source, name in links:
        try:
            os.makedirs(os.path.dirname(name), exist_ok=True)
            os.symlink(source, name)
        except OSError:
            continue


def stay(child: int) -> int | None:
    """Hand the first interrupt on, bury what ends here; return the child's wait status, or nothing when all is to end."""
    is_interrupted = False
    while True:
        number = signal.sigwait({signal.SIGINT, signal.SIGCHLD, signal.SIGTERM})
        if number == signal.SIGTERM:
            return None
        if number == signal.SIGINT and not is_interrupted:
            is_interrupted = True
            os.kill(child, signal.SIGINT)
        if (status := kernel.bury(child)) is not None:
            return status


def end_descendants() -> None:
    """Kill children until there are none: those of a killed one become ours."""
    me = os.getpid()
    while has_child():
        for name in os.listdir("/proc"):
            if name.isdigit() and kernel.parent_and_inner(name)[0] == me:
                os.kill(int(name), signal.SIGKILL)


def has_child() -> bool:
    """Reap the processes that have ended, and return whether any is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def restrict(allowed: list[tuple[str, str]]) -> None:
    """Let go of every file, signal and abstract socket that is not named, for good."""
    rules = make_rules(_EVERYTHING, _SOCKETS | _SIGNALS)
    for kind, path in allowed:
        allow(rules, kind, path)
    apply(rules)


def close_abstract_sockets() -> None:
    """Let go of the abstract sockets of other processes: the network's other names stay, so no namespace closes them."""
    if version() >= LEAST_VERSION:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        apply(make_rules(0, _SOCKETS))


def make_rules(files: int, scope: int) -> int:
    """Begin a list of what stays in reach, of these kinds of access to files and this scope."""
    wishes = b"".join(each.to_bytes(8, sys.byteorder) for each in (files, 0, scope))
    return kernel.system(
        "syscall", _SYS_CREATE, kernel.ctypes().create_string_buffer(wishes, len(wishes)), len(wishes), 0
    )


def apply(rules: int) -> None:
    """Limit this process and all that it starts to a list."""
    kernel.system("syscall", _SYS_RESTRICT, rules, 0)
    os.close(rules)


def allow(rules: int, kind: str, path: str) -> None:
    """Name one file or folder; what has gone meanwhile is nobody's loss."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    rights = _RIGHTS[kind] if stat.S_ISDIR(os.fstat(place).st_mode) else _RIGHTS[kind] & _OF_A_FILE
    rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
    kernel.system("syscall", _SYS_ADD, rules, _PATH_BENEATH, kernel.ctypes().create_string_buffer(rule, len(rule)), 0)
    os.close(place)
