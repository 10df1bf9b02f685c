"""A runner behind a proxy in the middle of a real apply that continues until a test ends it."""

import json
import time
from pathlib import Path
from typing import Any

from tests.faults.ledger import close_ledger
from tests.faults.worker_engine import HeldTofu
from tests.faults.worker_proxy import Proxy
from tests.integration.worker_bench import Bench, WorkerProcess
from tests.support.waiting import wait_until

SLOW = """
resource "terraform_data" "slow" {{
  provisioner "local-exec" {{
    command = "touch {book}/begun; i=0; while [ ! -e {book}/go ]; do i=$((i+1)); echo line-$i. | tee -a {book}/printed; sleep 1; done"
  }}
}}
output "greeting" {{ value = "hello" }}
"""


def silence_seconds(bench: Bench, worker: str) -> float:
    """Seconds since the last heartbeat, by the server's clock."""
    with bench.database() as database:
        row = database.execute(
            "select extract(epoch from now() - last_seen_at) as age from private.heartbeats where worker_id = %s",
            [worker],
        ).fetchone()
        return float(row["age"]) if row else 0.0


def forget_heartbeats(bench: Bench, worker: str) -> None:
    """Skip the time that a silent runner has, without waiting for it."""
    with bench.database() as database:
        database.execute(
            "update private.heartbeats set last_seen_at = now() - interval '2 minutes' where worker_id = %s", [worker]
        )
        database.execute(
            "update private.live_jobs set lease_until = now() - interval '1 minute' where worker_id = %s", [worker]
        )


def lose(bench: Bench, worker: str) -> None:
    """Let that time pass, and have what the runner held swept."""
    forget_heartbeats(bench, worker)
    with bench.database() as database:
        database.execute("select private.sweep_leases()")


class Apply:
    """A runner behind a proxy, in the middle of a real apply that continues until a test ends it."""

    def __init__(self, bench: Bench, proxy: Proxy, engine: HeldTofu, home: Path | None = None) -> None:
        self.bench, self.proxy, self.engine = bench, proxy, engine
        self.worker = bench.register()
        self.runner = bench.start_worker(self.worker, url=proxy.url, home=home, **engine.variables)
        bench.online(self.worker)
        files = {"main.tf": SLOW.format(book=engine.book)}
        self.module = bench.module(source={"files": files})
        self.job = bench.enqueue("APPLY", self.module)
        wait_until((engine.book / "begun").exists, timeout_seconds=180)

    def cut(self) -> None:
        """Cut the runner off, and let the time pass that a silent runner has."""
        self.proxy.cut()
        lose(self.bench, self.worker[0])

    def end(self) -> None:
        (self.engine.book / "go").touch()

    def start_again(self, home: Path | None = None) -> WorkerProcess:
        """Start the runner again as its supervisor would, beside the files that the dead one left."""
        self.runner = self.bench.start_worker(
            self.worker, url=self.proxy.url, instance=self.runner.instance, home=home or self.runner.home,
            **self.engine.variables,
        )  # fmt: skip
        return self.runner

    def entries(self) -> list[Path]:
        return list(self.runner.home.glob("instances/*/jobs/*/state/*.entry"))

    def outcome(self) -> Any:
        (record,) = self.runner.home.glob("instances/*/jobs/*/job.json")
        return json.loads(record.read_text())["outcome"]

    def wait_ended_away(self) -> None:
        """The engine has ended while the project is away: its state and its exit wait on the runner's disk."""
        wait_until(lambda: self.entries() and self.outcome(), timeout_seconds=180)

    def check_whole(self, row: dict[str, Any]) -> None:
        """Resources, state, log and outputs are as if nothing had been."""
        assert (row["status"], row["attempt"], row["error"]) == ("SUCCEEDED", 1, None), (
            f"{row['error']}\n{self.bench.log_of(self.job)[-3000:]}"
        )
        info = self.bench.rpc("state_info", p_module=self.module)
        assert info["lock"] is None
        stored = self.bench.rpc("state_version", p_module=self.module, p_serial=info["serial"])
        assert [each["type"] for each in json.loads(stored["body"])["resources"]] == ["terraform_data"]
        assert row["result"]["outputs"]["greeting"]["value"] == "hello"
        assert "Apply complete! Resources: 1 added" in self.bench.log_of(self.job)
        self.close_ledger()

    def close_ledger(self) -> None:
        """Every promise was kept, line by line of what the engine printed, too."""
        close_ledger(self.bench, [self.job], self.engine.runs, {self.job: self.engine.book / "printed"}).check()


def pass_seconds(seconds: float) -> None:
    """The outage itself, without waiting for anything else."""
    ends_at = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= ends_at, timeout_seconds=seconds + 10, every_seconds=0.1)
