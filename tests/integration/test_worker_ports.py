"""The runner opens no port to the network: it only calls out."""

import os
from pathlib import Path

import psutil
import pytest

from tests.integration.worker_bench import Bench, WorkerProcess, bench, until
from tests.support.waiting import wait_until

__all__ = ["bench"]


def listening(runner: WorkerProcess) -> set[str]:
    """Addresses on which the runner, or anything that it started, waits for others."""
    process = psutil.Process(runner.process.pid)
    found = set()
    for each in (process, *process.children(recursive=True)):
        try:
            sockets = each.net_connections(kind="inet")
        except psutil.NoSuchProcess:
            continue
        # A datagram socket that is bound to no peer waits, too.
        found |= {
            s.laddr.ip
            for s in sockets
            if s.status == psutil.CONN_LISTEN or (not s.raddr and s.type.name == "SOCK_DGRAM")
        }
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="a runner hides its open files from its own user: only root can look")
def test_a_runner_listens_on_no_port_and_a_job_on_loopback_alone(bench: Bench, tmp_path: Path) -> None:
    runner, gate = bench.runner(), tmp_path / "gate"
    assert listening(runner) == set()
    job = bench.enqueue("APPLY", bench.module(hooks={"before_apply": until(gate)}))
    bench.wait_step(job, "before-apply")
    assert listening(runner) == {"127.0.0.1"}, "the job's engine reads its state there"
    gate.touch()
    assert bench.wait_job(job)["status"] == "SUCCEEDED"
    wait_until(lambda: listening(runner) == set())
