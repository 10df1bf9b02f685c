"""From enqueue to the first step: with the doorbell, and by polling alone."""

import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.integration.worker_bench import Bench, open_bench
from tests.support.stack import Project
from tests.support.waiting import wait_until

SAMPLES = 60
# Spread over several polls, so that a job may meet any moment of the pause between two.
SECONDS = {"realtime": 15.0, "polling": 25.0}
# The job stays where it is: the end of another job also makes a runner look for work.
HOLD = {"hooks": {"before_init": "exec sleep 600"}}


def measure(project: Project, folder: Path) -> dict[str, Any]:
    """Both ways, each with an organisation and a runner of its own."""
    found: dict[str, Any] = {way: measure_way(project, folder / way, way) for way in SECONDS}
    for part in ("p50", "p99"):
        found[f"{part}_ratio"] = round(found["polling"][f"{part}_ms"] / found["realtime"][f"{part}_ms"], 1)
    return found


def measure_way(project: Project, folder: Path, way: str) -> dict[str, Any]:
    """Enqueue job after job for a runner with room for all of them."""
    folder.mkdir()
    with open_bench(project, folder) as bench:
        is_live = way == "realtime"
        runner = bench.runner(options={"capacity": SAMPLES}, RUNYARD__SERVER__REALTIME=str(is_live).lower())
        if is_live:
            wait_until(lambda: runner.said("doorbell_connected"))
        jobs = []
        for module in [bench.module(**HOLD) for _ in range(SAMPLES)]:
            jobs.append(bench.enqueue("PLAN", module))
            time.sleep(SECONDS[way] / SAMPLES)
        delays = sorted(wait_until(lambda job=job: delay(bench, job), timeout_seconds=90) for job in jobs)
        # The third signal kills what is held; a busy process may take two that come close together for one.
        while runner.process.poll() is None:
            runner.process.terminate()
            time.sleep(1)
    return {f"p{part}_ms": round(delays[len(delays) * part // 100] * 1000, 1) for part in (50, 99)}


def delay(bench: Bench, job: int) -> float | None:
    """Seconds from the commit of the enqueue to the runner's first step; both clocks are this machine's."""
    row = bench.job(job)
    if not row["steps"]:
        return None
    began = datetime.fromisoformat(row["steps"][0]["started_at"])
    return (began - datetime.fromisoformat(row["created_at"])).total_seconds()


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    print(f"\n{'enqueue to first step':<24}{'p50 ms':>10}{'p99 ms':>10}   ({SAMPLES} jobs each)")
    for way in SECONDS:
        print(f"{way:<24}{result[way]['p50_ms']:>10}{result[way]['p99_ms']:>10}")
    print(f"{'polling / realtime':<24}{result['p50_ratio']:>9}×{result['p99_ratio']:>9}×", flush=True)
