"""How long the embedded stack takes to start, cold (empty folder) and warm (second start), and what memory it holds."""

import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from tests.support.stack import RunningStack, start_stack

RESULTS = Path(__file__).parent / "results" / "start.json"
WARM_STARTS = 3


def measure() -> dict[str, Any]:
    """Start once in an empty folder and then again and again in the same one."""
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        cold, _ = start(home)
        warm = [start(home) for _ in range(WARM_STARTS)]
    return {
        "cold_seconds": cold,
        "warm_seconds": round(median(seconds for seconds, _ in warm), 2),
        "memory_mib": warm[-1][1],
    }


def start(home: Path) -> tuple[float, dict[str, int]]:
    """Seconds until everything is healthy, and each part's memory then."""
    began = time.monotonic()
    with start_stack(home, "--no-dashboard", "--no-demo") as stack:
        return round(time.monotonic() - began, 2), memory(stack)


def memory(stack: RunningStack) -> dict[str, int]:
    """Proportional memory of each part with its children, in MiB: shared pages are counted once."""
    parts = {name: stack.part_pid(name) for name in ("postgres", "gateway", "functions")}
    parts["supervisor"] = stack.process.pid
    found = {}
    for name, pid in parts.items():
        process = psutil.Process(pid)
        family = [process] if name == "supervisor" else [process, *process.children(recursive=True)]
        found[name] = round(sum(member.memory_full_info().pss for member in family) / 2**20)
    return found


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    print(f"{'start':<14}{'seconds':>10}")
    print(f"{'cold':<14}{result['cold_seconds']:>10}")
    print(f"{'warm':<14}{result['warm_seconds']:>10}")
    print(f"\n{'memory':<14}{'MiB':>10}")
    for name, size in result["memory_mib"].items():
        print(f"{name:<14}{size:>10}")


def main() -> None:
    """Measure, write JSON, print the table."""
    result = measure()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2))
    show(result)


if __name__ == "__main__":
    main()
