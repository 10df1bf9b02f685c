"""Attacks on the machine, the runner and other jobs, by a child of a job in each kind of isolation that this machine has."""

import os
import resource
import socket
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.support.job_place import SANDBOXES, Collected, Place, place, system_python
from worker.attempt.isolating import check_strangers
from worker.children.child import Child
from worker.children.isolation import Isolation
from worker.children.sandbox.kernel import drop_rights
from worker.children.sandbox.landlock import LEAST_VERSION, version
from worker.errors import Fatal
from worker.settings.dispatcher import IsolationWay

__all__ = ["place"]

pytestmark = pytest.mark.anyio

# Prints each file of /proc that belongs to no process and opens for writing.
OPEN_SETTINGS = """
import os
count = 0
for folder, names, files in os.walk("/proc"):
    if folder == "/proc":
        names[:] = [name for name in names if not name.isdigit()]
    for path in (os.path.join(folder, name) for name in files):
        count += 1
        try:
            os.close(os.open(path, os.O_WRONLY))
            print("writable", path)
        except OSError:
            pass
print("tried" if count > 50 else f"only {count} files")
"""
UNCOVER = """
import os, subprocess
words = ["mount -t proc proc /proc", "umount /proc/sys", "mount -o remount,rw /proc/sys", "umount -l /usr",
         "unshare --user --map-root-user --mount --pid --fork --mount-proc test -w /proc/sys/kernel/core_pattern"]
for each in words:
    if subprocess.run(each.split(), capture_output=True).returncode == 0:
        print("worked:", each)
print("capabilities", open("/proc/self/status").read().partition("CapEff:")[2].split()[0])
"""
# Prints each way that led to another process, another's file or another's socket.
REACH_OUT = """
import ctypes, os, resource, socket, sys
pid, token, other, name = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
libc = ctypes.CDLL(None, use_errno=True)

def attempt(what, call):
    try:
        call()
        print("worked:", what)
    except (OSError, ValueError):
        pass

def must(answer):
    if answer < 0:
        raise OSError(ctypes.get_errno(), "refused")

def connect(address):
    with socket.socket(socket.AF_UNIX) as mine:
        mine.connect(address)

def by_link(path, mode):
    os.symlink(path, "link")
    try:
        os.chmod("link", mode)
    finally:
        os.unlink("link")

attempt("limit of a process", lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)))
attempt("nice of a process", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
attempt("nice of its group", lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(pid), 19))
attempt("class of a process", lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
attempt("parameters of a process", lambda: os.sched_setparam(pid, os.sched_param(0)))
attempt("processors of a process", lambda: os.sched_setaffinity(pid, os.sched_getaffinity(0)))
set_io = {"x86_64": 251, "aarch64": 30}[os.uname().machine]
attempt("disk priority of a process", lambda: must(libc.syscall(set_io, 1, pid, 3 << 13)))
attempt("disk priority of its group", lambda: must(libc.syscall(set_io, 2, os.getpgid(pid), 3 << 13)))
for path, mode in ((token, 0o777), (os.path.dirname(token), 0o777), (other, 0o777), (os.path.dirname(other), 0o777), ("/dev/null", 0o666)):
    attempt(f"chmod {path}", lambda: os.chmod(path, mode))
    attempt(f"chmod {path} by a link", lambda: by_link(path, mode))
    attempt(f"chmod {path} by its number", lambda: os.chmod(f"/proc/self/fd/{os.open(path, os.O_PATH)}", mode))
    attempt(f"chown {path}", lambda: os.chown(path, -1, os.getgid()))
    if path == "/dev/null":
        continue
    attempt(f"access list of {path}", lambda: os.setxattr(path, "user.mine", b"x"))
    attempt(f"second name of {path}", lambda: os.link(path, "second"))
    attempt(f"watch on {path}", lambda: must(libc.inotify_add_watch(libc.inotify_init(), path.encode(), 0x100)))
attempt("abstract socket", lambda: connect(chr(0) + name))
attempt("signal", lambda: os.kill(pid, 0))
print("tried")
"""
SLOW_DOWN_ITSELF = """
import os
os.nice(1)
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
print(os.sched_getscheduler(0) == os.SCHED_BATCH)
"""
CHANGE_OWN = """
import ctypes, os, subprocess, sys
open("file", "w").close()
for address in (0, 1, 2**63 - 1, 2**63, 2**64 - 1):
    assert ctypes.CDLL(None).chmod(ctypes.c_void_p(address), 0o700) == -1
os.symlink("file", "link")
folder = os.open(".", os.O_RDONLY)
with open("file") as opened:
    changes = [lambda: os.chmod("file", 0o711), lambda: os.chmod(os.path.abspath("file"), 0o712),
               lambda: os.chmod("link", 0o713), lambda: os.chmod("file", 0o714, dir_fd=folder),
               lambda: os.fchmod(opened.fileno(), 0o715), lambda: os.chmod(f"/proc/self/fd/{opened.fileno()}", 0o716)]
    for mode, change in enumerate(changes, 0o711):
        change()
        assert os.stat("file").st_mode & 0o777 == mode, oct(mode)
    os.fchown(opened.fileno(), os.getuid(), os.getgid())
os.lchown("link", -1, os.getgid())
os.chown("file", os.getuid(), -1)
try:
    os.chmod("missing", 0o700)
except FileNotFoundError:
    print("missing")
subprocess.run("chmod +x file && install -m 750 file new && tar cf a.tar new && mkdir out && tar xpf a.tar -C out && cp -a out two",
               shell=True, check=True)
print(oct(os.stat("two/new").st_mode & 0o777))
"""


