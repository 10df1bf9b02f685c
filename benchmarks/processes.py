"""Memory and CPU time of processes, some of which end while one looks."""

from collections.abc import Callable, Iterator

import psutil


def family(pid: int) -> list[psutil.Process]:
    """A process and everything below it."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def memory_mib(processes: list[psutil.Process]) -> int:
    """Proportional memory of those that are still there: shared pages are counted once, where the system can tell."""
    return round(sum(_of_the_living(processes, _proportional)) / 2**20)


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """CPU time of those that are still there, each with its children that have ended."""
    return sum(_of_the_living(processes, lambda process: sum(process.cpu_times()[:4])))


def _proportional(process: psutil.Process) -> float:
    found = process.memory_full_info()
    return float(getattr(found, "pss", 0) or found.rss)


def _of_the_living(processes: list[psutil.Process], read: Callable[[psutil.Process], float]) -> Iterator[float]:
    """PostgreSQL's backends come and go: one that went between the list and the look counts nothing."""
    for process in processes:
        try:
            yield read(process)
        except psutil.NoSuchProcess:
            continue
