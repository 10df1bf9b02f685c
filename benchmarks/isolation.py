"""Measures the cost of a sandbox: the time and the memory that it adds to a child, and the speed of a child's output through it.

Plain children and enclosed ones take turns, so that both meet the same machine. Takes about half a minute.
"""

import asyncio
import os
import platform
import resource
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.outcome import Outcome
from worker.children.child import Child, Command
from worker.children.isolation import Isolation, find_isolation
from worker.settings.dispatcher import IsolationWay
from worker.settings.load import load_settings

CHILDREN = 40
MEGABYTES = 200


def isolation_for(way: str, base: Path) -> Isolation:
    """The one way, or what keeps this machine from it."""
    environ = {
        "WORKER_ID": str(uuid.UUID(int=1)),
        "WORKER_TOKEN": "none",
        "SUPABASE_URL": "http://127.0.0.1:1",
        "RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY": str(base),
        "RUNYARD__ENGINE__ISOLATION__WAYS": way,
    }
    found = find_isolation(load_settings(environ=environ), dict(os.environ))
    if found.way is None:
        raise RuntimeError(found.why)
    return found


async def seconds_of(command: Command) -> tuple[float, float]:
    """Measure the seconds of a child from its start to its end, and the processor time that it and its keeper use."""

    async def drop(_: bytes) -> None:
        return

    before, used = time.perf_counter(), processor()
    code = await Child.start(command).run(drop)
    took = time.perf_counter() - before
    if code != 0:
        raise RuntimeError(f"the child ended with {code}")
    return took, processor() - used


async def memory_of(command: Command) -> float:
    """MiB that a child and everything around it hold while it waits, shared pages counted once."""
    said = asyncio.Event()

    async def note(_: bytes) -> None:
        said.set()

    child = Child.start(command)
    running = asyncio.ensure_future(child.run(note))
    async with asyncio.timeout(30):
        await said.wait()
    held = sum(proportional_kib(pid) for pid in descendants(child.pid)) / 1024
    child.kill()
    await running
    return held


def descendants(root: int) -> list[int]:
    """A process and all that it started, whatever session they are in."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def proportional_kib(pid: int) -> int:
    """A process's share of the memory that it uses."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def processor() -> float:
    """Seconds that all children so far have computed: the same on a busy machine."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


async def compare(isolation: Isolation, root: Path) -> dict[str, Any]:
    """Start the same thing with and without, in turns; then let it say much."""
    plain = Command(("/bin/true",), root, {"PATH": "/usr/bin:/bin"})
    plain_runs, enclosed_runs = [], []
    for _ in range(CHILDREN):
        plain_runs.append(await seconds_of(plain))
        enclosed_runs.append(await seconds_of(isolation.enclose(plain, root)))
    loud = Command(("/usr/bin/head", "-c", str(MEGABYTES * 10**6), "/dev/zero"), root, plain.env)
    quick, slow = await seconds_of(loud), await seconds_of(isolation.enclose(loud, root))
    figures = {"plain": milliseconds(plain_runs), "enclosed": milliseconds(enclosed_runs)}
    added = {f"added_{name}": round(figures["enclosed"][name] - figures["plain"][name], 1) for name in figures["plain"]}
    waiting = Command(("/bin/sh", "-c", "echo here; read nothing < tmp/never"), root, plain.env)
    os.mkfifo(root / "tmp/never")
    memory = await memory_of(isolation.enclose(waiting, root)) - await memory_of(waiting)
    return {**figures, **added, "added_mib": round(memory, 1), "output_ratio": round(slow[0] / quick[0], 2)}


def milliseconds(runs: list[tuple[float, float]]) -> dict[str, float]:
    """The middle of what was measured: by the clock, and of a processor."""
    elapsed, computed = zip(*runs, strict=True)
    return {"ms": round(median(elapsed) * 1000, 1), "processor_ms": round(sum(computed) / len(runs) * 1000, 1)}


def main() -> None:
    """Measure each way that this machine has, show, keep."""
    outcome = Outcome(
        "isolation", {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "load": os.getloadavg()}
    )
    print(f"{'a child, ms':<14}{'plain':>8}{'enclosed':>10}{'added':>8}{'of a processor':>16}{'MiB':>7}{'output':>9}")
    for way in IsolationWay:
        with outcome.part(way), tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
            Path(folder).chmod(0o755)
            root = Path(folder) / ".temp/job"
            for name in ("tmp", "home"):
                (root / name).mkdir(parents=True)
            found = asyncio.run(compare(isolation_for(way, Path(folder)), root))
            outcome.parts[way] = found
            outcome.ratio(f"output through {way}", found["output_ratio"], is_less_better=True)
            row = (found["plain"]["ms"], found["enclosed"]["ms"], found["added_ms"], found["added_processor_ms"])
            print(
                f"{way:<14}{row[0]:>8}{row[1]:>10}{row[2]:>8}{row[3]:>16}{found['added_mib']:>7}{found['output_ratio']:>8}×"
            )
    outcome.keep()


if __name__ == "__main__":
    main()
