"""The filter of system calls, run step by step as a kernel of either architecture would."""

import errno
import struct
from collections.abc import Callable

import pytest

from worker.children.sandbox import seccomp

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, PASS_ON = 0x7FFF0000, 0x7FC00000


def verdict(
    machine: str, number: int, architecture: int, *arguments: int, program: Callable[[str], bytes] = seccomp.program
) -> int:
    """Run the program on one call, with the three kinds of steps that it has."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("<HBBI", program(machine)))
    at, accumulator = 0, 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x15 | 0x35:
                at += if_true if (accumulator == value if code == 0x15 else accumulator >= value) else if_false
            case 0x06:
                return int(value)


def refusal(error: int) -> int:
    return 0x00050000 | error


@pytest.mark.parametrize("machine", MACHINES)
def test_each_call_gets_its_answer(machine: str) -> None:
    numbers = seccomp.calls(machine)
    answers = {name: verdict(machine, number, MACHINES[machine]) for name, number in numbers.items()}
    assert {name for name, answer in answers.items() if answer == PASS_ON} == numbers.keys() & set(seccomp.PASSED_ON)
    assert answers["inotify_add_watch"] == refusal(errno.EACCES)
    assert {answers[name] for name in ("io_uring_setup", "shmat", "msgrcv", "mq_open", "keyctl")} == {
        refusal(errno.ENOSYS)
    }
    assert {answers[name] for name in numbers if "xattr" in name} == {refusal(errno.EOPNOTSUPP)}
    assert {name for name, answer in answers.items() if answer == ALLOW} == {
        "prlimit64", "seccomp", "setpriority", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr",
    }  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "name", ["prlimit64", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"]
)
def test_only_a_processs_own_limits_and_scheduler_can_be_set(machine: str, name: str) -> None:
    number = seccomp.calls(machine)[name]
    assert verdict(machine, number, MACHINES[machine], 0) == ALLOW
    for pid in (1, 4711, 2**31 - 1):
        assert verdict(machine, number, MACHINES[machine], pid) == refusal(errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("name", "process"), [("setpriority", 0), ("ioprio_set", 1)])
def test_only_a_processs_own_priority_can_be_set(machine: str, name: str, process: int) -> None:
    number = seccomp.calls(machine)[name]
    # Which kind of process, its group, its user; and who.
    for which in range(4):
        for who in (0, 1, 4711):
            expected = ALLOW if (which, who) == (process, 0) else refusal(errno.EPERM)
            assert verdict(machine, number, MACHINES[machine], which, who) == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_every_other_call_is_allowed_and_other_architectures_have_none(machine: str) -> None:
    named = set(seccomp.calls(machine).values())
    assert {verdict(machine, number, MACHINES[machine]) for number in range(500) if number not in named} == {ALLOW}
    # As i386 does: the same number means another call there.
    assert {verdict(machine, number, 0x40000003) for number in range(500)} == {refusal(errno.ENOSYS)}


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 41), ("aarch64", 198)])
def test_child_without_a_network_opens_only_sockets_of_its_machine(machine: str, number: int) -> None:
    def offline(call: int, *arguments: int, architecture: int = MACHINES[machine]) -> int:
        return verdict(machine, call, architecture, *arguments, program=seccomp.offline_program)

    # AF_UNIX; IPv4, IPv6, netlink, packets and VSOCK.
    assert offline(number, 1) == ALLOW
    assert {offline(number, family) for family in (2, 10, 16, 17, 40)} == {refusal(errno.EACCES)}
    assert offline(seccomp.calls(machine)["io_uring_setup"]) == refusal(errno.ENOSYS)
    assert {offline(each) for each in range(600) if each not in (number, 425)} == {ALLOW}
    assert offline(number, 1, architecture=0x40000003) == refusal(errno.ENOSYS)


def test_x32_numbers_do_not_pass() -> None:
    assert verdict("x86_64", 0x40000000 | 90, MACHINES["x86_64"]) == refusal(errno.ENOSYS)
