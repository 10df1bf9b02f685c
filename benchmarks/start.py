"""Measures the start of the embedded stack, cold (empty folder) and warm (second start), and the memory that it uses."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.outcome import Outcome
from benchmarks.processes import family, memory_mib
from tests.support.stack import RunningStack, start_stack

WARM_STARTS = 3


def measure(outcome: Outcome) -> None:
    """Start once in an empty folder and then again and again in the same one."""
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        with outcome.part("cold start"), started(home) as (seconds, _):
            outcome.parts["cold_seconds"] = seconds
        warm = []
        for _ in range(WARM_STARTS):
            with outcome.part("warm start"), started(home) as (seconds, stack):
                warm.append(seconds)
                outcome.parts["warm_seconds"] = round(median(warm), 2)
                with outcome.part("memory"):
                    outcome.parts["memory_mib"] = memory(stack)


@contextmanager
def started(home: Path) -> Iterator[tuple[float, RunningStack]]:
    """Seconds until everything is healthy, and the stack."""
    began = time.monotonic()
    with start_stack(home, "--no-dashboard", "--no-demo") as stack:
        yield round(time.monotonic() - began, 2), stack


def memory(stack: RunningStack) -> dict[str, int]:
    """Proportional memory of each part with its children, in MiB: shared pages are counted once."""
    found = {name: memory_mib(family(stack.part_pid(name))) for name in ("postgres", "gateway", "functions")}
    return found | {"supervisor": memory_mib(family(stack.process.pid)[:1])}


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    print(f"{'start':<14}{'seconds':>10}")
    for name in ("cold", "warm"):
        print(f"{name:<14}{result.get(f'{name}_seconds', '–'):>10}")
    print(f"\n{'memory':<14}{'MiB':>10}")
    for name, size in result.get("memory_mib", {}).items():
        print(f"{name:<14}{size:>10}")


def main() -> None:
    """Measure, write JSON, print the table."""
    outcome = Outcome("start")
    measure(outcome)
    show(outcome.parts)
    outcome.keep()


if __name__ == "__main__":
    main()
