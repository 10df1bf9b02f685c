"""The filter of system calls that goes with Landlock, which has no rule for them.

Refused: limits, priorities and processors of other processes (they would end or slow down the runner), watches on files (they show the
names of other jobs' files), extended attributes, which contain access lists, and shared memory, queues and keys of a user. io_uring is
refused because its calls pass no filter. A child that is to reach no network gets a filter of its own before, in every kind of sandbox.
`chmod` and `chown` are needed on a job's own files: the filter passes them to the guardian, which carries them out there and nowhere else.
"""

from __future__ import annotations

import errno
import os

from worker.children.sandbox.kernel import PR_SET_NO_NEW_PRIVS, ctypes, prctl, system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CALLS = {
    "x86_64": {
        "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semctl": 66, "msgget": 68, "msgsnd": 69, "msgrcv": 70,
        "msgctl": 71, "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94, "setpriority": 141, "sched_setparam": 142,
        "sched_setscheduler": 144, "sched_setaffinity": 203, "ioprio_set": 251, "sched_setattr": 314, "setxattr": 188, "lsetxattr": 189,
        "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "semtimedop": 220, "mq_open": 240,
        "mq_unlink": 241, "add_key": 248, "request_key": 249, "keyctl": 250, "inotify_add_watch": 254, "fchownat": 260,
        "fchmodat": 268, "fanotify_init": 300, "prlimit64": 302, "seccomp": 317,
    },
    "aarch64": {
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16,
        "ioprio_set": 30, "sched_setparam": 118, "sched_setscheduler": 119, "sched_setaffinity": 122, "setpriority": 140,
        "sched_setattr": 274,
        "inotify_add_watch": 27, "fchmod": 52, "fchmodat": 53, "fchownat": 54, "fchown": 55, "mq_open": 180, "mq_unlink": 181,
        "msgget": 186, "msgctl": 187, "msgrcv": 188, "msgsnd": 189, "semget": 190, "semctl": 191, "semtimedop": 192, "semop": 193,
        "shmget": 194, "shmctl": 195, "shmat": 196, "add_key": 217, "request_key": 218, "keyctl": 219, "prlimit64": 261,
        "fanotify_init": 262, "seccomp": 277,
    },
}  # fmt: skip
_SOCKET, _AF_UNIX = {"x86_64": 41, "aarch64": 198}, 1
# The same numbers on every architecture.
_COMMON_CALLS = {"io_uring_setup": 425, "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469}
PASSED_ON = ("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat")
_WATCHES = ("inotify_add_watch", "fanotify_init")
_ATTRIBUTES = (
    "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_setattr",
)  # fmt: skip
# Memory, queues and keys that belong to a user and have no path.
_OBJECTS = (
    "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink",
    "add_key", "request_key", "keyctl",
)  # fmt: skip
# A process may change these for itself alone: the values of the first arguments that mean "me".
_OWN_ONLY = {
    "prlimit64": (0,), "sched_setparam": (0,), "sched_setscheduler": (0,), "sched_setaffinity": (0,), "sched_setattr": (0,),
    "setpriority": (0, 0), "ioprio_set": (1, 0),
}  # fmt: skip
# The answers of a system that lacks the call or the right, which programs expect.
_REFUSED = {
    **dict.fromkeys(_WATCHES, errno.EACCES),
    **dict.fromkeys(_ATTRIBUTES, errno.EOPNOTSUPP),
    **dict.fromkeys((*_OBJECTS, "io_uring_setup"), errno.ENOSYS),
}
# On x86-64 numbers from here on are those of another architecture, x32.
_X32 = 0x40000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _ARGUMENT_SIZE = 0, 4, 16, 8
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _PASS_ON, _REFUSE = 0x7FFF0000, 0x7FC00000, 0x00050000
_SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5


def is_supported() -> bool:
    """Whether the calls of this architecture are known."""
    return os.uname().machine in _CALLS


def calls(machine: str = "") -> dict[str, int]:
    """The numbers of an architecture's calls by name; of this machine's unless another is named."""
    return {**_CALLS[machine or os.uname().machine], **_COMMON_CALLS}


def install() -> int:
    """Filter the calls of this process and all that it starts, for good; return where the calls to pass on arrive.

    A caller waits deaf to all signals but a deadly one: Go interrupts its threads so often that a call would never end.
    """
    return _load(program(os.uname().machine), _NEW_LISTENER | _WAIT_KILLABLE)


def close_network() -> None:
    """Let this process and all that it starts open no socket but one of this machine, for good."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    _load(offline_program(os.uname().machine), 0)


def _load(steps: bytes, flags: int) -> int:
    code = ctypes().create_string_buffer(steps, len(steps))
    address = ctypes().addressof(code)
    header = (len(steps) // 8).to_bytes(8, "little") + address.to_bytes(8, "little")
    return system("syscall", calls()["seccomp"], _SET_FILTER, flags, ctypes().create_string_buffer(header, 16))


def offline_program(machine: str) -> bytes:
    """The filter that leaves no network, in the kernel's own code."""
    steps = [
        *_beginning(machine),
        _step(_IF_EQUAL, calls(machine)["io_uring_setup"], 0, 1), _refuse(errno.ENOSYS),
        _step(_IF_EQUAL, _SOCKET[machine], 0, 3), _step(_LOAD, _FIRST_ARGUMENT), *_answer_unless(_AF_UNIX, errno.EACCES),
        _step(_RETURN, _ALLOW),
    ]  # fmt: skip
    return b"".join(steps)


def _beginning(machine: str) -> list[bytes]:
    """Refuse the calls of another architecture, and load the number of this one's."""
    return [
        _step(_LOAD, _ARCHITECTURE),
        *_answer_unless(_ARCHITECTURES[machine], errno.ENOSYS),
        _step(_LOAD, _NUMBER),
        *([_step(_IF_AT_LEAST, _X32, 0, 1), _refuse(errno.ENOSYS)] if machine == "x86_64" else []),
    ]


def program(machine: str) -> bytes:
    """The filter in the kernel's own code."""
    numbers = calls(machine)
    steps = _beginning(machine)
    for name in (each for each in PASSED_ON if each in numbers):
        steps += [_step(_IF_EQUAL, numbers[name], 0, 1), _step(_RETURN, _PASS_ON)]
    for name, number in _REFUSED.items():
        steps += [_step(_IF_EQUAL, numbers[name], 0, 1), _refuse(number)]
    for name, own in _OWN_ONLY.items():
        checks = [step for at, value in enumerate(own) for step in _own_only(at, value)]
        # Behind the checks the call's number is no longer loaded, so they end with an answer.
        steps += [_step(_IF_EQUAL, numbers[name], 0, len(checks) + 1), *checks, _step(_RETURN, _ALLOW)]
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _own_only(at: int, value: int) -> Iterable[bytes]:
    return _step(_LOAD, _FIRST_ARGUMENT + at * _ARGUMENT_SIZE), *_answer_unless(value, errno.EPERM)


def _answer_unless(value: int, error: int) -> Iterable[bytes]:
    return _step(_IF_EQUAL, value, 1, 0), _refuse(error)


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _REFUSE | error)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return code.to_bytes(2, "little") + bytes([if_true, if_false]) + value.to_bytes(4, "little")
