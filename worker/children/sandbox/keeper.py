"""The process between a runner and one child of a job: isolates it, passes one interrupt on, ends with its exit code.

It runs outside of any environment (`python -I -S`), for every child. Its order arrives on standard input, so that no variable of the
job takes effect or shows in a process list out here. It starts with interrupts blocked: Python would lose one in a hundred of those
that arrive while it starts.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import marshal
import os
import sys

from worker.children.sandbox import kernel
from worker.children.sandbox.bubblewrap import in_bubblewrap
from worker.children.sandbox.landlock import close_abstract_sockets, in_landlock
from worker.children.sandbox.namespaces import in_namespaces
from worker.children.sandbox.seccomp import close_network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def main() -> NoReturn:
    """Read the order, shut the child in, stay until it has ended, and end like it."""
    with os.fdopen(os.dup(0), "rb") as order_file:
        order = marshal.loads(order_file.read())  # noqa: S302  (from the runner, which is the same Python)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # The runner's death is one interrupt for the child, as it is without a sandbox.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGINT)
    try:
        kernel.leave_keyring()
        if order["is_offline"]:
            close_network()
        status = WAYS[order["way"]](order)
    except OSError as error:
        kernel.say(f"{error.filename or order['argv'][0]}: {error.strerror}")
        sys.exit(kernel.CANNOT_START)
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


def as_user(order: dict[str, Any]) -> int:
    """Become the job's own user; the runner ends everything of this user afterwards."""
    os.setgroups([])
    os.setresgid(order["user"], order["user"], order["user"])
    os.setresuid(order["user"], order["user"], order["user"])
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    close_abstract_sockets()
    # Changing the user has taken the wish back.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGINT)
    os.chdir(order["cwd"])
    kernel.execute(order["argv"], order["env"])


def unshut(order: dict[str, Any]) -> int:
    """Become the program where nothing isolates jobs."""
    os.chdir(order["cwd"])
    kernel.execute(order["argv"], order["env"])


WAYS = {
    "none": unshut,
    "bubblewrap": in_bubblewrap,
    "namespaces": in_namespaces,
    "user": as_user,
    "landlock": in_landlock,
}
