"""Output that no runner wants: floods, endless lines, broken text, and a disk that is full."""

import re
import time
from datetime import datetime
from pathlib import Path

from tests.faults.ledger import close_ledger
from tests.integration.worker_bench import Bench, bench
from tests.support.waiting import wait_until

__all__ = ["bench"]


def last_heartbeat(bench: Bench, worker: str) -> datetime:
    """The time of the runner's last heartbeat, by the server's clock."""
    with bench.database() as database:
        row = database.execute("select last_seen_at from private.heartbeats where worker_id = %s", [worker]).fetchone()
        assert row
        return datetime.fromisoformat(str(row["last_seen_at"]))


def test_a_flood_of_output_is_cut_with_a_notice_and_heartbeats_continue(bench: Bench, tmp_path: Path) -> None:
    runner = bench.runner()
    gate = tmp_path / "gate"
    flood = "cat /dev/zero | tr \\\\0 x | fold -w 200 | head -c 40000000"
    hook = f"while [ ! -e {gate} ]; do {flood}; done; echo the end of the flood"
    job = bench.enqueue("PLAN", bench.module(hooks={"before_plan": hook}))
    bench.wait_step(job, "before-plan")
    before = last_heartbeat(bench, runner.worker_id)
    wait_until(lambda: last_heartbeat(bench, runner.worker_id) > before, timeout_seconds=180, every_seconds=0.5)
    gate.touch()
    ended = bench.wait_job(job, seconds=240)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1), ended["error"]
    log = bench.log_of(job)
    notice = re.search(r"truncated: ([\d,]+) bytes", log)
    assert notice
    assert int(notice.group(1).replace(",", "")) > 1_000_000
    assert "the end of the flood" in log
    assert len(log) < 40_000_000
    close_ledger(bench, [job]).check()


def test_fifty_megabytes_without_a_newline_do_not_fill_the_memory(bench: Bench) -> None:
    runner = bench.runner()
    hook = "head -c 50000000 /dev/zero | tr '\\0' y; echo; echo after the long line"
    job = bench.enqueue("PLAN", bench.module(hooks={"before_plan": hook}))
    most = 0
    while bench.job(job)["status"] in {"QUEUED", "CLAIMED", "PROCESSING"}:
        most = max(most, memory(runner.process.pid))
        time.sleep(0.2)
    assert bench.wait_job(job)["status"] == "SUCCEEDED"
    assert "after the long line" in bench.log_of(job)
    assert most < 400_000_000
    close_ledger(bench, [job]).check()


def memory(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) * 1024 if found else 0


def test_broken_text_is_shown_as_marks(bench: Bench) -> None:
    bench.runner()
    hook = "printf 'a\\377b\\000c \\342\\202'; sleep 1; printf '\\254 end\\n'"
    job = bench.finished("PLAN", bench.module(hooks={"before_plan": hook}))
    assert "a\ufffdb\ufffdc € end\n" in bench.log_of(job["id"])
    close_ledger(bench, [job["id"]]).check()


def test_a_full_disk_is_logged_and_the_runner_survives(bench: Bench) -> None:
    # A limit on file sizes is what a full disk looks like to a process, without filling anybody's disk.
    worker = bench.register()
    runner = bench.start_worker(worker, prefix=("prlimit", "--fsize=3000000"))
    bench.online(worker)
    hook = "i=0; while [ $i -lt 80000 ]; do echo this is line number $i of a log that is longer than the disk; i=$((i+1)); done"
    job = bench.finished("PLAN", bench.module(hooks={"before_plan": hook}))
    log = bench.log_of(job["id"])
    assert "disk is full" in log
    assert "line number 0 of" in log
    assert runner.process.poll() is None
    close_ledger(bench, [job["id"]]).check()
    wait_until(lambda: bench.rows("workers", id=worker[0])[0]["status"] == "ONLINE")
