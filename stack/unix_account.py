"""PostgreSQL refuses to run as root: the account it runs as instead, and folders that account can reach."""

import ctypes
import hashlib
import os
import pwd
import shutil
import signal
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from stack.errors import Missing

SYSTEM_STATE = Path("/var/lib/runyard")
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Account:
    """A unix account; `None` ids mean "the account that started us"."""

    uid: int | None = None
    gid: int | None = None

    def spawn_options(self, parent_death_signal: signal.Signals = signal.SIGTERM) -> dict[str, Any]:
        """Arguments for subprocess: become the account, and do not outlive the parent."""
        options: dict[str, Any] = {
            "start_new_session": True,
            "preexec_fn": partial(_die_with_parent, parent_death_signal),
        }
        if self.uid is not None:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options

    def own(self, path: Path) -> None:
        """Give a folder to the account."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)


def database_account(name: str) -> Account:
    """The account for PostgreSQL: ours, or an unprivileged one when we are root."""
    if os.geteuid() != 0:
        return Account()
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        message = f"PostgreSQL cannot run as root, and there is no account named {name}."
        raise Missing(
            message, "Set RUNYARD_PG_USER to an unprivileged account, or start as an ordinary user."
        ) from error
    return Account(entry.pw_uid, entry.pw_gid)


def reachable_folder(wanted: Path, account: Account) -> Path:
    """`wanted`, or a stand-in below /var/lib when the account cannot get to it (below /root, say)."""
    digest = hashlib.sha256(str(wanted).encode()).hexdigest()[:12]
    stand_in = SYSTEM_STATE / digest / wanted.name
    can_reach = account.uid is None or _is_reachable(wanted.parent)
    if wanted.exists() and not can_reach:
        message = f"{wanted} holds the data, but PostgreSQL's account cannot get there any more."
        raise Missing(message, "Let others pass through the folders above it: chmod o+x on each.")
    # Whichever exists stays: the data must not seem lost because a folder was opened or closed.
    return stand_in if account.uid is not None and (stand_in.exists() or not can_reach) else wanted


def reachable_copy(folder: Path, names: Sequence[str], key: str, account: Account) -> Path:
    """`folder`, or one with copies of these names in it, made once where the account can read it."""
    if account.uid is None or _is_reachable(folder):
        return folder
    copy = SYSTEM_STATE / key
    if not copy.exists():
        SYSTEM_STATE.mkdir(mode=0o755, parents=True, exist_ok=True)
        temporary = SYSTEM_STATE / f".{key}.{os.getpid()}"
        for name in names:
            shutil.copytree(folder / name, temporary / name, symlinks=True)
        try:
            temporary.rename(copy)
        except OSError:
            shutil.rmtree(temporary)
    return copy


def _is_reachable(folder: Path) -> bool:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return all(path.stat().st_mode & stat.S_IXOTH for path in (existing, *existing.parents))


def _die_with_parent(number: signal.Signals) -> None:
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, int(number))
