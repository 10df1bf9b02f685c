"""The sandbox that bubblewrap builds."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import stat
import time

from worker.children.sandbox.kernel import execute, machine_parts, parent_and_inner, system, watch
from worker.children.sandbox.landlock import close_abstract_sockets
from worker.children.sandbox.namespaces import DEVICES, NEW_MOUNTS, detach_mounts, show_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# How often to look for a child that bubblewrap is about to start.
_POLL_SECONDS = 0.01


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
        prepare(order["bubblewrap"])
        argv = [order["bubblewrap"], "--args", str(memory), "--", *order["argv"]]
        execute(argv, dict(os.environ))
    os.close(memory)
    os.close(writing)
    status = watch(outer, signals, lambda: interrupt_inside(reading))
    # bubblewrap says "killed by a signal" as shells do.
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
    return code - 128 if 128 < code <= 128 + signal.SIGRTMAX else status


def prepare(program: str) -> None:
    """Do what bubblewrap has no option for: fix root's devices, and close abstract sockets."""
    if os.geteuid() == 0:
        system("unshare", NEW_MOUNTS)
        detach_mounts()
        for name in DEVICES:
            if os.path.exists(f"/dev/{name}"):
                show_device(f"/dev/{name}", f"/dev/{name}")
    # A setuid bubblewrap would lose its right, and the sandbox with it.
    if os.geteuid() == 0 or not os.stat(program).st_mode & stat.S_ISUID:
        close_abstract_sockets()


def bubblewrap_words(order: dict[str, Any]) -> list[str]:
    """Build bubblewrap's arguments for the sandbox."""
    words = [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent"),
        # As root bubblewrap would leave a job every right inside, to unmount what covers secrets.
        *("--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"),
    ]
    for part in machine_parts():
        words += ["--ro-bind", part, part]
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