async def attack(isolation: Isolation, place: Place, program: str, *arguments: object) -> list[str]:
    out = Collected()
    command = isolation.enclose(
        place.command(system_python(), "-c", program, *(str(each) for each in arguments)), place.root
    )
    assert await Child.start(command).run(out) == 0, out.text
    isolation.end(place.root)
    return out.text.splitlines()


@pytest.mark.parametrize("way", [*SANDBOXES, IsolationWay.LANDLOCK])
async def test_no_setting_of_the_machine_opens_for_writing(place: Place, way: str) -> None:
    assert await attack(place.isolation(way), place, OPEN_SETTINGS) == ["tried"]


async def test_a_jobs_own_user_opens_no_setting_that_is_not_everybodys(place: Place) -> None:
    *found, last = await attack(place.isolation("user"), place, OPEN_SETTINGS)
    assert last == "tried"
    assert [line for line in found if not Path(line.split()[1]).stat().st_mode & 0o002] == []


@pytest.mark.parametrize("way", IsolationWay)
async def test_a_job_has_no_capability_and_uncovers_nothing(place: Place, way: str) -> None:
    assert await attack(place.isolation(way), place, UNCOVER) == [f"capabilities {'0' * 16}"]


@pytest.mark.parametrize("way", IsolationWay)
async def test_a_job_reaches_no_process_file_or_socket_of_others(place: Place, way: str) -> None:
    isolation, other = place.isolation(way), place.other / "secret.tfvars"
    before = {path: path.stat() for path in (place.token, place.token.parent, other, place.other)}
    name = f"runyard-{uuid.uuid4().hex}"
    # Without root's rights, as an ordinary user's runner: the kernel protects a process that has more of them.
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True, preexec_fn=drop_rights)  # noqa: PLW1509
    nice, scheduler = os.getpriority(os.PRIO_PROCESS, bystander.pid), os.sched_getscheduler(bystander.pid)
    try:
        with socket.socket(socket.AF_UNIX) as outside:
            outside.bind(f"\0{name}")
            outside.listen()
            found = await attack(isolation, place, REACH_OUT, bystander.pid, place.token, other, name)
        assert bystander.poll() is None
        assert resource.prlimit(bystander.pid, resource.RLIMIT_CPU)[0] != 1
        assert os.getpriority(os.PRIO_PROCESS, bystander.pid) == nice
        assert os.sched_getscheduler(bystander.pid) == scheduler
    finally:
        bystander.kill()
        bystander.wait()
    if version() < LEAST_VERSION:
        found = [line for line in found if line != "worked: abstract socket"]
    assert found == ["tried"]
    after = {path: path.stat() for path in before}
    assert [(each.st_mode, each.st_gid) for each in after.values()] == [(s.st_mode, s.st_gid) for s in before.values()]


@pytest.mark.parametrize("way", IsolationWay)
async def test_a_job_slows_itself_down(place: Place, way: str) -> None:
    assert await attack(place.isolation(way), place, SLOW_DOWN_ITSELF) == ["True"]


@pytest.mark.parametrize("way", IsolationWay)
async def test_a_job_changes_mode_and_owner_of_its_own_files(place: Place, way: str) -> None:
    assert await attack(place.isolation(way), place, CHANGE_OWN) == ["missing", "0o750"]


@pytest.mark.parametrize("way", IsolationWay)
async def test_programs_of_a_job_talk_over_abstract_sockets_of_their_own(place: Place, way: str) -> None:
    program = """
import os, socket
server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
server.bind(chr(0) + "of-this-job"); server.listen()
if os.fork() == 0:
    client.connect(chr(0) + "of-this-job"); client.send(b"hello"); os._exit(0)
print(server.accept()[0].recv(5).decode())
"""
    assert await attack(place.isolation(way), place, program) == ["hello"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("way", SANDBOXES)
def test_a_shared_runner_refuses_to_start_as_root(place: Place, way: str) -> None:
    isolation = place.isolation(way)
    check_strangers(isolation, {"org_id": "one organisation's"})
    with pytest.raises(Fatal, match="runs as root") as refused:
        check_strangers(isolation, {"org_id": None})
    assert "user of its own" in refused.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_shared_runner_may_be_root_where_each_job_is_a_user_of_its_own(place: Place) -> None:
    check_strangers(place.isolation("user"), {"org_id": None})
