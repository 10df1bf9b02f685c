"""Carries out `chmod` and `chown` for a child that may not call them itself, on the files of its job and on no others.

The place of the opened file decides, as the kernel reports it. So it does not matter by which path the child names the file, nor what it
changes meanwhile.
"""

from __future__ import annotations

import errno
import os
import select

from worker.children.sandbox.kernel import ctypes, system
from worker.children.sandbox.seccomp import PASSED_ON, calls

_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_REQUEST_BYTES, _LONGEST_PATH = 80, 4096
_ID, _PID, _NUMBER, _ARGUMENTS = 0, 8, 16, 32
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _AT_EMPTY_PATH = 0xFFFFFF9C, 0x100, 0x1000
_NOBODY = 0xFFFFFFFF


def serve(listener: int, own: list[str]) -> None:
    """Answer one call after the other, until no process of the child is left."""
    names = {calls()[name]: name for name in PASSED_ON if name in calls()}
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while poll.poll()[0][1] & select.POLLIN:
        request = ctypes().create_string_buffer(_REQUEST_BYTES)
        try:
            system("ioctl", listener, _RECEIVE, request)
            error = carry_out(request.raw, names, own)
            reply = request.raw[_ID:_PID] + bytes(8) + (-error).to_bytes(4, "little", signed=True) + bytes(4)
            system("ioctl", listener, _SEND, ctypes().create_string_buffer(reply, len(reply)))
        except OSError:
            # The process that waited has been killed.
            continue


def carry_out(request: bytes, names: dict[int, str], own: list[str]) -> int:
    """Do what a process asks for, if the file is its job's own; return the kernel's error, or 0."""
    pid, name = _word(request, _PID), names[_word(request, _NUMBER)]
    words = [_word(request, _ARGUMENTS + 8 * index, 8) for index in range(5)]
    try:
        path, flags, values = target_of(pid, name, words)
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC | flags)
    except OSError as error:
        return error.errno or errno.EPERM
    try:
        change(opened, name, values, own)
    except OSError as error:
        return error.errno or errno.EPERM
    finally:
        os.close(opened)
    return 0


def target_of(pid: int, name: str, words: list[int]) -> tuple[bytes, int, list[int]]:
    """Return the path of a call's file as seen from here, how to open it, and the call's other words."""
    if name in ("fchmod", "fchown"):
        return b"/proc/%d/fd/%d" % (pid, words[0] & _NOBODY), 0, words[1:]
    folder, address, *rest = words if name.endswith(("at", "at2")) else [_AT_FDCWD, *words]
    flags = {"fchmodat2": rest[1], "fchownat": rest[2], "lchown": _AT_SYMLINK_NOFOLLOW}.get(name, 0)
    base = b"/proc/%d/cwd" % pid if folder & _NOBODY == _AT_FDCWD else b"/proc/%d/fd/%d" % (pid, folder & _NOBODY)
    path = read_path(pid, address)
    if not path and flags & _AT_EMPTY_PATH:
        return base, 0, rest
    if not path:
        raise OSError(errno.ENOENT, "no path")
    # These names mean the process itself, which would be this one here.
    for own_name in (b"/proc/self/", b"/proc/thread-self/"):
        path = path.replace(own_name, b"/proc/%d/" % pid, 1) if path.startswith(own_name) else path
    return os.path.join(base, path), os.O_NOFOLLOW if flags & _AT_SYMLINK_NOFOLLOW else 0, rest


def read_path(pid: int, address: int) -> bytes:
    """Read a path from the memory of the process that waits."""
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        path, end, _ = os.pread(memory, _LONGEST_PATH, address).partition(b"\0")
    finally:
        os.close(memory)
    if not end:
        raise OSError(errno.ENAMETOOLONG, "the path has no end")
    return path


def change(opened: int, name: str, values: list[int], own: list[str]) -> None:
    """Change the mode or the owner of an opened file, unless it is somewhere else than the job's own files."""
    link = f"/proc/self/fd/{opened}"
    place = os.readlink(link)
    if not any(place == root or place.startswith(f"{root}/") for root in own):
        raise OSError(errno.EPERM, "not a file of the job", place)
    if "chmod" in name:
        os.chmod(link, values[0] & 0o7777)
        return
    owner, group = (-1 if value & _NOBODY == _NOBODY else value & _NOBODY for value in values[:2])
    os.chown(link, owner, group)


def _word(raw: bytes, at: int, size: int = 4) -> int:
    return int.from_bytes(raw[at : at + size], "little")
