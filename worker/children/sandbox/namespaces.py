"""The sandbox made of the kernel's own namespaces, for machines without bubblewrap."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import sys

from worker.children.sandbox import kernel
from worker.children.sandbox.landlock import close_abstract_sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NEW_MOUNTS = 0x00020000
_NEW_NAMESPACES = 0x10000000 | NEW_MOUNTS | 0x20000000 | 0x08000000  # user, mount, pid, ipc
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_SLAVE, _MNT_DETACH = 4096, 16384, 1 << 19, 2
# The same numbers on every architecture that has the calls at all.
_SYS_MOUNT_SETATTR, _AT_RECURSIVE = 442, 0x8000
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def in_namespaces(order: dict[str, Any]) -> int:
    """Build the sandbox from the kernel's own parts."""
    user, group = os.geteuid(), os.getegid()
    kernel.system("unshare", _NEW_NAMESPACES)
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
    status = kernel.watch(first, signals, lambda: os.kill(first, signal.SIGINT))
    answer = os.read(reading, 32)
    return int(answer) if answer else status


def be_first(order: dict[str, Any], signals: set[int], writing: int) -> NoReturn:
    """Be the first process inside: everything else in there ends with it."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        build_root(order["mounts"])
        os.chdir(order["cwd"])
        kernel.drop_rights()
        close_abstract_sockets()
    except OSError as error:
        kernel.say(f"the sandbox cannot be built: {error.filename or ''} {error.strerror}")
        os._exit(kernel.CANNOT_START)
    child = os.fork()
    if child == 0:
        kernel.execute(order["argv"], order["env"])
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    status = kernel.watch(child, signals, lambda: os.kill(child, signal.SIGINT))
    os.write(writing, str(status).encode())
    os._exit(0)


def build_root(mounts: list[tuple[str, str, str]]) -> None:
    """Build a new root from parts of the old one, and detach the rest."""
    detach_mounts()
    mount("tmpfs", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    for folder in ("/tmp/new", "/tmp/old"):
        os.mkdir(folder)
    mount("/tmp/new", "/tmp/new", "", _MS_BIND)
    pivot("/tmp", "/tmp/old")
    build_processes("/new")
    build_devices("/new/dev")
    for kind, source, target in mounts:
        place(kind, source, "/new" + target)
    set_read_only("/new", 0)
    os.chdir("/new")
    pivot(".", ".")
    kernel.system("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def build_processes(root: str) -> None:
    """Show the processes of the sandbox, and the machine's settings to read only."""
    os.mkdir(f"{root}/proc")
    mount("proc", f"{root}/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for part in kernel.machine_parts(f"{root}/proc"):
        mount(part, part, "", _MS_BIND)
        set_read_only(part, 0)


def detach_mounts() -> None:
    """Keep the mounts of this namespace from appearing outside."""
    mount("none", "/", "", _MS_REC | _MS_SLAVE)


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
            show_device(f"/old/dev/{name}", f"{folder}/{name}")
    os.mkdir(f"{folder}/shm", 0o1777)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{folder}/{name}")


def show_device(source: str, target: str) -> None:
    """Show a device that can be written to as before, but whose owner and mode are fixed, for root as well."""
    mount(source, target, "", _MS_BIND)
    set_read_only(target, 0)


def set_read_only(target: str, flags: int) -> None:
    """Take away the right to write, from everything mounted below as well where `flags` require it."""
    read_only = (_MS_RDONLY | _MS_NOSUID).to_bytes(8, sys.byteorder) + bytes(24)
    attributes = kernel.ctypes().create_string_buffer(read_only, 32)
    kernel.system("syscall", _SYS_MOUNT_SETATTR, -100, target.encode(), flags, attributes, 32)


def pivot(new: str, old: str) -> None:
    """Make one folder the root, and put the old root into another."""
    kernel.system("syscall", _SYS_PIVOT_ROOT[os.uname().machine], new.encode(), old.encode())
    os.chdir("/")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount something somewhere."""
    kernel.system("mount", source.encode(), target.encode(), kind.encode() or None, flags, options.encode() or None)


def touch(path: str) -> None:
    """Make an empty file to mount something on."""
    os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o644))


def write(path: str, text: str) -> None:
    """Write to a file of the kernel in one go."""
    with open(path, "wb", buffering=0) as file:
        file.write(text.encode())
