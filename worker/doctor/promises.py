"""The acts that each kind of isolation prevents: the table of docs/runner/isolation.md, for the doctor to try."""

from dataclasses import dataclass

from worker.children.sandbox.landlock import LEAST_VERSION
from worker.settings.isolation import IsolationWay

_ALL = frozenset(IsolationWay)
_OWN_MOUNTS = frozenset({IsolationWay.BUBBLEWRAP, IsolationWay.NAMESPACES})
_LANDLOCK = IsolationWay.LANDLOCK


@dataclass(frozen=True)
class Promise:
    """One act that a job is kept from; the name completes "a job cannot …"."""

    key: str
    name: str
    kinds: frozenset[IsolationWay] = _ALL
    least_landlock: int = 0
    """The Landlock that the kernel needs for it, whatever the kind."""

    def binds(self, way: IsolationWay | None, landlock: int) -> bool:
        """Whether it is given in this kind of isolation, on a kernel with this Landlock."""
        return way in self.kinds and landlock >= self.least_landlock


PROMISES = (
    Promise("secrets", "read the runner's secrets"),
    Promise("memory", "read the runner's memory or environment"),
    Promise("job_files", "read files of other jobs"),
    Promise("public_files", "read files outside of the system that every user can read", _OWN_MOUNTS | {_LANDLOCK}),
    Promise("processes", "see other processes", _OWN_MOUNTS),
    Promise("signals", "signal other processes, change their limits or slow them down"),
    Promise("modes", "change mode or owner of files that are not its own"),
    Promise("times", "change times of files that are not its own", _ALL - {_LANDLOCK}),
    Promise("watches", "watch files of other jobs"),
    Promise("abstract_sockets", "connect to abstract sockets of other processes", least_landlock=LEAST_VERSION),
    Promise("path_sockets", "connect to sockets in folders of the runner's user", _ALL - {_LANDLOCK}),
    Promise("shared_memory", "use System V memory, queues or semaphores of other jobs"),
    Promise("keys", "read keys that the kernel keeps for the runner"),
    Promise("settings", "change settings of the machine in /proc"),
    Promise("leftovers", "leave a process running after its step"),
)
