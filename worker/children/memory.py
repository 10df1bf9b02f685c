"""Whether the kernel ended a process of this container or unit because it was over its memory limit."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

STARVED = "It ran out of memory: raise the memory limit of the place where it runs."
_GROUPS = Path("/sys/fs/cgroup")


def memory_kills(groups: Path = _GROUPS, own: Path = Path("/proc/self/cgroup")) -> int:
    """Count the processes that the kernel has ended so since the group was made; none where nobody counts."""
    for file in _counters(groups, own):
        with suppress(OSError, ValueError):
            for line in file.read_text(encoding="ascii").splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    return 0


def _counters(groups: Path, own: Path) -> Iterator[Path]:
    """The group's own file: below its name as the machine sees it, or at the top as a container does."""
    with suppress(OSError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, kinds, name = line.split(":", 2)
            if not kinds:
                yield groups / name.lstrip("/") / "memory.events"
            elif "memory" in kinds.split(","):
                yield groups / "memory" / name.lstrip("/") / "memory.oom_control"
    yield groups / "memory.events"
    yield groups / "memory" / "memory.oom_control"
