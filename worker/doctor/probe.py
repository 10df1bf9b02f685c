"""Runs in the place of a job, with no other module of the runner: tries each act and prints the keys of those that worked."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

_SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity")
_IN_CREATE = 0x100
# To add a key, and to do everything else with keys.
KEY_CALLS = {"x86_64": (248, 250), "aarch64": (217, 219)}
SESSION_KEYRING, USER_KEYRING = -3, -4
_LINK, _SEARCH, _READ = 8, 10, 11


def read(path: str) -> None:
    """Open a file, or every file of a folder: that is what needs the right."""
    names = [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else [path]
    for name in names:
        with open(name, "rb"):
            pass


def started_at(pid: int) -> str:
    """When a process began: in a sandbox another process may have its number."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[19]


def see(found: dict[str, Any]) -> None:
    """See the runner's process."""
    if started_at(found["pid"]) != found["started_at"]:
        raise OSError


def signal(found: dict[str, Any]) -> None:
    """Reach the runner's process without doing it any harm."""
    see(found)
    os.kill(found["pid"], 0)


def limit(found: dict[str, Any]) -> None:
    """Read a limit: to change it needs the same right."""
    see(found)
    resource.prlimit(found["pid"], resource.RLIMIT_CPU)


def change_mode(path: str) -> None:
    """Set the mode that a file has already."""
    os.chmod(path, os.stat(path).st_mode & 0o7777)


def watch(path: str) -> None:
    """Ask for news about a folder."""
    libc = ctypes.CDLL(None)
    if libc.inotify_add_watch(libc.inotify_init(), path.encode(), _IN_CREATE) < 0:
        raise OSError


def connect(address: str) -> None:
    """Connect to a socket."""
    with socket.socket(socket.AF_UNIX) as mine:
        mine.connect(address)


def attach(number: int) -> None:
    """Attach shared memory, to read only."""
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    if libc.shmat(number, None, 0o10000) == ctypes.c_void_p(-1).value:
        raise OSError


def read_key(name: str) -> None:
    """Find a key in this session or, linked into it, this user's; read it."""
    libc, number = ctypes.CDLL(None), KEY_CALLS[os.uname().machine][1]
    libc.syscall(number, _LINK, USER_KEYRING, SESSION_KEYRING)
    key = libc.syscall(number, _SEARCH, SESSION_KEYRING, b"user", name.encode(), 0)
    if key < 0 or libc.syscall(number, _READ, key, ctypes.create_string_buffer(8), 8) < 0:
        raise OSError


def open_setting(path: str) -> None:
    """Open a setting for writing, and write nothing."""
    os.close(os.open(path, os.O_WRONLY))


def leave_process(mark: str) -> None:
    """Start a process that is in nobody's session and keeps none of our files open."""
    words = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", mark]
    nothing = subprocess.DEVNULL
    subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, env={})


def attempts(found: dict[str, Any]) -> Iterator[tuple[str, Callable[..., None], Any]]:
    """List each act under the key of its promise."""
    yield from (("secrets", read, place) for place in found["secrets"])
    yield from (("memory", read, f"/proc/{found['pid']}/{name}") for name in ("mem", "environ"))
    yield "job_files", read, found["file"]
    yield "public_files", read, found["public_file"]
    yield "processes", see, found
    yield from (("signals", act, found) for act in (signal, limit))
    yield from (("modes", change_mode, path) for path in (found["file"], os.path.dirname(found["file"]), "/dev/null"))
    yield "times", os.utime, found["file"]
    yield "watches", watch, os.path.dirname(found["file"])
    yield "abstract_sockets", connect, f"\0{found['abstract_socket']}"
    yield "path_sockets", connect, found["path_socket"]
    yield "shared_memory", attach, found["shared_memory"]
    yield "keys", read_key, found["mark"]
    yield from (("settings", open_setting, path) for path in _SETTINGS)
    yield "leftovers", leave_process, found["mark"]


def main() -> None:
    """Try everything, print the keys of what worked, and `done`."""
    for key, act, target in attempts(json.loads(sys.argv[1])):
        try:
            act(target)
        except (OSError, LookupError):
            continue
        print(key)
    print("done")


if __name__ == "__main__":
    main()
