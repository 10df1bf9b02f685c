"""From a child's output to chunks in the database, beside a program that does nothing but read the same output."""

import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from tests.integration.worker_bench import Bench, open_bench
from tests.support.stack import Project
from worker.children.child import READ_BYTES
from worker.logs.job_log import JobLog
from worker.logs.redactor import Redactor
from worker.logs.spool import Spool

LINE = "module.network.aws_subnet.private[%06d]: Creation complete after 12s [id=subnet-0a1b2c3d4e5f6071]\n"
LINES = 240_000
SECRETS = 40


def measure(project: Project, folder: Path) -> dict[str, Any]:
    """The same file three ways: by a bare pipe, through the runner's own log, and from end to end."""
    output = folder / "output.txt"
    output.write_text("".join(LINE % number for number in range(LINES)))
    megabytes = output.stat().st_size / 1e6
    bare = read_bare(output)
    spooled = spool(output, folder / "spool")
    with open_bench(project, folder) as bench:
        whole = ship(bench, output)
    return {
        "megabytes": round(megabytes, 1),
        "lines": LINES,
        "pipe_mb_per_second": round(megabytes / bare, 1),
        "redact_and_spool_mb_per_second": round(megabytes / spooled, 1),
        "end_to_end_mb_per_second": round(megabytes / whole["seconds"], 1),
        "end_to_end_lines_per_second": round(LINES / whole["seconds"]),
        "child_held_up_seconds": round(whole["child_seconds"], 2),
        "runner_cpu_seconds_per_100_mb": round(whole["cpu_seconds"] / megabytes * 100, 2),
        "pipe_per_end_to_end": round(whole["seconds"] / bare, 1),
        "pipe_per_redact_and_spool": round(spooled / bare, 1),
    }


def read_bare(output: Path) -> float:
    """Seconds that `cat` and a reading loop take."""
    began = time.perf_counter()
    with subprocess.Popen(["cat", output], stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout
        while process.stdout.read(READ_BYTES):
            pass
    return time.perf_counter() - began


def spool(output: Path, folder: Path) -> float:
    """CPU seconds of decoding, redacting with many secrets, and writing down."""
    secrets = [f"{number:04}-secret-of-this-host" for number in range(SECRETS)]
    log = JobLog(Spool(folder), Redactor(secrets), lambda _: None)
    began = time.process_time()
    with output.open("rb") as file:
        while data := file.read(READ_BYTES):
            log.write(data)
    log.end_output()
    return time.process_time() - began


def ship(bench: Bench, output: Path) -> dict[str, float]:
    """A real job whose hook prints the file: from the step's begin to the last chunk's commit."""
    runner = bench.runner()
    bench.finished("PLAN", bench.module())
    process = psutil.Process(runner.process.pid)
    before = process.cpu_times()
    job = bench.enqueue("PLAN", bench.module(hooks={"before_init": f"cat {output}; exit 1"}))
    row = bench.wait_job(job)
    after = process.cpu_times()
    step = next(each for each in row["steps"] if each["name"] == "before-init")
    began, ended = (datetime.fromisoformat(step[name]) for name in ("started_at", "finished_at"))
    with bench.database() as database:
        query = (
            "select max(created_at) as at, sum(octet_length(body)) as n from public.job_log_chunks"
            " where job_id = %s and step = 'before-init'"
        )
        stored = database.execute(query, [job]).fetchone()
    assert stored
    if int(stored["n"]) < output.stat().st_size:
        raise RuntimeError(f"{stored['n']} of {output.stat().st_size} bytes arrived")
    return {
        "seconds": (stored["at"] - began).total_seconds(),
        "child_seconds": (ended - began).total_seconds(),
        "cpu_seconds": after.user + after.system - before.user - before.system,
    }


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    print(f"\n{'log of ' + str(result['megabytes']) + ' MB':<34}{'MB/s':>10}{'times the pipe':>16}")
    print(f"{'pipe alone':<34}{result['pipe_mb_per_second']:>10}{1.0:>15}×")
    for name, ratio in (("redact_and_spool", "pipe_per_redact_and_spool"), ("end_to_end", "pipe_per_end_to_end")):
        print(f"{name.replace('_', ' '):<34}{result[f'{name}_mb_per_second']:>10}{result[ratio]:>15}×")
    print(
        f"{result['end_to_end_lines_per_second']:,} lines/s into the database; the child waited"
        f" {result['child_held_up_seconds']} s; {result['runner_cpu_seconds_per_100_mb']} s of CPU for 100 MB",
        flush=True,
    )
